"""Inference over seeds: confidence intervals, and tests whose error stays below the level.

Every interval and test is a Student t over whole seeds, so that methods are compared on the same draws. A figure relative
to another one (a gap relative to a rival's) is a ratio of two means. The test of `mean(values - bound * yardstick)` against
0 is then an exact t-test, and the bounds that it does not reject are the interval (Fieller).

Some values are known only between two ends: a target that was not reached before the run ended, or a minimum that no
search has proven. They enter every test with the end that opposes the tested claim. An unknown value (NaN) lies between
minus and plus infinity, so it never counts as evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]
CONFIDENCE = 0.95
FEWEST_SEEDS = 5  # fewer prove nothing: times are multiples of a round, so three seeds may agree by chance


class Bounds(NamedTuple):
    """Bounds of one value per seed, `[seeds]` each; `low` and `high` are equal if the value is known."""

    low: Floats
    high: Floats

    def minus(self, other: Bounds) -> Bounds:
        """Return the difference, seed by seed; NaN if both values are unbounded."""
        with np.errstate(invalid="ignore"):
            return Bounds(self.low - other.high, self.high - other.low)


def known(values: ArrayLike) -> Bounds:
    """Return known values `[seeds]` as bounds."""
    array = np.asarray(values, float)
    return Bounds(array, array)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure over the seeds with its 95 % interval; with the unit "%" or "points" the text shows it times 100."""

    value: float
    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        scale = 100.0 if self.unit in ("%", "points") else 1.0
        one, low, high = (_short(v * scale) for v in (self.value, self.low, self.high))
        return f"{one} [{low}, {high}]{f' {self.unit}' if self.unit else ''}"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One figure with a measurement per seed: the mean of `values`, relative to the mean of `yardstick` if given.

    Args:
        values: `[seeds]`, both ends.
        yardstick: `[seeds]`, both ends, above 0 on average; None means 1.
        unit: of the shown figure.
        shown: an increasing function that maps the tested figure to the shown one, such as a logarithm to a share.
    """

    values: Bounds
    yardstick: Bounds | None = None
    unit: str = ""
    shown: Callable[[float], float] = float

    @property
    def scale(self) -> Bounds:
        """The yardstick of every seed; 1 without one."""
        return known(np.ones(len(self.values.low))) if self.yardstick is None else self.yardstick

    def p_above(self, bound: float) -> float:
        """Return the one-sided p-value of "the figure is at most `bound`"; small if the seeds show that it is larger."""
        return max(_p_positive(self.values.low - bound * end) for end in self.scale)

    def p_below(self, bound: float) -> float:
        """Return the one-sided p-value of "the figure is at least `bound`"."""
        return max(_p_positive(bound * end - self.values.high) for end in self.scale)

    def estimate(self) -> Estimate:
        """Return the shown figure and its interval; an unbounded end is infinite.

        If only bounds are known, the figure uses the lower ones, and the interval covers both ends.
        """
        low = min(_fieller(self.values.low, end)[0] for end in self.scale)
        high = max(_fieller(self.values.high, end)[1] for end in self.scale)
        with np.errstate(invalid="ignore"):
            value = float(np.mean(self.values.low) / np.mean(self.scale.low))
        return Estimate(value=self.shown(value), low=self.shown(low), high=self.shown(high), unit=self.unit)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The claim `above` < figure < `below`: one end gives a superiority test, two give an equivalence test (TOST)."""

    sample: Sample
    above: float = -math.inf
    below: float = math.inf

    @property
    def p_holds(self) -> float:
        """The p-value of "it does not hold": small if the seeds show that it holds."""
        return max(
            0.0 if math.isinf(self.above) else self.sample.p_above(self.above),
            0.0 if math.isinf(self.below) else self.sample.p_below(self.below),
        )

    @property
    def p_fails(self) -> float:
        """The p-value of "it holds": small if the seeds show that it does not hold."""
        sides = [
            *([] if math.isinf(self.above) else [self.sample.p_below(self.above)]),
            *([] if math.isinf(self.below) else [self.sample.p_above(self.below)]),
        ]
        return min(1.0, len(sides) * min(sides))


def p_all_hold(statements: Sequence[Statement]) -> float:
    """Return the p-value of "not all statements hold" (intersection-union: each is tested at the whole level)."""
    return max(statement.p_holds for statement in statements)


def p_some_fails(statements: Sequence[Statement]) -> float:
    """Return the p-value of "all statements hold" (Bonferroni: one failing statement is enough)."""
    return min(1.0, len(statements) * min(statement.p_fails for statement in statements))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values `[tests]`: a level then holds for all tests together, dependent or not."""
    adjusted, worst = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def mean_interval(values: ArrayLike) -> tuple[float, float]:
    """Return the 95 % interval of the mean of values `[seeds]`; unbounded for one seed or with NaN or infinity."""
    array = np.asarray(values, float)
    return _fieller(array, np.ones(len(array)))


def _p_positive(values: Floats) -> float:
    """Return the p-value of "the mean is at most 0"; 1 with too few seeds or unknown values.

    Equal values prove little, because times in whole rounds agree by chance. n of them count as n heads in a row.
    """
    n = len(values)
    if n < FEWEST_SEEDS or not np.isfinite(values).all():
        return 1.0
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        return 0.5**n if mean > 0 else 1.0
    return float(stdtr(n - 1, -mean / error))


def _fieller(values: Floats, scale: Floats) -> tuple[float, float]:
    """Return the lowest and highest r for which `mean(values - r * scale) = 0` is not rejected."""
    n = len(values)
    if n < 2 or not (np.isfinite(values).all() and np.isfinite(scale).all()):
        return -math.inf, math.inf
    top, bottom = float(values.mean()), float(scale.mean())
    left_v, left_s = values - top, scale - bottom
    var_v, cov, var_s = (
        float(a @ b) / (n * (n - 1)) for a, b in ((left_v, left_v), (left_v, left_s), (left_s, left_s))
    )
    quantile = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) ** 2
    # (top - r bottom)^2 <= quantile (var_v - 2 r cov + r^2 var_s)
    square, half, constant = bottom**2 - quantile * var_s, top * bottom - quantile * cov, top**2 - quantile * var_v
    if square <= 0 or bottom <= 0:  # the yardstick may be 0, so any ratio is possible
        return -math.inf, math.inf
    root = math.sqrt(max(0.0, half**2 - square * constant))
    return (half - root) / square, (half + root) / square


def _short(value: float) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "?"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
