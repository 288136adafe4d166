"""The search: successive halving in the pool, then variants of the choice with less power or fewer devices.

Many candidates run for a short time with one seed, a third of them for longer, the best with all seeds. Every rung multiplies
the simulated time by `FACTOR` and divides the number of candidates by it, the usual constant of successive halving (Jamieson
and Talwalkar 2016; Li et al. 2018). Rungs end together and rank by results alone, so the answer does not depend on how many
processes compute it, nor on interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...base.errors import UserError
from ...base.rng import seed_numbers
from ...callbacks.base import Callback, Round
from ...experiment.experiment import Experiment
from ...results import measures
from ...results.measures import Spread
from ...results.result import Trajectory
from ..pool import Pool, Update, Watch
from ..run_task import RunJob
from ..sweep.metrics import SPENT, Metric, parse_metric, spending
from .candidates import SEARCHED, Candidate, affordable, base_of, candidates_of, entries_of, pace_of
from .estimate import Pace
from .spec import PLANS, Constraint, PlanSpec, parse_constraint

STAGES = {"0": "first rung", "1": "second rung", "2": "final", "thrift": "less power"}
# A stage begins: its title, and the names of its runs by key.
Watching = Callable[[str, Mapping[str, str]], AbstractContextManager[Watch]]
THRIFT = {"power.max_power_w": (0.1, 0.01), "data.devices": (0.5,)}  # shares of what the choice has
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
        self.chosen: Candidate | None = None

    @property
    def duration_s(self) -> float:
        """Simulated time that every candidate may take."""
        return float(self.base.horizon.duration_s or 0.0)

    def run(self) -> None:
        """All rungs, the choice, and its variants."""
        with self.pool:
            self._run()

    def _run(self) -> None:
        alive = list(self.candidates)
        steps = rungs(self.seeds, self.duration_s)
        for i, rung in enumerate(steps):
            if i < len(steps) - 1 and len(alive) <= 2:
                continue  # none to drop
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
            if PLANS.finished(path, candidate.experiment, seeds) is not None:
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
            result = None if key in failed else PLANS.finished(path, candidate.experiment, seeds)
            if result is None:
                self.failed[candidate.index] = failed.get(key, "it left no result")
                continue
            self.score = result.info.get("score", "accuracy")
            for run in result.trajectories:
                self.runs[candidate.index][run.seed] = run
                self.updates += updates_of(run)

    def _thriftier(self, chosen: Candidate, rung: Rung) -> Candidate:
        """With less power, or fewer devices: what the seeds cannot tell from the choice and takes the fewest joules."""
        has = {"power.max_power_w": chosen.config.power.max_power_w, "data.devices": chosen.experiment.data.devices}
        if {"participants", "selected"} & set(chosen.choices):  # counts of devices, which fewer would not fit
            del has["data.devices"]
        variants: list[Candidate] = []
        for key, most in has.items():
            for share in THRIFT[key]:
                value = max(2, round(share * most)) if key == "data.devices" else share * most
                if value < most:
                    variants.append(chosen.with_choices(len(self.candidates) + len(variants), {key: value}))
        self.candidates += variants
        self.compute(variants, rung, "thrift")
        able = [c for c in variants if c.index not in self.failed and self.is_answer(c)]
        for candidate in able:
            self.reached_rung[candidate.index] = 3
        as_good = [c for c in able if self.cost(c).median <= self.cost(chosen).high]
        return min([chosen, *as_good], key=lambda c: (self.cost(c, "joules_to").median, c.index))


def updates_of(run: Trajectory) -> int:
    """Local trainings that a run has computed."""
    return int(np.sum(run.metrics["ready"]))


def final_experiment(given: Experiment, chosen: Candidate, target: float) -> Experiment:
    """What is to be deployed: the experiment with what was chosen, judged as it was given, until the target."""
    table = chosen.experiment.to_dict()
    table["evaluation"] = {**given.to_dict()["evaluation"], "stop_at": target}
    return Experiment.from_dict({**table, "targets": sorted({*given.targets, target})}, base=given.base)
