"""Turns what a user gives (numbers, lists, arrays) into checked float64 arrays, or into one clear sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError

Vector = NDArray[np.float64]
Flags = NDArray[np.bool_]


def _of_kind(name: str, value: Any, kinds: str, what: str) -> NDArray[Any]:
    """`value` as an array of at most one axis whose NumPy kind is one of `kinds`."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError):  # ragged or hopeless nesting
        raise UserError(f"{name} must be {what} or a flat list of them") from None
    if array.ndim > 1:
        raise UserError(f"{name} must be a flat list, not {array.ndim} lists inside each other")
    if array.size == 0:
        raise UserError(f"{name} is empty: give at least one device")
    if array.dtype.kind not in kinds:
        raise UserError(f"{name} must be {what} or a flat list of them")
    return array


def _refuse(name: str, array: NDArray[Any], wrong: Flags, must: str) -> None:
    """Raise the sentence for the first wrong element, if there is one."""
    if not wrong.any():
        return
    index = int(np.argmax(wrong))
    place = name if array.ndim == 0 else f"{name}[{index}]"
    raise UserError(f"{place} = {array.flat[index]} must {must}")


def vector(name: str, value: Any, *, at_most: float = math.inf) -> Vector:
    """Finite numbers in [0, at_most], as float64; a single number stays of size one without an axis."""
    array = _of_kind(name, value, "iuf", "a number")
    numbers = array.astype(np.float64)
    _refuse(name, array, np.isnan(numbers), "be a number")
    _refuse(name, array, ~np.isfinite(numbers), "be finite")
    _refuse(name, array, numbers < 0, "not be negative")
    _refuse(name, array, numbers > at_most, f"lie in [0, {at_most:g}]")
    return numbers


def flags(name: str, value: Any) -> Flags:
    """True/false values; 0 and 1 are taken as well."""
    array = _of_kind(name, value, "biuf", "true or false")
    if array.dtype.kind == "b":
        return array
    _refuse(name, array, (array != 0) & (array != 1), "be true or false (1 or 0)")
    return array.astype(np.bool_)


def scalar(name: str, value: Any, *, above: float | None = None, at_least: float | None = None) -> float:
    """One finite number inside the given bound."""
    if hasattr(value, "item") and np.ndim(value) == 0:  # scalars of NumPy and of other array libraries
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{name} must be a number, not {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise UserError(f"{name} is too large for a float64") from None
    if not math.isfinite(number):
        raise UserError(f"{name} = {number} must be a finite number")
    if above is not None and not number > above:
        raise UserError(f"{name} = {number:g} must be greater than {above:g}")
    if at_least is not None and not number >= at_least:
        raise UserError(f"{name} = {number:g} must be at least {at_least:g}")
    return number


def whole(name: str, value: Any, *, at_least: int) -> int:
    """One whole number (100.0 is taken for 100)."""
    number = scalar(name, value, at_least=at_least)
    if number != int(number):
        raise UserError(f"{name} = {number:g} must be a whole number")
    return int(value)


def same_length(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """All arrays with the one length that the lists among them share; single numbers stand for every device."""
    lists = {name: array for name, array in arrays.items() if array.ndim == 1}
    first, size = next(((name, array.size) for name, array in lists.items()), ("", 1))
    for name, array in lists.items():
        if array.size != size:
            raise UserError(f"{name} has {array.size} values, but {first} has {size}")
    return {name: np.broadcast_to(array, (size,)) for name, array in arrays.items()}


def _shown(value: object) -> str:
    """A short picture of a wrong value for an error sentence."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
