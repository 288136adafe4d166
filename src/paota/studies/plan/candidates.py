"""What could be deployed: every algorithm at every combination of what was asked for, or of what usually matters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.errors import UserError, unknown_name
from ...base.registry import ALGORITHMS
from ...experiment.experiment import DEFAULT_ALGORITHMS, AlgorithmConfig, Experiment
from ...simulate.conditions import attendance_of
from ...timing.schemes import Periodic, ShareReady, Synchronous, Tiered
from ...timing.timeline import Timeline
from ..sweep.fair_comparison import planned, without_period
from ..sweep.grid import Axis, show
from .estimate import Law, Pace, from_timeline, noise_std

SHORTLIST = ("paota", "paota-plus", "threshold")  # one rule for each way to wait, all over the air
PERIODS = (0.4, 0.6, 0.8, 1.0, 1.3)  # of the mean latency
SHARES = (0.1, 0.2, 0.4)  # that make an event of a scheme that waits for a share
FIRST = (0.1, 0.3)  # of all devices that start, the first so many to finish count
# Beside the plain mean: nobody in a synchronous round is stale, so a longer step may pay. As docs/field.md tunes them.
LONGER_STEP = {"server.optimiser": "momentum", "server.learning_rate": 1.5, "server.momentum": 0.3}
MOST_CANDIDATES = 2_000
WORDS = {
    "payload": "{}", "timing.period_s": "dT {} s", "data.devices": "{} devices", "power.max_power_w": "{} W",
    "server.learning_rate": "server step {}",
}  # fmt: skip
SEARCHED = 1_000  # devices; of a larger fleet, so many are searched with
MOST_UPDATES = 100_000  # of devices, in a run
CURVE_POINTS = 40
TRIALS = 3  # trainings of every device that tell how long they take


@dataclass(frozen=True)
class Candidate:
    """One thing that could be deployed: `choices` are the settings in which it differs from others, by their keys."""

    index: int
    choices: Mapping[str, Any]
    experiment: Experiment  # with one algorithm

    @property
    def config(self) -> AlgorithmConfig:
        """Its algorithm with all its settings."""
        return self.experiment.algorithms[0]

    @property
    def algorithm(self) -> str:
        """The label of its algorithm."""
        return self.config.label

    @property
    def name(self) -> str:
        """`paota, update, dT 8 s`, `threshold, 30 of 100`; settings without a short word with their key."""
        choices = dict(self.choices)
        said = [self.algorithm]
        if (count := choices.pop("participants", None)) is not None:
            selected = choices.pop("selected", None)
            said.append(f"{show(count)} of {show(selected)}" if selected else f"{show(count)} a round")
        if "server.learning_rate" in choices:
            choices.pop("server.optimiser", None)
        for key, value in choices.items():
            word = WORDS.get(key, f"{key.rpartition('.')[2]} {{}}")
            said.append(word.format(show(value)))
        return ", ".join(said)

    def with_choices(self, index: int, choices: Mapping[str, Any]) -> Candidate:
        """The same with some settings of the whole experiment changed."""
        return Candidate(index, {**self.choices, **choices}, self.experiment.override(choices))


def base_of(experiment: Experiment, target: float, stop_at: float) -> Experiment:
    """What all candidates share: the time that the experiment takes, an end at the target, and no looks that nobody needs."""
    horizon = experiment.horizon
    duration_s = horizon.duration_s or (horizon.rounds or 0) * experiment.timing.period_s
    return experiment.override(
        {
            "duration_s": float(duration_s), "targets": [target], "evaluation.stop_at": stop_at,
            "evaluation.train_loss": "batches",
        }
    )  # fmt: skip


def affordable(base: Experiment) -> Experiment:
    """With a time in which devices that never wait make at most `MOST_UPDATES`, and a period that fits into it.

    Where trainings take milliseconds, the minutes of an experiment hold millions of them, and nobody needs so many to see
    which candidate is quicker.
    """
    devices = base.data.devices
    everybody = {"rounds": TRIALS, "algorithms": [{"name": "cotaf", "participants": devices}]}
    trial = base.override(everybody)
    (timeline,) = planned(trial).values()
    mean_s = law_of(trial, timeline).mean_s
    longest_s = _handy(MOST_UPDATES / devices * mean_s)
    if (base.horizon.duration_s or 0.0) <= longest_s:
        return base
    period_s = min(base.timing.period_s, _handy(PERIODS[2] * mean_s))
    return base.override({"duration_s": longest_s, "timing.period_s": period_s})


def law_of(alone: Experiment, timeline: Timeline) -> Law:
    """The latencies of an experiment with one algorithm, from its timeline."""
    return Law.of(timeline, alone.data.devices, attendance_of(alone.algorithms[0].timing))


def entries_of(experiment: Experiment, algorithms: Sequence[str]) -> list[dict[str, Any]]:
    """The algorithms to choose from: those named, else the experiment's own; instead of the paper's three, the shortlist."""
    given = {config.label: config.to_dict() for config in experiment.algorithms}
    paper = [entry["name"] for entry in DEFAULT_ALGORITHMS]
    default = list(given) == paper and not any(c.overrides for c in experiment.algorithms)
    wanted = list(algorithms) or (list(SHORTLIST) if default else list(given))
    for name in wanted:
        if name not in given and name not in ALGORITHMS:
            raise unknown_name("algorithm", name, [*given, *ALGORITHMS])
    return [given.get(name, {"name": name}) for name in wanted]


def candidates_of(
    base: Experiment, entries: Sequence[Mapping[str, Any]], axes: Sequence[Axis]
) -> tuple[Candidate, ...]:
    """All candidates, each checked: over the axes if there are any, else over what usually matters to each algorithm."""
    labels = [str(entry.get("label", entry["name"])) for entry in entries]
    for axis in axes:
        if axis.key.startswith("algorithms.") and axis.key.split(".")[1] not in labels:
            raise unknown_name("algorithm label", axis.key.split(".")[1], labels)
    made: list[Candidate] = []
    for entry in entries:
        alone = base.override({"algorithms": [_with_size(base, dict(entry))]})
        mine = alone.algorithms[0].to_dict()
        label = str(mine.get("label", mine["name"]))
        grid = _asked(alone, label, axes) if axes else _usual(alone)
        for own, changes in grid:
            experiment = alone.override({**changes, "algorithms": [_merged(mine, own)]})
            made.append(Candidate(len(made), {**own, **changes}, experiment))
            if len(made) > MOST_CANDIDATES:
                raise UserError(f"more than {MOST_CANDIDATES:,} candidates: name fewer values, or fewer algorithms")
    return tuple(made)


Choice = tuple[dict[str, Any], dict[str, Any]]  # settings of the algorithm's own entry, and of the whole experiment


def _asked(alone: Experiment, label: str, axes: Sequence[Axis]) -> Iterator[Choice]:
    """The axes that concern this algorithm; one that leaves its timeline as it is and stands in `[timing]` does not."""
    mine = [axis for axis in axes if not axis.key.startswith("algorithms.") or axis.key.split(".")[1] == label]
    foreign = without_period(alone, mine).get(label, ())
    mine = [axis for axis in mine if axis.key not in foreign]
    for values in itertools.product(*(axis.values for axis in mine)):
        own, changes = {}, {}
        for axis, value in zip(mine, values, strict=True):
            prefix = f"algorithms.{label}."
            if axis.key.startswith(prefix):
                own[axis.key.removeprefix(prefix)] = value
            else:
                changes[axis.key] = value
        yield own, changes


def _usual(alone: Experiment) -> Iterator[Choice]:
    """How often, or for how many, an algorithm of this scheme waits; and what it sends, where it has the choice."""
    algorithm, devices = alone.algorithms[0].algorithm, alone.data.devices
    has_payload = "payload" in alone.algorithms[0].to_dict()
    payloads = [{"payload": value} for value in ("model", "update")] if has_payload else [{}]
    scheme = algorithm.scheme
    ways: list[Choice] = [({}, {})]
    if isinstance(scheme, Periodic | Tiered):
        (timeline,) = planned(alone).values()
        mean_s = law_of(alone, timeline).mean_s
        ways = [({}, {"timing.period_s": _handy(share * mean_s)}) for share in PERIODS]
    elif isinstance(scheme, ShareReady):
        ways = [({"share": share}, {}) for share in SHARES]
    elif isinstance(scheme, Synchronous):
        plain: list[Choice] = [({"participants": scheme.participants}, {})]
        first: list[dict[str, Any]] = [
            {"participants": max(1, round(share * devices)), "selected": devices} for share in FIRST
        ]
        stepped = {**first[-1], **LONGER_STEP}
        ways = [*plain, *[(own, {}) for own in (*first, stepped)]]
    for payload in payloads:
        for own, changes in ways:
            yield {**payload, **own}, changes


def _merged(entry: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """An algorithm's entry with settings of its own; a dotted one stands in a section."""
    made = dict(entry)
    for key, value in own.items():
        section, dot, name = key.partition(".")
        if dot:
            made[section] = {**made.get(section, {}), name: value}
        else:
            made[key] = value
    return made


def _with_size(base: Experiment, entry: dict[str, Any]) -> dict[str, Any]:
    """A synchronous rule gets its number of participants from the experiment as it was given, once and for all."""
    alone = base.override({"algorithms": [entry]})
    if getattr(alone.algorithms[0].algorithm, "participants", 1) is not None:
        return entry
    (timeline,) = planned(alone).values()
    return {**entry, "participants": int(timeline.ready.max())}


def _handy(value: float) -> float:
    """Two digits are enough for a period."""
    digits = 1 - math.floor(math.log10(value))
    return round(value, digits)


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
