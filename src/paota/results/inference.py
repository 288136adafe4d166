"""What the seeds decide about a figure: intervals that cover what they say, and tests whose error stays below its level.

Everything is Student's t over whole seeds, so that methods are compared on the same draws. A figure that is relative to
another (a gap relative to a rival's) is a ratio of two means; testing `mean(values - bound * yardstick)` against 0 is
then an exact t-test, and the bounds that it does not reject are the interval (Fieller). A value that is only known to
lie between two ends (a target that was not reached before the run ended, a minimum that no search has proven) enters
every test with the end that speaks against what is tested; one that is unknown (NaN) lies between minus and plus
infinity. So nothing unknown is evidence.
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
FEWEST_SEEDS = 5  # fewer decide nothing: seconds come in whole rounds, so three seeds may agree by chance


class Bounds(NamedTuple):
    """A value of every seed, `[seeds]` each: `low` and `high` are equal where it is known."""

    low: Floats
    high: Floats

    def minus(self, other: Bounds) -> Bounds:
        """The difference, seed by seed; the difference of two that are unbounded is unknown."""
        with np.errstate(invalid="ignore"):
            return Bounds(self.low - other.high, self.high - other.low)


def known(values: ArrayLike) -> Bounds:
    """Values `[seeds]` as they are."""
    array = np.asarray(values, float)
    return Bounds(array, array)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure over the seeds with its 95 % interval; `unit` "%" and "points" are shown times 100."""

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
    """One figure, measured with every seed: the mean of `values`, relative to the mean of `yardstick` if there is one.

    Args:
        values: `[seeds]` each end.
        yardstick: `[seeds]` each end, above 0 on average; None stands for 1.
        unit: of what is shown.
        shown: the figure as people read it, an increasing function of it (a logarithm is tested, a share is shown).
    """

    values: Bounds
    yardstick: Bounds | None = None
    unit: str = ""
    shown: Callable[[float], float] = float

    @property
    def scale(self) -> Bounds:
        """The yardstick of every seed."""
        return known(np.ones(len(self.values.low))) if self.yardstick is None else self.yardstick

    def p_above(self, bound: float) -> float:
        """One-sided p-value of "the figure is at most `bound`": small where the seeds show that it lies above."""
        return max(_p_positive(self.values.low - bound * end) for end in self.scale)

    def p_below(self, bound: float) -> float:
        """One-sided p-value of "the figure is at least `bound`"."""
        return max(_p_positive(bound * end - self.values.high) for end in self.scale)

    def estimate(self) -> Estimate:
        """The figure and its interval, as shown; an unbounded end is infinite.

        Where only bounds are known: the lower one of the values, and the interval that holds for both of each.
        """
        low = min(_fieller(self.values.low, end)[0] for end in self.scale)
        high = max(_fieller(self.values.high, end)[1] for end in self.scale)
        with np.errstate(invalid="ignore"):
            value = float(np.mean(self.values.low) / np.mean(self.scale.low))
        return Estimate(value=self.shown(value), low=self.shown(low), high=self.shown(high), unit=self.unit)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """`above` < figure < `below`: a superiority test if one end is given, an equivalence test (TOST) if both are."""

    sample: Sample
    above: float = -math.inf
    below: float = math.inf

    @property
    def p_holds(self) -> float:
        """p-value of "it does not hold": small where the seeds show that it does."""
        return max(
            0.0 if math.isinf(self.above) else self.sample.p_above(self.above),
            0.0 if math.isinf(self.below) else self.sample.p_below(self.below),
        )

    @property
    def p_fails(self) -> float:
        """p-value of "it holds": small where the seeds show that it does not."""
        sides = [
            *([] if math.isinf(self.above) else [self.sample.p_below(self.above)]),
            *([] if math.isinf(self.below) else [self.sample.p_above(self.below)]),
        ]
        return min(1.0, len(sides) * min(sides))


def p_all_hold(statements: Sequence[Statement]) -> float:
    """p-value of "not all of them hold" (intersection-union: each must show it at the whole level)."""
    return max(statement.p_holds for statement in statements)


def p_some_fails(statements: Sequence[Statement]) -> float:
    """p-value of "all of them hold" (Bonferroni: one that fails is enough)."""
    return min(1.0, len(statements) * min(statement.p_fails for statement in statements))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values `[tests]` adjusted so that, whatever their dependence, a level holds for all tests together."""
    adjusted, worst = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def mean_interval(values: ArrayLike) -> tuple[float, float]:
    """The 95 % interval of the mean of values `[seeds]`; unbounded if a value is unknown or infinite, or alone."""
    array = np.asarray(values, float)
    return _fieller(array, np.ones(len(array)))


def _p_positive(values: Floats) -> float:
    """p-value of "the mean is at most 0"; 1 where too little is known.

    Equal values are no proof: whole rounds agree by chance. They count as so many heads in a row.
    """
    n = len(values)
    if n < FEWEST_SEEDS or not np.isfinite(values).all():
        return 1.0
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n)
    if error == 0:
        return 0.5**n if mean > 0 else 1.0
    return float(stdtr(n - 1, -mean / error))


def _fieller(values: Floats, scale: Floats) -> tuple[float, float]:
    """All r for which `mean(values - r * scale) = 0` is not rejected, from the lowest to the highest."""
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
    if square <= 0 or bottom <= 0:  # the yardstick may be 0: any ratio is possible
        return -math.inf, math.inf
    root = math.sqrt(max(0.0, half**2 - square * constant))
    return (half - root) / square, (half + root) / square


def _short(value: float) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "?"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"
