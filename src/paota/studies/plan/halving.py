"""Successive halving: many candidates for a short time with one seed, a third of them for longer, the best with all seeds.

Every rung multiplies the simulated time by `FACTOR` and divides the number of candidates by it, the usual constant of
successive halving (Jamieson and Talwalkar 2016; Li et al. 2018). Rungs end together and rank by results alone, so the answer
does not depend on how many processes compute it, nor on interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...callbacks.base import Callback, Round
from ...results import measures
from ...results.result import Trajectory
from ..sweep.metrics import SPENT, Metric, spending
from .candidates import Candidate
from .constraints import Constraint

FACTOR = 3
RUNGS = 3
FEWEST = (3, 2)  # that go on after the first rung, and after the second
COSTS = ("seconds_to", "joules_to", "airtime_to")  # the trade-off that is shown

Runs = Mapping[int, Sequence[Trajectory]]  # by candidate, in the order of the seeds


@dataclass(frozen=True)
class Rung:
    """So many seeds, up to so many simulated seconds."""

    seeds: tuple[int, ...]
    until_s: float


def rungs(seeds: Sequence[int], duration_s: float) -> list[Rung]:
    """One seed for a ninth of the time, two for a third, all for all of it."""
    counts = (1, min(2, len(seeds)), len(seeds))
    return [Rung(tuple(seeds[:n]), duration_s / FACTOR ** (RUNGS - 1 - i)) for i, n in enumerate(counts)]


class Until(Callback):
    """Stops a unit at the end of a rung's simulated time."""

    def __init__(self, time_s: float) -> None:
        self.time_s = time_s

    def round(self, round: Round) -> bool:
        return round.time_s >= self.time_s


def is_over(run: Trajectory, target: float, duration_s: float) -> bool:
    """Whether more time would change nothing: the target is reached, the model is lost, or the time is up."""
    reached = math.isfinite(measures.reach(run, target))
    return reached or run.diverged_round is not None or float(run.metrics["time_s"][-1]) >= duration_s


def ranked(
    candidates: Sequence[Candidate], runs: Runs, best: Metric, where: Sequence[Constraint], *, final: bool = False
) -> list[Candidate]:
    """The candidates, the best first.

    By the median cost of the target; those that have not got there by their accuracy at equal spending. What breaks a
    constraint, or before the last rung cannot but break it, comes last.
    """
    what = SPENT[best.name]
    spent = [_total(run, what) for mine in runs.values() for run in mine if not math.isfinite(best.of(run))]
    equal = min((value for value in spent if math.isfinite(value)), default=math.inf)

    def rank(candidate: Candidate) -> tuple[bool, float, float, int]:
        mine = runs[candidate.index]
        test = Constraint.allows if final else Constraint.may_allow
        broken = not all(test(constraint, mine) for constraint in where)
        return broken, measures.median([best.of(run) for run in mine]), -_accuracy(mine, what, equal), candidate.index

    return sorted(candidates, key=rank)


def survivors(
    rung: int, candidates: Sequence[Candidate], runs: Runs, best: Metric, where: Sequence[Constraint], all_of: int
) -> list[Candidate]:
    """Who goes on after a rung: a share of all there were; after the first also the best by each other cost."""
    count = max(FEWEST[rung], math.ceil(all_of / FACTOR ** (rung + 1)))
    kept = ranked(candidates, runs, best, where)[:count]
    for name in COSTS if rung == 0 else ():
        champion = ranked(candidates, runs, Metric(name, best.argument), where)[0]
        if champion not in kept:
            kept.append(champion)
    return sorted(kept, key=lambda candidate: candidate.index)


def _accuracy(runs: Sequence[Trajectory], what: str, limit: float) -> float:
    """The median accuracy where so much has been spent; a run that diverged has none."""
    values = []
    for run in runs:
        lost = run.diverged_round is not None
        along = np.nan_to_num(spending(run, what), nan=math.inf)
        values.append(float(measures.newest(run.metrics["test_accuracy"], along, limit, diverged=lost, lost=0.0)))
    return measures.median(np.nan_to_num(values))


def _total(run: Trajectory, what: str) -> float:
    return float(spending(run, what)[-1])
