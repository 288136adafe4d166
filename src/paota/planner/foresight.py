"""What is known of a candidate before anything is learned: its pace, and how large its events are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..timing.schemes import Periodic
from .candidates import Candidate, law_of
from .estimate import Pace, from_timeline, noise_std

CURVE_POINTS = 40


@dataclass(frozen=True)
class Foresight:
    """Of one candidate with the first seed: `pace` is what is told, `most_ready` and `stalest` are those of its timeline."""

    pace: Pace
    most_ready: int
    stalest: int


def foresight_of(candidate: Candidate) -> Foresight:
    """From the latencies alone where there are deadlines, from the timeline elsewhere."""
    from ..simulate import plan

    made = plan(candidate.experiment, seeds=1)
    (timeline,) = made.timelines.values()
    pace = from_timeline(timeline)
    if isinstance(candidate.contestant.algorithm.scheme, Periodic) and len(timeline.device):
        law = law_of(candidate.experiment, timeline)
        pace = law.periodic(candidate.contestant.timing.period_s)
        pace = replace(pace, noise_std=noise_std(made, candidate.contestant, law, pace))
    return Foresight(pace, int(timeline.ready.max(initial=0)), timeline.max_staleness)


def curve_of(candidate: Candidate) -> list[Pace]:
    """A candidate with deadlines at many periods, from the latencies alone."""
    from ..simulate import plan

    if not isinstance(candidate.contestant.algorithm.scheme, Periodic):
        return []
    made = plan(candidate.experiment, seeds=1)
    (timeline,) = made.timelines.values()
    if not len(timeline.device):
        return []
    law = law_of(candidate.experiment, timeline)
    paces = [law.periodic(float(p)) for p in np.geomspace(0.2 * law.mean_s, 2 * law.mean_s, CURVE_POINTS)]
    return [replace(pace, noise_std=noise_std(made, candidate.contestant, law, pace)) for pace in paces]
