"""The search of a plan: successive halving in the pool.

Many candidates run for a short time with two seeds, a third of them for longer, the best with all seeds. Every rung multiplies
the simulated time by `FACTOR` and divides the number of candidates by it, the usual constant of successive halving (Jamieson
and Talwalkar 2016; Li et al. 2018). Rungs end together and rank by results alone, so neither the number of processes nor an
interruption changes the answer.

In a plan folder `plan.json` holds the question, and `runs/003-1` is the run folder of candidate 3 in rung 1. One with a
`run.json` is complete; a resumed plan computes all others, from their checkpoints where they have some. `experiment.toml`,
`plan.csv` and `report.html` are written last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...base.errors import UserError
from ...base.rng import seed_numbers
from ...base.types import Settings, Table
from ...callbacks.base import Callback, Round
from ...experiment.experiment import Experiment
from ...results import measures
from ...results.measures import Spread
from ...results.result import Trajectory
from ..pool import Pool, Update
from ..study import Collection, Question, RunJob, Watching, shared_by_jobs, unwatched
from ..sweep.grid import Axis
from ..sweep.metrics import SPENT, Constraint, Metric, parse_constraint, parse_metric, spending
from .candidates import Candidate, Pace, affordable, base_of, candidates_of, entries_of, paces_of

RUNGS = ("first rung", "second rung", "final")
FACTOR = 3
FEWEST = (3, 2)  # survivors of the first rung, and of the second
COSTS = ("seconds_to", "joules_to", "airtime_to")  # the trade-off that is shown
SEARCHED = 1_000  # devices in the search, at most

Runs = Mapping[int, Sequence[Trajectory]]  # by candidate, in the order of the seeds


@dataclass(frozen=True, kw_only=True)
class PlanSpec(Question):
    """The question of a plan: the target, the values and algorithms to choose from, and the limits.

    `best` is minimised.
    """

    target: float
    axes: tuple[Axis, ...] = ()
    algorithms: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    def identity(self) -> Table:
        """Return what must not change when a plan is resumed: all of it."""
        over = [[axis.key, list(axis.values)] for axis in self.axes]
        names = {"algorithms": self.algorithms, "where": self.where}
        return {"target": self.target, "best": self.best, "over": over, **names}


def _spec(found: Settings, *, experiment: Experiment, seeds: int | tuple[int, ...], best: str) -> PlanSpec:
    return PlanSpec(
        experiment=experiment, seeds=seeds, best=best, target=float(found["target"]),
        axes=tuple(Axis(key, tuple(values)) for key, values in found["over"]),
        algorithms=tuple(found["algorithms"]), where=tuple(found["where"]),
    )  # fmt: skip


PLANS = Collection("plan", "plan.json", 1, _spec)


@dataclass(frozen=True)
class Rung:
    """Some seeds, up to a simulated time."""

    seeds: tuple[int, ...]
    until_s: float


def rungs(seeds: Sequence[int], duration_s: float) -> list[Rung]:
    """Return two seeds for a ninth of the time and for a third, all for all of it. One seed would drop the best too often."""
    counts = (2, 2, len(seeds))
    return [Rung(tuple(seeds[:n]), duration_s / FACTOR ** (len(RUNGS) - 1 - i)) for i, n in enumerate(counts)]


class Until(Callback):
    """Stops a unit at the end of a rung's simulated time."""

    def __init__(self, time_s: float) -> None:
        self.time_s = time_s

    def round(self, round: Round) -> bool:
        return round.time_s >= self.time_s


def is_over(run: Trajectory, target: float, duration_s: float) -> bool:
    """Return whether more time changes nothing: the target is reached, the model has diverged, or the time is up."""
    reached = math.isfinite(measures.reach(run, target))
    return reached or run.diverged_round is not None or float(run.metrics["time_s"][-1]) >= duration_s


