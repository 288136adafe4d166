"""What a run is judged by. Every number in a summary, a sweep, a reproduction or a benchmark is made here, by one rule each.

- **Reach**: what had been spent (rounds, seconds, joules) at the first look with at least the target accuracy; infinity
  if there was none, for "never".
- **Final accuracy**: the last known look. **Accuracy at** a time or round: the newest look that was known then.
- A seed that **diverged** has no model to show: it never reached a target, its final accuracy is 0 and its loss infinite.
- **Median and quartiles** over the seeds: linear interpolation between neighbours in the order in which never comes
  last. Between a number and never lies nothing, so such a quantile is never. In words: a median is never exactly if at
  least half of the seeds never got there, and quartiles cannot contradict it.
- **Worst and best tenth** of the devices: the mean over the tenth of them (rounded up) on whose own kind of data the
  model does worst, or best; a diverged seed has 0.

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


class Judged(Protocol):
    """What the measures of one run need: a `Trajectory` is one."""

    @property
    def metrics(self) -> Columns: ...
    @property
    def diverged_round(self) -> int | None: ...


def first_reach(accuracy: ArrayLike, along: ArrayLike, target: float, diverged: ArrayLike = False) -> Floats:
    """The value of `along` where `accuracy` is at least `target` for the first time; infinity if it never is.

    Args:
        accuracy: `[..., rounds + 1]`, NaN where nobody looked.
        along: what is counted, of the same shape: rounds, simulated seconds, joules spent so far.
        target: share of the test set, 0 to 1.
        diverged: `[...]`, true for seeds that count as never.

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
    """The last known of `values` in the rows where `along` is at most `limit`; NaN if there is none.

    Args:
        values: `[..., rounds + 1]`, NaN where nobody looked.
        along: rounds or seconds, of the same shape (default: every row counts).
        limit: in the unit of `along`.
        diverged: `[...]`, true for seeds that count as `lost` if their last row is within the limit.
        lost: what a diverged seed is worth: 0 for an accuracy, infinity for a loss.
    """
    array, axis = np.asarray(values, float), np.asarray(0.0 if along is None else along, float)
    within = np.broadcast_to(axis <= limit, array.shape)
    known = within & ~np.isnan(array)
    last = array.shape[-1] - 1 - np.flip(known, axis=-1).argmax(axis=-1, keepdims=True)
    found = np.where(known.any(axis=-1), np.take_along_axis(array, last, axis=-1)[..., 0], math.nan)
    ended = (within | np.isnan(axis)).all(axis=-1)
    return np.where(ended & np.asarray(diverged, bool), lost, found)


def reach(run: Judged, target: float, along: str | Floats = "time_s") -> float:
    """`first_reach` of one run along a column of its metrics, or along an array with as many rows."""
    column = run.metrics[along] if isinstance(along, str) else along
    return float(first_reach(run.metrics["test_accuracy"], column, target, run.diverged_round is not None))


def accuracy_at(run: Judged, limit: float = math.inf, along: str = "time_s") -> float:
    """The newest test accuracy of one run when the column `along` has reached `limit`; 0 if it has diverged by then."""
    lost = run.diverged_round is not None
    return float(newest(run.metrics["test_accuracy"], run.metrics[along], limit, diverged=lost, lost=0.0))


def final_accuracy(run: Judged) -> float:
    """The last known test accuracy of one run; 0 if it diverged."""
    return accuracy_at(run)


def final_loss(run: Judged) -> float:
    """The last known test loss of one run; infinite if it diverged."""
    return float(newest(run.metrics["test_loss"], diverged=run.diverged_round is not None, lost=math.inf))


def worst_tenth(values: ArrayLike) -> float:
    """The mean of the lowest tenth of values `[devices]`, at least of one; unknown ones do not count, NaN if all are."""
    return _tenth(values, 1)


def best_tenth(values: ArrayLike) -> float:
    """The mean of the highest tenth, as `worst_tenth`."""
    return _tenth(values, -1)


def deviation(values: ArrayLike) -> float:
    """The standard deviation over devices of values `[devices]`; unknown ones do not count, NaN if all are."""
    known = np.asarray(values, float)
    known = known[~np.isnan(known)]
    return float(known.std()) if len(known) else math.nan


def _tenth(values: ArrayLike, direction: int) -> float:
    known = np.asarray(values, float)
    known = np.sort(known[~np.isnan(known)])[::direction]
    return float(known[: math.ceil(len(known) / 10)].mean()) if len(known) else math.nan


def quantile(values: ArrayLike, share: float) -> float:
    """The quantile at `share` (0 to 1) of values `[seeds]` in which infinity stands for never; NaN if one is unknown."""
    ordered = np.sort(np.asarray(values, float))
    if np.isfinite(ordered).all():
        return float(np.quantile(ordered, share))
    if np.isnan(ordered).any():
        return math.nan
    position = share * (len(ordered) - 1)
    low, high = ordered[math.floor(position)], ordered[math.ceil(position)]
    if low == high or math.isinf(high):  # the same neighbour on both sides, or never
        return float(high)
    return float(low) if math.isinf(low) else float(low + (position % 1) * (high - low))


def median(values: ArrayLike) -> float:
    """The median of values `[seeds]`; infinite exactly if at least half of them are."""
    return quantile(values, 0.5)


def quartiles(values: ArrayLike) -> tuple[float, float, float]:
    """(25 %, median, 75 %) of values `[seeds]`, each by the rule of `quantile`."""
    low, middle, high = (quantile(values, share) for share in (0.25, 0.5, 0.75))
    return low, middle, high


@dataclass(frozen=True)
class Spread:
    """One measure over the seeds: `values` `[seeds]`, infinity for never."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """By the rule of `median`."""
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
        """How many seeds have a finite value."""
        return sum(math.isfinite(value) for value in self.values)
