"""Curves over the seeds: median and quartiles of rows (seed, round, value), thinned to a number of points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

Rows = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The median over the seeds at each x, and the quartiles around it (None with a single seed)."""

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.x)

    def at(self, chosen: np.ndarray) -> Curve:
        """Return the same curve at the chosen positions only."""
        return Curve(
            x=self.x[chosen],
            middle=self.middle[chosen],
            low=None if self.low is None else self.low[chosen],
            high=None if self.high is None else self.high[chosen],
        )


def column(rows: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return a column as floats, NaN where the value is not finite or the run has no such column."""
    if name not in rows:
        length = len(next(iter(rows.values()))) if rows else 0
        return np.full(length, np.nan)
    values = np.asarray(rows[name]).astype(float)
    return np.where(np.isfinite(values), values, np.nan)


def number(value: object) -> float | None:
    """Return a finite number, or None; in the summary None stands for a target that was not reached."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return None
    return float(value) if math.isfinite(value) else None


def against_round(rows: Rows, name: str, points: int) -> Curve | None:
    """Return median and quartiles over the seeds at each round that has a value, or None if no round has one.

    Where seeds stopped in different rounds, the curve ends with the first of them, by the rule of `against_time`.
    """
    table = _pivot(rows, column(rows, name))
    return None if table is None else thinned(_until_the_first_ends(_spread(*table), *table), points)


def against_time(rows: Rows, name: str, points: int) -> Curve | None:
    """Return the same against simulated seconds.

    Synchronous rounds end at different times in different seeds. Then each seed's curve is interpolated linearly on one
    common grid, up to the first end of a seed, because a median over fewer and fewer seeds would jump. Seeds that
    stopped early (before 90 % of the median end) do not shorten the curve.
    """
    values = column(rows, name)
    times_s = column(rows, "time_s")
    table = _pivot(rows, values)
    if table is None:
        return None
    by_round = _pivot(rows, np.where(np.isfinite(values), times_s, np.nan))
    if by_round is not None and len(by_round[0]) == len(table[0]) and _same_across_seeds(by_round[1]):
        curve = replace(_spread(*table), x=np.nanmax(by_round[1], axis=1))
        return thinned(_until_the_first_ends(curve, *table), points)
    known = np.isfinite(values) & np.isfinite(times_s)
    own_rows = [known & (rows["seed"] == seed) for seed in np.unique(rows["seed"])]
    own_rows = [own for own in own_rows if own.any()]
    if not own_rows:
        return None
    ends_s = np.array([times_s[own].max() for own in own_rows])
    start_s = max(times_s[own].min() for own in own_rows)
    end_s = _first_end(ends_s)
    grid_s = np.linspace(start_s, end_s, max(points, 2))
    read = [np.interp(grid_s, times_s[own], values[own], right=np.nan) for own in own_rows]
    return _spread(grid_s, np.stack(read, axis=1))


def against_total(rows: Rows, spent: str, name: str, points: int) -> Curve | None:
    """Return a value against the spending so far (energy, airtime): median over the seeds of both in each round."""
    per_round = column(rows, spent)
    if not np.isfinite(per_round).any():
        return None
    total = np.empty(len(per_round))
    for seed in np.unique(rows["seed"]):
        own = rows["seed"] == seed
        total[own] = np.cumsum(np.nan_to_num(per_round[own]))
    values = column(rows, name)
    reached = _pivot(rows, np.where(np.isfinite(values), total, np.nan))
    curve = _pivot(rows, values)
    if curve is None or reached is None:
        return None
    return thinned(replace(_spread(*curve), x=np.nanmedian(reached[1], axis=1)), points)


def thinned(curve: Curve, points: int) -> Curve:
    """Return at most `points` of the curve's points, chosen so that its shape remains."""
    if len(curve) <= max(points, 3):
        return curve
    return curve.at(shape_keeping(curve.x, curve.middle, max(points, 3)))


def shape_keeping(x: np.ndarray, y: np.ndarray, points: int) -> np.ndarray:
    """Return the positions of `points` points chosen by largest triangles (Steinarsson 2013).

    Each bucket keeps the point that spans the largest triangle with the last kept point and the mean of the next
    bucket. Unlike every n-th point this keeps spikes, and an alternating curve stays alternating.
    """
    edges = np.linspace(1, len(x) - 1, points - 1).astype(int)  # the last bucket is the last point alone
    sizes = np.diff(np.append(edges, len(x)))
    mean_x, mean_y = (np.add.reduceat(values, edges) / sizes for values in (x, y))
    kept = [0]
    for bucket in range(points - 2):
        inside = slice(edges[bucket], edges[bucket + 1])
        from_x, from_y = x[kept[-1]], y[kept[-1]]
        ahead_x, ahead_y = mean_x[bucket + 1], mean_y[bucket + 1]
        area = np.abs((from_x - ahead_x) * (y[inside] - from_y) - (from_x - x[inside]) * (ahead_y - from_y))
        kept.append(inside.start + int(area.argmax()))
    return np.array([*kept, len(x) - 1])


def row_quantile(matrix: np.ndarray, share: float) -> np.ndarray:
    """Return the quantile of the known values in each row (at least one), with linear interpolation.

    `numpy.nanquantile` gives the same numbers but loops over the rows in Python, which takes a minute for long runs.
    """
    ordered = np.sort(matrix, axis=1)  # NaN last
    position = share * (np.isfinite(matrix).sum(axis=1) - 1)
    below = np.floor(position).astype(int)
    rows = np.arange(len(matrix))
    lower, upper = ordered[rows, below], ordered[rows, np.ceil(position).astype(int)]
    quantile: np.ndarray = lower + (position - below) * (upper - lower)
    return quantile


def _pivot(rows: Rows, values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return (rounds, values [rounds, seeds]) of the rounds in which some seed has a value."""
    known = np.isfinite(values)
    if not known.any():
        return None
    rounds, at_round = np.unique(np.asarray(rows["round"])[known], return_inverse=True)
    seeds, at_seed = np.unique(np.asarray(rows["seed"])[known], return_inverse=True)
    matrix = np.full((len(rounds), len(seeds)), np.nan)
    matrix[at_round, at_seed] = values[known]
    return rounds.astype(float), matrix


def _first_end(ends: np.ndarray) -> float:
    """Return the first end of a seed, without the seeds that stopped much sooner than the others."""
    middle = np.median(ends)
    return float(ends[ends >= min(middle, 0.9 * middle)].min())


def _until_the_first_ends(curve: Curve, rounds: np.ndarray, matrix: np.ndarray) -> Curve:
    """Return the beginning of a curve over `rounds`, for values [rounds, seeds]."""
    last = len(rounds) - 1 - np.isfinite(matrix)[::-1].argmax(axis=0)
    return curve.at(rounds <= _first_end(rounds[last]))


def _spread(x: np.ndarray, matrix: np.ndarray) -> Curve:
    if matrix.shape[1] == 1:
        return Curve(x=x, middle=matrix[:, 0])
    low, middle, high = (row_quantile(matrix, share) for share in (0.25, 0.5, 0.75))
    return Curve(x=x, middle=middle, low=low, high=high)


def _same_across_seeds(matrix: np.ndarray) -> bool:
    spread = np.nanmax(matrix, axis=1) - np.nanmin(matrix, axis=1)
    return bool(np.all(spread <= 1e-9 * np.nanmax(np.abs(matrix)) + 1e-12))
