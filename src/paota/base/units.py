"""Conversions between the units of settings and of formulas, for numbers and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import jax

    from .types import NumPyArray

Number = TypeVar("Number", float, "NumPyArray", "jax.Array")


def dbm_to_w(dbm: Number) -> Number:
    """Convert a power level in dBm to watts."""
    return 10.0 ** ((dbm - 30.0) / 10.0)


def db_to_ratio(db: Number) -> Number:
    """Convert a level in dB to a power ratio."""
    return 10.0 ** (db / 10.0)
