"""Fair comparisons by construction: what the points of a sweep have in common, and which settings an algorithm has.

Twenty rounds of 8 s take four times as long as twenty rounds of 2 s. Whether a setting changes the length of a round is
read from the timelines that it makes, which are known before anything is learned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.errors import UserError, unknown_name
from ...base.formatting import quantity
from ...experiment.experiment import Experiment
from ...results.result import Trajectory
from ...timing.timeline import Timeline
from .grid import Axis, Point

EQUAL = ("time", "rounds")


def check_equal(what: str) -> str:
    """What `--equal` names, or a sentence."""
    if what not in EQUAL:
        raise unknown_name("value of --equal", what, EQUAL)
    return what


@dataclass(frozen=True, kw_only=True)
class HeldEqual:
    """What all points had equal.

    `duration_s`: the simulated time of all points, where equal rounds would have taken unequal time; None where they were
    run as asked.
    """

    what: str = "time"
    duration_s: float | None = None

    @property
    def sentence(self) -> str:
        """For people; empty where there is nothing to say."""
        if self.duration_s is None:
            return ""
        return (
            f"Equal rounds would take unequal time: all points get {quantity(self.duration_s)} simulated seconds, "
            "those of the longest."
        )


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


def fingerprint(runs: Sequence[Trajectory]) -> str:
    """Equal for equal bits of everything that was measured."""
    total = hashlib.sha256()
    for run in runs:
        for name in sorted(run.metrics):
            total.update(np.ascontiguousarray(run.metrics[name], float).tobytes())
    return total.hexdigest()


def without_period(base: Experiment, axes: Sequence[Axis]) -> dict[str, tuple[str, ...]]:
    """The axes over a period that an algorithm does not have, by label.

    A synchronous rival takes its number of participants from PAOTA's period unless it is given. That is the fairness rule
    of a comparison, not a property of the rival.
    """
    found: dict[str, tuple[str, ...]] = {}
    for entry in base.algorithms:
        own = (
            {"timing.period_s", f"algorithms.{entry.label}.timing.period_s"}
            if entry.algorithm.scheme.uses_period
            else ()
        )
        keys = (axis.key for axis in axes if axis.key.endswith("timing.period_s") and axis.key not in own)
        if foreign := tuple(keys):
            found[entry.label] = foreign
    return found
