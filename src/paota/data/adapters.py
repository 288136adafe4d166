"""Data sets of other libraries, read item by item through their public protocols, without an import of the library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from paota.base.errors import UserError
from paota.base.types import NumPyArray


@runtime_checkable
class Indexed(Protocol):
    """A data set whose items have numbers, such as a `torch.utils.data.Dataset`."""

    def __getitem__(self, i: int, /) -> object: ...

    def __len__(self) -> int: ...


TorchItems: TypeAlias = Indexed | Iterable[object]  # items (input, label)
Rows: TypeAlias = Indexed | Iterable[object]  # items that map columns to values


def torch_arrays(part: str, dataset: TorchItems, *, channels_first: bool) -> tuple[NumPyArray, NumPyArray]:
    """Return (inputs [N, ...], labels [N]) of a `torch.utils.data.Dataset` of pairs (input, label).

    Args:
        part: "train" or "test", for messages.
        dataset: the pairs. PIL images and NumPy arrays are taken as they are.
        channels_first: whether tensors with three axes are [C, H, W], as in torchvision; they become [H, W, C].
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


def column_arrays(part: str, rows: Rows, columns: tuple[str, ...]) -> list[NumPyArray]:
    """Return an array [N, ...] for each of the `columns` of a Hugging Face `datasets` object or an iterable of mappings."""
    source = f"the Hugging Face {part} set"
    found: list[list[NumPyArray]] = [[] for _ in columns]
    for i, row in enumerate(_items(rows, source)):
        for values, column in zip(found, columns, strict=True):
            try:
                value = row[column]  # type: ignore[index]
            except (KeyError, TypeError, IndexError):
                known = ", ".join(map(str, row)) if isinstance(row, dict) else f"{type(row).__name__} objects"
                raise UserError(f"{source}: has no column '{column}' (it holds {known})") from None
            values.append(_array(value, source, i))
    return [_stack(values, source, f"'{column}'") for values, column in zip(found, columns, strict=True)]


def _items(dataset: Indexed | Iterable[object], source: str) -> Iterator[object]:
    """Yield the items, by number if possible: an old-style `__getitem__` need not raise IndexError at its end."""
    if isinstance(dataset, Indexed):
        return (dataset[i] for i in range(len(dataset)))
    if not isinstance(dataset, Iterable):
        raise UserError(f"{source}: {type(dataset).__name__} can be neither indexed nor iterated over")
    return iter(dataset)


def _array(value: object, source: str, i: int) -> NumPyArray:
    array = np.asarray(value)
    if array.dtype.kind not in "uifUb":
        raise UserError(f"{source}: item {i} holds {type(value).__name__}, which is no array of numbers")
    return array


def _stack(values: list[NumPyArray], source: str, what: str) -> NumPyArray:
    if not values:
        raise UserError(f"{source}: is empty")
    for i, value in enumerate(values):
        if value.shape != values[0].shape:
            raise UserError(
                f"{source}: {what} differ in shape, {values[0].shape} at item 0 but {value.shape} at item {i}"
            )
    return np.stack(values)
