"""Whether the tables of a run folder hold together: what was changed by hand may lack anything, or ask for any memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.columns import DEVICE_SCORES, DEVICES, METRICS, needed
from ..base.files import Columns
from .result import Trajectory


def check_tables(trajectories: Sequence[Trajectory], num_devices: int) -> None:
    """Raise a ValueError that says what is wrong; `num_devices` is K."""
    for t in trajectories:
        who = f"'{t.label}', seed {t.seed}"
        _check_columns(t.metrics, needed(METRICS), f"metrics.csv of {who}")
        rounds = t.metrics["round"]
        if not len(rounds) or not np.array_equal(rounds, rounds[0] + np.arange(len(rounds))):
            raise ValueError(f"metrics.csv has not every round of {who}")
        _check_rows_of_devices(t.devices, needed(DEVICES), num_devices, int(rounds[-1]), f"devices.npz of {who}")
        if t.device_scores:
            _check_rows_of_devices(
                t.device_scores, needed(DEVICE_SCORES), num_devices, int(rounds[-1]), f"device_scores.npz of {who}"
            )
            looks = len(t.device_scores["device"]) // num_devices
            if not np.array_equal(t.device_scores["device"], np.tile(np.arange(num_devices), looks)):
                raise ValueError(f"device_scores.npz has not every device of {who}")
        if t.model.ndim != 1 or not np.issubdtype(t.model.dtype, np.floating):
            raise ValueError(f"models.npz has no model of {who}")


def _check_rows_of_devices(columns: Columns, names: Sequence[str], num_devices: int, rounds: int, where: str) -> None:
    _check_columns(columns, names, where)
    _check_range(columns["device"], num_devices, f"device in {where}")
    for name in ("round", "version", "staleness"):
        if name in columns:
            _check_range(columns[name], rounds + 1, f"{name} in {where}")


def _check_columns(columns: Columns, names: Sequence[str], where: str) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"{where} has no column '{missing[0]}'")
    if any(column.ndim != 1 or column.dtype.kind not in "biuf" for column in columns.values()):
        raise ValueError(f"{where} holds something else than numbers")


def _check_range(numbers: NDArray[Any], end: int, what: str) -> None:
    if len(numbers) and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= end):
        raise ValueError(f"a {what} is not from 0 to {end - 1}")
