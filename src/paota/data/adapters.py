"""Data sets that live in other libraries, read item by item through their public protocol: no import of them is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from paota.base.errors import UserError


def torch_arrays(part: str, dataset: Any, *, channels_first: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """(inputs [N, ...], labels [N]) of a `torch.utils.data.Dataset` of pairs (input, label).

    part: "train" or "test", for messages. channels_first: whether tensors with three axes are [C, H, W], as
    torchvision makes them; they become [H, W, C]. PIL images and NumPy arrays are taken as they are.
    """
    source = f"the torch {part} set"
    inputs, labels = [], []
    for i, item in enumerate(_items(dataset, source)):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise UserError(f"{source}: item {i} is not a pair (input, label)")
        x = _array(item[0], source, i)
        is_tensor = hasattr(item[0], "permute")
        inputs.append(np.moveaxis(x, 0, -1) if channels_first and is_tensor and x.ndim == 3 else x)
        labels.append(_array(item[1], source, i))
    return _stack(inputs, source, "inputs"), _stack(labels, source, "labels")


def column_arrays(part: str, rows: Any, columns: tuple[str, ...]) -> list[npt.NDArray[Any]]:
    """One array [N, ...] for each of the `columns` of a Hugging Face `datasets` object, or of any iterable of mappings."""
    source = f"the Hugging Face {part} set"
    found: list[list[npt.NDArray[Any]]] = [[] for _ in columns]
    for i, row in enumerate(_items(rows, source)):
        for values, column in zip(found, columns, strict=True):
            try:
                value = row[column]
            except (KeyError, TypeError, IndexError):
                known = ", ".join(map(str, row)) if isinstance(row, dict) else f"{type(row).__name__} objects"
                raise UserError(f"{source}: has no column '{column}' (it holds {known})") from None
            values.append(_array(value, source, i))
    return [_stack(values, source, f"'{column}'") for values, column in zip(found, columns, strict=True)]


def _items(dataset: Any, source: str) -> Iterator[Any]:
    """By number where that is possible: an old-style `__getitem__` need not raise IndexError at its end."""
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return (dataset[i] for i in range(len(dataset)))
    if not isinstance(dataset, Iterable):
        raise UserError(f"{source}: {type(dataset).__name__} can neither be indexed nor iterated over")
    return iter(dataset)


def _array(value: Any, source: str, i: int) -> npt.NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.kind not in "uifUb":
        raise UserError(f"{source}: item {i} holds {type(value).__name__}, which is no array of numbers")
    return array


def _stack(values: list[npt.NDArray[Any]], source: str, what: str) -> npt.NDArray[Any]:
    if not values:
        raise UserError(f"{source}: is empty")
    for i, value in enumerate(values):
        if value.shape != values[0].shape:
            raise UserError(
                f"{source}: {what} differ in shape, {values[0].shape} at item 0 but {value.shape} at item {i}"
            )
    return np.stack(values)