def ranked(
    candidates: Sequence[Candidate], runs: Runs, best: Metric, where: Sequence[Constraint], *, final: bool = False
) -> list[Candidate]:
    """Return the candidates, the best first.

    The rank is the median cost of the target. Candidates that have not reached the target follow, ranked by their accuracy
    at equal spending. Candidates that break a constraint, or before the last rung must break it, come last.
    """
    what = SPENT[best.name]
    spent = [
        float(spending(run, what)[-1]) for mine in runs.values() for run in mine if not math.isfinite(best.of(run))
    ]
    equal = min((value for value in spent if math.isfinite(value)), default=math.inf)

    def rank(candidate: Candidate) -> tuple[bool, float, float, int]:
        mine = runs[candidate.index]
        test = Constraint.allows if final else Constraint.may_allow
        broken = not all(test(constraint, mine) for constraint in where)
        return broken, best.over(mine).median, -_accuracy(mine, what, equal), candidate.index

    return sorted(candidates, key=rank)


def survivors(
    rung: int, candidates: Sequence[Candidate], runs: Runs, best: Metric, where: Sequence[Constraint], *, grid: int
) -> list[Candidate]:
    """Return the survivors of a rung: a share of the whole grid; after the first rung also the best by each other cost."""
    count = max(FEWEST[rung], math.ceil(grid / FACTOR ** (rung + 1)))
    kept = ranked(candidates, runs, best, where)[:count]
    for name in COSTS if rung == 0 else ():
        champion = ranked(candidates, runs, Metric(name, best.argument), where)[0]
        if champion not in kept:
            kept.append(champion)
    return sorted(kept, key=lambda candidate: candidate.index)


def _accuracy(runs: Sequence[Trajectory], what: str, limit: float) -> float:
    """Return the median accuracy at a limit of spending; a run that diverged has 0."""
    values = []
    for run in runs:
        lost = run.diverged_round is not None
        along = np.nan_to_num(spending(run, what), nan=math.inf)
        values.append(float(measures.newest(run.metrics["test_accuracy"], along, limit, diverged=lost, lost=0.0)))
    return measures.median(np.nan_to_num(values))


