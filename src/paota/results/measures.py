"""Measures of a run. Every number in a summary, a sweep, a reproduction or a benchmark follows one of these rules.

- **Reach**: rounds, seconds or joules spent until the first evaluation with at least the target accuracy; infinite if no
  evaluation has it.
- **Final accuracy**: of the last evaluation. **Accuracy at** a time or round: of the newest evaluation until then.
- A seed that **diverged** has no usable model: it reaches no target, its final accuracy is 0 and its loss infinite.
- **Median and quartiles** over the seeds: linear interpolation between neighbours, sorted with infinity last. There is no
  value between a number and infinity, so such a quantile is infinite. It follows that a median is infinite exactly if at
  least half of the seeds never reach the target, and that quartiles do not contradict the median.
- **Worst and best tenth** of the devices: the mean over the tenth of the devices (rounded up) with the lowest or highest
  accuracy on data like their own; 0 for a diverged seed.

Intervals and tests over the seeds are in `inference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.files import Columns

Floats = NDArray[np.float64]


class Evaluated(Protocol):
    """The part of a `Trajectory` that the measures use."""

    @property
    def metrics(self) -> Columns: ...
    @property
    def diverged_round(self) -> int | None: ...


def first_reach(accuracy: ArrayLike, along: ArrayLike, target: float, diverged: ArrayLike = False) -> Floats:
    """Return the value of `along` where `accuracy` is first at least `target`; infinity if it never is.

    Args:
        accuracy: `[..., rounds + 1]`, NaN without an evaluation.
        along: the cost so far, of the same shape: rounds, simulated seconds or joules.
        target: share of the test set, 0 to 1.
        diverged: `[...]`, true for seeds that reach no target.

    Returns:
        `[...]`, in the unit of `along`.
    """
    reached = np.asarray(accuracy, float) >= target  # NaN is not
    first = reached.argmax(axis=-1, keepdims=True)
    value = np.take_along_axis(np.asarray(along, float), first, axis=-1)[..., 0]
    return np.where(reached.any(axis=-1) & ~np.asarray(diverged, bool), value, math.inf)


def newest(
    values: ArrayLike, along: ArrayLike | None = None, limit: float = math.inf, *,
    diverged: ArrayLike = False, lost: float = math.nan,
) -> Floats:  # fmt: skip
    """Return the last known of `values` in the rows where `along` is at most `limit`; NaN if there is none.

    Args:
        values: `[..., rounds + 1]`, NaN without an evaluation.
        along: rounds or seconds, of the same shape (default: every row counts).
        limit: in the unit of `along`.
        diverged: `[...]`, true for seeds that count as `lost` if their last row is within the limit.
        lost: the value of a diverged seed: 0 for an accuracy, infinity for a loss.
    """
    array, axis = np.asarray(values, float), np.asarray(0.0 if along is None else along, float)
    within = np.broadcast_to(axis <= limit, array.shape)
    known = within & ~np.isnan(array)
    last = array.shape[-1] - 1 - np.flip(known, axis=-1).argmax(axis=-1, keepdims=True)
    found = np.where(known.any(axis=-1), np.take_along_axis(array, last, axis=-1)[..., 0], math.nan)
    ended = (within | np.isnan(axis)).all(axis=-1)
    return np.where(ended & np.asarray(diverged, bool), lost, found)


def reach(run: Evaluated, target: float, along: str | Floats = "time_s") -> float:
    """Return `first_reach` of one run along a column of its metrics, or along an array with as many rows."""
    column = run.metrics[along] if isinstance(along, str) else along
    return float(first_reach(run.metrics["test_accuracy"], column, target, run.diverged_round is not None))


def accuracy_at(run: Evaluated, limit: float = math.inf, along: str = "time_s") -> float:
    """Return the newest test accuracy of one run while `along` is at most `limit`; 0 if the run diverges before."""
    lost = run.diverged_round is not None
    return float(newest(run.metrics["test_accuracy"], run.metrics[along], limit, diverged=lost, lost=0.0))


def final_accuracy(run: Evaluated) -> float:
    """Return the last known test accuracy of one run; 0 if it diverged."""
    return accuracy_at(run)


def final_loss(run: Evaluated) -> float:
    """Return the last known test loss of one run; infinite if it diverged."""
    return float(newest(run.metrics["test_loss"], diverged=run.diverged_round is not None, lost=math.inf))


def worst_tenth(values: ArrayLike) -> float:
    """Return the mean of the lowest tenth of values `[devices]` (at least one) without NaN; NaN if all are."""
    return _tenth(values, 1)


def best_tenth(values: ArrayLike) -> float:
    """Return the mean of the highest tenth; otherwise as `worst_tenth`."""
    return _tenth(values, -1)


def deviation(values: ArrayLike) -> float:
    """Return the standard deviation of values `[devices]` without NaN; NaN if all are."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    return float(known.std()) if len(known) else math.nan


def _tenth(values: ArrayLike, direction: int) -> float:
    known = np.asarray(values, float)
    known = np.sort(known[~np.isnan(known)])[::direction]
    return float(known[: math.ceil(len(known) / 10)].mean()) if len(known) else math.nan


def quantile(values: ArrayLike, share: float) -> float:
    """Return the quantile at `share` (0 to 1) of values `[seeds]`, infinity for never; NaN if a value is NaN."""
    ordered = np.sort(np.asarray(values, float))
    if np.isfinite(ordered).all():
        return float(np.quantile(ordered, share))
    if np.isnan(ordered).any():
        return math.nan
    position = share * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    if low == high or math.isinf(high):  # equal neighbours, or never
        return float(high)
    return float(low) if math.isinf(low) else float(low + (position % 1) * (high - low))


def median(values: ArrayLike) -> float:
    """Return the median of values `[seeds]`; infinite exactly if at least half of them are."""
    return quantile(values, 0.5)


def quartiles(values: ArrayLike) -> tuple[float, float, float]:
    """Return (25 %, median, 75 %) of values `[seeds]`, each by the rule of `quantile`."""
    return quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)


@dataclass(frozen=True)
class Spread:
    """One measure over the seeds.

    Args:
        values: `[seeds]`, infinity for never.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median, by the rule of `median`."""
        return median(self.values)

    @property
    def low(self) -> float:
        """The lower quartile."""
        return quantile(self.values, 0.25)

    @property
    def high(self) -> float:
        """The upper quartile."""
        return quantile(self.values, 0.75)

    @property
    def reached(self) -> int:
        """The number of seeds with a finite value."""
        return sum(math.isfinite(value) for value in self.values)
