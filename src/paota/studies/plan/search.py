"""The search: rung after rung in the pool, then what the choice leaves open: could it be thriftier, and what limits it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import UserError
from ...base.rng import seed_numbers
from ...experiment.experiment import Experiment
from ...results.measures import Spread
from ...results.result import Trajectory
from ..pool import Pool, Update, Watch
from ..run_task import RunJob
from ..sweep.metrics import Metric, parse_metric
from . import folder as folders
from .candidates import SEARCHED, Candidate, affordable, base_of, candidates_of, entries_of
from .constraints import Constraint, parse_constraint
from .estimate import Pace
from .folder import PlanSpec
from .forecast import pace_of
from .halving import FACTOR, Rung, Until, is_over, ranked, rungs, survivors

NOISELESS_DBM = -400.0
MOST_CHECKED_UPDATES = 2_000_000  # of the whole fleet, in one run
STAGES = {"0": "first rung", "1": "second rung", "2": "final", "thrift": "less power", "check": "what limits it"}
Watching = Callable[
    [str, Mapping[str, str]], AbstractContextManager[Watch]
]  # a stage begins: its title, its runs by key
THRIFT = {"power.max_power_w": (0.1, 0.01), "data.devices": (0.5,)}  # shares of what the choice has


@dataclass
class Search:
    """All that is known so far. `runs[c][seed]` is the longest run of candidate c with that seed."""

    spec: PlanSpec
    path: Path
    jobs: int
    ray: str | None = None
    watching: Watching = lambda title, names: nullcontext(lambda update: None)
    runs: dict[int, dict[int, Trajectory]] = field(default_factory=dict)
    reached_rung: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    foreseen: dict[int, Pace] = field(default_factory=dict)
    updates: int = 0  # of devices, computed in all
    score: str = "accuracy"

    def __post_init__(self) -> None:
        spec = self.spec
        self.best: Metric = parse_metric(spec.best)
        self.where: list[Constraint] = [parse_constraint(text) for text in spec.where]
        stop_at = max([spec.target, *(c.metric.argument for c in self.where if c.metric.kind.argument)])
        self.stop_at = stop_at
        self.base = base_of(spec.experiment, spec.target, stop_at)
        self.fleet, self.given_s = self.base.data.devices, self.duration_s
        asked = {axis.key for axis in spec.axes}
        if self.fleet > SEARCHED and "data.devices" not in asked:
            self.base = self.base.override({"data.devices": SEARCHED})
        if not spec.axes:
            self.base = affordable(self.base)
        entries = entries_of(spec.experiment, spec.algorithms)
        self.candidates: list[Candidate] = list(candidates_of(self.base, entries, spec.axes))
        self.pool = Pool(self.jobs, self.ray)
        self.seeds = seed_numbers(spec.seeds, spec.experiment.seed)
        self.grid = len(self.candidates)
        self.noiseless: Candidate | None = None
        self.whole: Candidate | None = None
        self.chosen: Candidate | None = None

    @property
    def duration_s(self) -> float:
        """Simulated time that every candidate may take."""
        return float(self.base.horizon.duration_s or 0.0)

    def run(self) -> None:
        """All rungs, the choice, and what it leaves open."""
        with self.pool:
            self._run()

    def _run(self) -> None:
        alive = list(self.candidates)
        steps = rungs(self.seeds, self.duration_s)
        for i, rung in enumerate(steps):
            if i < len(steps) - 1 and len(alive) <= 2:
                continue  # nobody to drop
            self.compute(alive, rung, str(i))
            alive = [candidate for candidate in alive if candidate.index not in self.failed]
            for candidate in alive:
                self.reached_rung[candidate.index] = i
            if not alive:
                why = next(iter(self.failed.values()), "no candidate")
                raise UserError(f"no candidate could be simulated: {why}")
            if i < len(steps) - 1:
                alive = survivors(i, alive, self.known(alive), self.best, self.where, self.grid)
        order = ranked(alive, self.known(alive), self.best, self.where, final=True)
        if self.is_answer(order[0]):
            self.chosen = order[0] if self.spec.axes else self._thriftier(order[0], steps[-1])
            self._ask_what_limits(self.chosen)

    def known(self, candidates: Sequence[Candidate]) -> dict[int, list[Trajectory]]:
        """Their runs in the order of the seeds."""
        return {c.index: [run for _, run in sorted(self.runs[c.index].items())] for c in candidates}

    def is_answer(self, candidate: Candidate) -> bool:
        """Whether a candidate with all seeds gets to the target, and keeps the constraints."""
        mine = self.known([candidate])[candidate.index]
        return bool(np.isfinite(self.cost(candidate).median)) and all(c.allows(mine) for c in self.where)

    def cost(self, candidate: Candidate, name: str | None = None) -> Spread:
        """What the target costs it, seed by seed; by default of what is made small."""
        metric = self.best if name is None else Metric(name, self.best.argument)
        return Spread(tuple(metric.of(run) for run in self.known([candidate])[candidate.index]))

    def foresee(self, candidates: Sequence[Candidate]) -> None:
        """Find out what is known of these candidates before anything is learned."""
        for candidate in candidates:
            if candidate.index not in self.foreseen:
                self.foreseen[candidate.index] = pace_of(candidate)

    def compute(self, candidates: Sequence[Candidate], rung: Rung, name: str) -> None:
        """Simulate what is missing of a rung; a run that is over is not repeated."""
        tasks, wanted = [], {}
        for candidate in candidates:
            mine = self.runs.setdefault(candidate.index, {})
            seeds = tuple(s for s in rung.seeds if s not in mine or not is_over(mine[s], self.stop_at, self.duration_s))
            if not seeds:
                continue
            path = self.path / "runs" / f"{candidate.index:03d}-{name}"
            key = f"{candidate.index}/{name}"
            wanted[key] = candidate, path, seeds
            if folders.finished(path, candidate.experiment, seeds) is not None:
                continue
            tasks.append(
                RunJob(
                    key=key, experiment=candidate.experiment.to_dict(), base=str(candidate.experiment.base), seeds=seeds,
                    folder=str(path), callbacks=(Until(rung.until_s),), title=candidate.name, devices=False,
                )
            )  # fmt: skip
        names = {key: candidate.name for key, (candidate, _, _) in wanted.items()}
        (self.path / "runs").mkdir(exist_ok=True)
        with self.watching(STAGES[name], names) as watch:
            for key in names.keys() - {task.key for task in tasks}:
                watch(Update(key, "done", 1.0))
            # Neighbours often share a program: not at the same time, or two processes compile it.
            failed = self.pool.run(tasks[::2] + tasks[1::2], watch)
        for key, (candidate, path, seeds) in wanted.items():
            result = None if key in failed else folders.finished(path, candidate.experiment, seeds)
            if result is None:
                self.failed[candidate.index] = failed.get(key, "it left no result")
                continue
            self.score = result.info.get("score", "accuracy")
            for run in result.trajectories:
                self.runs[candidate.index][run.seed] = run
                self.updates += updates_of(run)

    def _more(self, chosen: Candidate, changes: Mapping[str, Any]) -> Candidate:
        made = chosen.with_choices(len(self.candidates), changes)
        self.candidates.append(made)
        return made

    def _thriftier(self, chosen: Candidate, rung: Rung) -> Candidate:
        """With less power, or fewer devices: what the seeds cannot tell from the choice and takes the fewest joules."""
        table = {
            "power.max_power_w": chosen.config.power.max_power_w,
            "data.devices": chosen.experiment.data.devices,
        }
        variants = []
        for key, shares in THRIFT.items():
            values = [share * table[key] for share in shares]
            values = [max(2, round(value)) for value in values] if key == "data.devices" else values
            fits = key != "data.devices" or not {"participants", "selected"} & set(chosen.choices)
            variants += [self._more(chosen, {key: value}) for value in values if fits and value < table[key]]
        self.compute(variants, rung, "thrift")
        able = [c for c in variants if c.index not in self.failed and self.is_answer(c)]
        for candidate in able:
            self.reached_rung[candidate.index] = 3
        as_good = [c for c in able if self.cost(c).median <= self.cost(chosen).high]
        return min([chosen, *as_good], key=lambda c: (self.cost(c, "joules_to").median, c.index))

    def _ask_what_limits(self, chosen: Candidate) -> None:
        """The choice without noise, with two seeds; of a large fleet, the choice with all of it, once."""
        if chosen.config.algorithm.over_the_air:
            self.noiseless = self._more(chosen, {"air.n0_dbm_per_hz": NOISELESS_DBM})
            self.compute([self.noiseless], Rung(self.seeds[:2], self.duration_s), "check")
            if self.noiseless.index in self.failed:
                self.noiseless = None
        searched = chosen.experiment.data.devices
        fits = not {"participants", "selected", "data.devices"} & set(chosen.choices)
        if self.fleet > SEARCHED and fits:
            run = self.known([chosen])[chosen.index][0]
            if updates_of(run) * self.fleet / searched <= MOST_CHECKED_UPDATES:
                # The timeline of so many devices is long: no longer than it needs to be.
                enough_s = min(self.duration_s, FACTOR * self.cost(chosen, "seconds_to").high)
                self.whole = self._more(chosen, {"data.devices": self.fleet, "duration_s": enough_s})
                self.compute([self.whole], Rung(self.seeds[:1], self.duration_s), "check")
                if self.whole.index in self.failed:
                    self.whole = None


def updates_of(run: Trajectory) -> int:
    """Local trainings that a run has computed."""
    return int(np.sum(run.metrics["ready"]))


def final_experiment(given: Experiment, chosen: Candidate, target: float) -> Experiment:
    """What is to be deployed: the experiment with what was chosen, judged as it was given, until the target."""
    table = chosen.experiment.to_dict()
    table["evaluation"] = {**given.to_dict()["evaluation"], "stop_at": target}
    return Experiment.from_dict({**table, "targets": sorted({*given.targets, target})}, base=given.base)
