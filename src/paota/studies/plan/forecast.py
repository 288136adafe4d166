"""What is known of a candidate before anything is learned: its pace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...timing.schemes import Periodic
from .candidates import Candidate, law_of
from .estimate import Pace, from_timeline, noise_std

CURVE_POINTS = 40


def pace_of(candidate: Candidate, until_s: float | None = None) -> Pace:
    """From the latencies alone where there are deadlines; else from the timeline, in the long run or from 0 to `until_s`."""
    from ...simulate import prepare as prepare_run  # start-up time: JAX

    made = prepare_run(candidate.experiment, seeds=1)
    (timeline,) = made.timelines.values()
    if not is_estimated(candidate) or not len(timeline.device):
        return from_timeline(timeline, until_s)
    law = law_of(candidate.experiment, timeline)
    pace = law.periodic(candidate.config.timing.period_s)
    return replace(pace, noise_std=noise_std(made, candidate.config, law, pace))


def is_estimated(candidate: Candidate) -> bool:
    """Whether the renewal argument speaks of it: it has deadlines. All others are read from their timelines."""
    return isinstance(candidate.config.algorithm.scheme, Periodic)


def curve_of(candidate: Candidate) -> list[Pace]:
    """A candidate with deadlines at many periods, from the latencies alone."""
    from ...simulate import prepare as prepare_run  # start-up time: JAX

    if not is_estimated(candidate):
        return []
    made = prepare_run(candidate.experiment, seeds=1)
    (timeline,) = made.timelines.values()
    if not len(timeline.device):
        return []
    law = law_of(candidate.experiment, timeline)
    paces = [law.periodic(float(p)) for p in np.geomspace(0.2 * law.mean_s, 2 * law.mean_s, CURVE_POINTS)]
    return [replace(pace, noise_std=noise_std(made, candidate.config, law, pace)) for pace in paces]