@dataclass
class Search:
    """The state of a search.

    Args:
        spec: the question.
        path: the plan folder.
        jobs: number of processes.
        ray: as for a `Pool`.
        watching: called at the beginning of a rung; gives a context with the watcher of its jobs.
        runs: `runs[c][seed]` is the longest run of candidate c with that seed.
        reached_rung: the last rung of each candidate.
        failed: the reasons of failed candidates.
        foreseen: the expected pace of each candidate.
        updates: device updates computed so far.
        score: the name of the score.
    """

    spec: PlanSpec
    path: Path
    jobs: int
    ray: str | None = None
    watching: Watching = unwatched
    runs: dict[int, dict[int, Trajectory]] = field(default_factory=dict)
    reached_rung: dict[int, int] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    foreseen: dict[int, Pace] = field(default_factory=dict)
    updates: int = 0
    score: str = "accuracy"

    def __post_init__(self) -> None:
        spec = self.spec
        self.best: Metric = parse_metric(spec.best)
        self.where: list[Constraint] = [parse_constraint(text) for text in spec.where]
        limited = [c.metric.argument for c in self.where if c.metric.kind.argument]
        self.stop_at = max([spec.target, *limited])
        self.base = base_of(spec.experiment, spec.target, self.stop_at)
        self.fleet, self.given_s = self.base.data.devices, self.duration_s
        if self.fleet > SEARCHED and "data.devices" not in {axis.key for axis in spec.axes}:
            self.base = self.base.override({"data.devices": SEARCHED})
        if not spec.axes:
            self.base = affordable(self.base)
        entries = entries_of(spec.experiment, spec.algorithms)
        self.candidates = candidates_of(self.base, entries, spec.axes)
        self.pool = Pool(self.jobs, self.ray)
        self.given = shared_by_jobs(spec.experiment, processes=self.jobs > 1 or self.ray is not None)
        self.seeds = seed_numbers(spec.seeds, spec.experiment.seed)
        self.chosen: Candidate | None = None

    @property
    def duration_s(self) -> float:
        """Simulated time that every candidate may take."""
        return float(self.base.horizon.duration_s or 0.0)

    @property
    def largest_share(self) -> float:
        """The most that all rungs compute, as a share of one whole run of every candidate."""
        grid, steps = len(self.candidates), rungs(self.seeds, self.duration_s)
        kept = [max(fewest, math.ceil(grid / FACTOR**i)) for i, fewest in enumerate((grid, *FEWEST))]
        kept[1] += len(COSTS)
        whole = sum(min(n, grid) * len(rung.seeds) * rung.until_s for n, rung in zip(kept, steps, strict=True))
        return whole / (grid * self.duration_s)

    def run(self) -> None:
        """Compute all rungs, and choose."""
        alive: Sequence[Candidate] = self.candidates
        steps = rungs(self.seeds, self.duration_s)
        with self.pool:
            for i, rung in enumerate(steps):
                last = i == len(steps) - 1
                if not last and len(alive) <= 2:
                    continue  # none to drop
                self.compute(alive, rung, i)
                alive = [candidate for candidate in alive if candidate.index not in self.failed]
                self.reached_rung |= {candidate.index: i for candidate in alive}
                if not alive:
                    why = next(iter(self.failed.values()), "no candidate")
                    raise UserError(f"no candidate could be simulated: {why}")
                if not last:
                    grid = len(self.candidates)
                    alive = survivors(i, alive, self.known(alive), self.best, self.where, grid=grid)
        first = ranked(alive, self.known(alive), self.best, self.where, final=True)[0]
        mine = self.known([first])[first.index]
        if math.isfinite(self.cost(first).median) and all(c.allows(mine) for c in self.where):
            self.chosen = first

    def known(self, candidates: Sequence[Candidate]) -> dict[int, list[Trajectory]]:
        """Return the runs of candidates in the order of the seeds."""
        return {c.index: [run for _, run in sorted(self.runs[c.index].items())] for c in candidates}

    def cost(self, candidate: Candidate, name: str | None = None) -> Spread:
        """Return the cost of the target over the seeds; by default in the metric that is minimised."""
        metric = self.best if name is None else Metric(name, self.best.argument)
        return metric.over(self.known([candidate])[candidate.index])

    def foresee(self, candidates: Sequence[Candidate]) -> None:
        """Estimate the pace of candidates before anything is learned."""
        for candidate in candidates:
            if candidate.index not in self.foreseen:
                self.foreseen[candidate.index], _ = paces_of(candidate)

    def compute(self, candidates: Sequence[Candidate], rung: Rung, number: int) -> None:
        """Simulate the missing runs of a rung; a run that is over is not repeated."""
        tasks, wanted = [], {}
        for candidate in candidates:
            mine = self.runs.setdefault(candidate.index, {})
            seeds = tuple(s for s in rung.seeds if s not in mine or not is_over(mine[s], self.stop_at, self.duration_s))
            if not seeds:
                continue
            path = self.path / "runs" / f"{candidate.index:03d}-{number}"
            key = f"{candidate.index}/{number}"
            wanted[key] = candidate, path, seeds
            if PLANS.finished(path, candidate.experiment, seeds) is not None:
                continue
            tasks.append(
                RunJob(
                    key=key, experiment=candidate.experiment.to_dict(), base=str(candidate.experiment.base), seeds=seeds,
                    given=self.given,
                    folder=str(path), callbacks=(Until(rung.until_s),), title=candidate.name, devices=False,
                )
            )  # fmt: skip
        names = {key: candidate.name for key, (candidate, _, _) in wanted.items()}
        (self.path / "runs").mkdir(exist_ok=True)
        with self.watching(RUNGS[number], names) as watch:
            for key in names.keys() - {task.key for task in tasks}:
                watch(Update(key, "done", 1.0))
            # Neighbours often share a program: at the same time, two processes would both compile it.
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


def updates_of(run: Trajectory) -> int:
    """Return the local trainings that a run has computed."""
    return int(np.sum(run.metrics["ready"]))
