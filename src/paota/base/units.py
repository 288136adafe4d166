"""Conversions between the units people write and the ones formulas want; numbers and arrays alike."""

from __future__ import annotations

from typing import Any


def dbm_to_w(dbm: Any) -> Any:
    return 10.0 ** ((dbm - 30.0) / 10.0)


def db_to_ratio(db: Any) -> Any:
    return 10.0 ** (db / 10.0)
