"""Numbers with their uncertainty: bootstrap intervals over seeds, quartiles that know "never", where a curve breaks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure over the seeds with its 95 % interval."""

    value: float
    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        scale = 100.0 if self.unit in ("%", "points") else 1.0
        one, low, high = (_short(v * scale) for v in (self.value, self.low, self.high))
        return f"{one} [{low}, {high}]{f' {self.unit}' if self.unit else ''}"


def bootstrap(columns: Sequence[Floats], statistic: Callable[..., float], *, unit: str = "") -> Estimate:
    """`statistic` of columns [seeds], and its interval when whole seeds are drawn again: pairs stay together."""
    data = [np.asarray(column, dtype=np.float64) for column in columns]
    seeds = len(data[0])
    rng = np.random.default_rng(2024)  # the same data, the same interval
    draws = rng.integers(0, seeds, (RESAMPLES, seeds))
    values = np.array([statistic(*(column[rows] for column in data)) for rows in draws])
    tail = (1 - LEVEL) / 2
    # Infinities (a target never reached) have ranks but no averages: take order statistics.
    ordered = np.sort(np.where(np.isnan(values), math.inf, values))
    low, high = ordered[int(tail * RESAMPLES)], ordered[int((1 - tail) * RESAMPLES) - 1]
    return Estimate(value=float(statistic(*data)), low=float(low), high=float(high), unit=unit)


def median(values: Floats) -> float:
    """The median, with infinity for "never": no averaging of a finite value with infinity."""
    ordered = np.sort(values)
    middle = len(ordered) // 2
    if len(ordered) % 2 or not np.isfinite(ordered[middle]):
        return float(ordered[middle])
    return float(ordered[middle - 1 : middle + 1].mean())


def quartiles(values: Floats) -> tuple[float, float, float]:
    """(25 %, median, 75 %) with infinity for "never"."""
    if np.isfinite(values).all():
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
        return float(low), float(middle), float(high)
    ordered = np.sort(values)
    position = [round(q * (len(ordered) - 1)) for q in (0.25, 0.75)]
    return float(ordered[position[0]]), median(values), float(ordered[position[1]])


def first_reach(accuracy: Floats, along: Floats, target: float) -> Floats:
    """For each seed the value of `along` ([seeds, rounds + 1]) where accuracy first reaches the target, or infinity."""
    reached = np.nan_to_num(accuracy, nan=-1.0) >= target
    first = reached.argmax(axis=1)
    return np.where(reached.any(axis=1), along[np.arange(len(along)), first], math.inf)


def last_known(values: Floats, count: int = 1) -> Floats:
    """Mean of the last `count` known values of each row; a run that diverged keeps those before."""
    out = []
    for row in values:
        known = row[~np.isnan(row)]
        out.append(float(known[-count:].mean()) if len(known) else math.nan)
    return np.array(out)


def value_at(values: Floats, along: Floats, where: float) -> Floats:
    """The newest known value of each row when `along` has reached `where`."""
    out = []
    for row, axis in zip(values, along, strict=True):
        known = ~np.isnan(row) & (axis <= where)
        out.append(float(row[known][-1]) if known.any() else math.nan)
    return np.array(out)


def break_point(levels: Sequence[float], accuracy: Floats, drop: float) -> float:
    """Where accuracy [levels] has fallen by `drop` below that of the first level (no noise); infinity if it never does.

    Levels rise from the second one on; between two of them the fall is taken as straight. A curve that is already down
    at the first real level breaks there or below: minus infinity.
    """
    floor = accuracy[0] - drop
    for i in range(1, len(levels)):
        if not accuracy[i] >= floor:  # NaN counts as broken
            if i == 1:
                return -math.inf
            above = accuracy[i - 1] - floor
            fall = accuracy[i - 1] - np.nan_to_num(accuracy[i], nan=0.0)
            return float(levels[i - 1] + (levels[i] - levels[i - 1]) * above / fall)
    return math.inf


def _short(value: float) -> str:
    if not math.isfinite(value):
        return "never" if value > 0 else "not reached" if value < 0 else "?"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
