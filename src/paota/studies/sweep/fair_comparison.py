"""Fair comparisons by construction: what the points of a sweep have in common, and whom a setting concerns at all.

Twenty rounds of 8 s are no equal of twenty rounds of 2 s. Whether a setting changes the length of a round is read from
the timelines that it makes, which are known before anything is learned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...base.errors import UserError, unknown_name
from ...base.formatting import quantity
from ...experiment.experiment import AlgorithmConfig, Experiment
from ...results.result import Trajectory
from ...timing.timeline import Timeline
from .grid import Axis, Point
from .metrics import UNITS, spending

EQUAL = ("time", "joules", "airtime", "updates", "rounds")
BUDGETS = {"joules": "joules", "airtime": "airtime_s", "updates": "updates"}  # and the metric that counts each


def check_equal(what: str) -> str:
    """What `--equal` names, or a sentence."""
    if what not in EQUAL:
        raise unknown_name("value of --equal", what, EQUAL)
    return what


@dataclass(frozen=True, kw_only=True)
class HeldEqual:
    """What all points had equal.

    `duration_s`: the simulated time that all were given, where equal rounds would have taken unequal time; None where they
    were run as asked. `budgets`: of joules, seconds on the air or updates, by label: where every run of it is judged.
    """

    what: str = "time"
    duration_s: float | None = None
    budgets: Mapping[str, float] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """For people; empty where there is nothing to say."""
        said = ""
        if self.duration_s is not None:
            said = (
                f"Equal rounds would take unequal time: all points get {quantity(self.duration_s)} simulated seconds, "
                "those of the longest."
            )
        if self.budgets:
            unit = UNITS[BUDGETS[self.what]]
            shown = ", ".join(f"{label} {quantity(amount)} {unit}" for label, amount in self.budgets.items())
            said = f"{said} Judged where they have spent equal {self.what}: {shown}.".strip()
        elif self.what in BUDGETS:
            said = f"{said} No {self.what} are accounted that could be held equal.".strip()
        return said


AS_ASKED = HeldEqual(what="rounds")


def planned(experiment: Experiment) -> dict[str, Timeline]:
    """The timeline of every algorithm with the first seed, by label; nothing is learned."""
    from ...simulate import prepare as prepare_run  # start-up time: JAX

    made = prepare_run(experiment, seeds=1)
    return {label: timeline for (label, _), timeline in made.timelines.items()}


def common_duration_s(points: Sequence[Point], axes: Sequence[Axis]) -> float | None:
    """The simulated time of the longest point; None where all take the same, or where their end is what is asked about."""
    if {"rounds", "duration_s"} & {axis.key for axis in axes} or points[0].experiment.horizon.rounds is None:
        return None
    ends: dict[str, list[float]] = {}
    for point in points:
        try:
            timelines = planned(point.experiment)
        except UserError:  # it will fail in its own time, and say why
            continue
        for label, timeline in timelines.items():
            ends.setdefault(label, []).append(float(timeline.time_s[-1]))
    differ = any(max(mine) > min(mine) * (1 + 1e-9) for mine in ends.values())
    return max(max(mine) for mine in ends.values()) if differ else None


def budgets(runs: Iterable[Trajectory], what: str) -> dict[str, float]:
    """By label, the least that one of its runs has spent at its end: so much do all have.

    A run that stopped at its target or diverged ended for another reason; what is not accounted is not held equal.
    """
    if what not in BUDGETS:
        return {}
    least: dict[str, float] = {}
    for run in runs:
        total = float(spending(run, BUDGETS[what])[-1])
        if run.diverged_round is None and run.stopped_round is None and np.isfinite(total):
            least[run.label] = min(total, least.get(run.label, total))
    return least


def within(run: Trajectory, what: str, budget: float | None) -> Trajectory:
    """The run up to where its budget is spent; all of it where there is none."""
    if budget is None:
        return run
    spent = spending(run, BUDGETS[what])
    rows = max(1, int((spent <= budget * (1 + 1e-12)).sum()))
    lost = run.diverged_round
    return replace(
        run, metrics={name: column[:rows] for name, column in run.metrics.items()},
        diverged_round=lost if lost is not None and lost < rows else None,
    )  # fmt: skip


def fingerprint(runs: Sequence[Trajectory]) -> str:
    """Equal for equal bits of everything that was measured."""
    total = hashlib.sha256()
    for run in runs:
        for name in sorted(run.metrics):
            total.update(np.ascontiguousarray(run.metrics[name], float).tobytes())
    return total.hexdigest()


def without_period(base: Experiment, axes: Sequence[Axis]) -> dict[str, tuple[str, ...]]:
    """By label, the axes of `[timing]` that it does not have: with them, its timeline is the same.

    A synchronous rival takes its number of participants from PAOTA's period unless it is given; that is the fairness rule
    of a comparison and no property of the rival, so here the number is that of the first point.
    """
    from .grid import make_points

    found: dict[str, tuple[str, ...]] = {}
    for axis in axes:
        if "timing" not in axis.key.split(".")[:-1] or len(axis.values) < 2:
            continue
        first = {other.key: other.values[0] for other in axes if other is not axis}
        points = [point.experiment for point in make_points(base.override(first), [axis])]
        try:
            sizes = {label: round(float(line.ready.max())) for label, line in planned(points[0]).items()}
            lines = [planned(_pinned(experiment, sizes)) for experiment in points]
        except UserError:
            continue
        for label in lines[0]:
            if all(_same(lines[0][label], other[label]) for other in lines[1:]):
                found[label] = (*found.get(label, ()), axis.key)
    return found


def _pinned(experiment: Experiment, sizes: Mapping[str, int]) -> Experiment:
    def pinned(entry: AlgorithmConfig) -> AlgorithmConfig:
        algorithm = entry.algorithm
        if getattr(algorithm, "participants", 1) is not None:
            return entry
        return replace(entry, algorithm=replace(algorithm, participants=sizes[entry.label]))  # type: ignore[type-var]

    return replace(experiment, algorithms=tuple(pinned(entry) for entry in experiment.algorithms))


def _same(one: Timeline, other: Timeline) -> bool:
    columns = ("time_s", "offsets", "device", "version", "start_s", "finish_s")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
