"""What a plan has found: the recommendation, what it costs, what limits it, how sure that is, and what else there was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.files import Columns, to_pandas
from ...base.formatting import Score, counted, quantity
from ...experiment.experiment import Experiment
from ...results.inference import mean_interval
from ...results.measures import Spread
from ..sweep.grid import show
from ..sweep.metrics import Metric
from .candidates import Candidate
from .estimate import Pace
from .search import COSTS, THRIFT, Search, updates_of
from .spec import Constraint


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """One candidate: what was expected of it, how far it got in the search, and what it was seen to cost."""

    candidate: Candidate
    rung: int  # the last one it took part in; 3: a thriftier variant of the choice
    estimate: Pace
    simulated: Pace
    costs: Mapping[str, Spread]  # to the target, by metric name; never is infinite
    limits: Mapping[str, Spread]  # what is constrained, by the constraint's text
    accuracy: float  # median at the end of what was simulated
    seconds: float  # simulated at most
    updates: int  # device updates in all of its last runs
    allowed: bool
    pareto: bool = False

    @property
    def seeds(self) -> int:
        """How many it was simulated with."""
        return len(self.costs["seconds_to"].values)

    def cost(self, name: str) -> Spread:
        """To the target, of `seconds_to`, `joules_to`, `airtime_to` or what was made small."""
        return self.costs[name]


@dataclass(frozen=True, kw_only=True, repr=False)
class Recommendation:
    """The result of `paota.plan`; `experiment` is what to deploy, None if nothing gets to the target as asked."""

    name: str
    target: float
    best_by: Metric
    where: tuple[Constraint, ...]
    seeds: int
    duration_s: float
    given_s: float  # that the experiment allows
    rows: tuple[PlanRow, ...]
    chosen: PlanRow | None
    experiment: Experiment | None
    fleet: int
    searched: int
    updates: int  # device updates that the search has computed
    candidates: int
    failed: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    curve: Sequence[Pace] = ()  # the chosen one at other periods, from the latencies alone

    def __repr__(self) -> str:
        return f"<paota.Recommendation '{self.name}': {self.headline}>"

    def _repr_html_(self) -> str:
        from .page import plan_html

        return plan_html(self)

    @property
    def score(self) -> Score:
        """What the model is judged by."""
        return self.best_by.score

    @property
    def choices(self) -> dict[str, Any]:
        """What to deploy, in a few words of an experiment file; {} if there is nothing to recommend."""
        return {} if self.chosen is None else choices_of(self.chosen.candidate)

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        goal = f"{self.score.target(self.target)} test {self.score.name}"
        if self.chosen is None:
            return f"nothing to recommend: {self._why_not()}"
        cost = self.chosen.cost(self.best_by.name)
        spread = f" (middle half {self.best_by.between(cost)})" if self.seeds > 1 else ""
        words = {"seconds_to": "after", "rounds_to": "after"}.get(self.best_by.name, "for")
        return f"{self.chosen.candidate.name}: {goal} {words} {self.best_by.show(cost.median)}{spread}"

    @property
    def sentences(self) -> list[str]:
        """The answer, its costs, what limits it, and how sure it is."""
        said = [f"{'Deploy' if self.chosen is not None else 'There is'} {self.headline}."]
        if self.chosen is not None:
            said += [self._costs(self.chosen), *self._limits(self.chosen), self._sure(self.chosen)]
        if self.fleet > self.searched:
            said.append(f"Searched with the first {self.searched:,} of {self.fleet:,} devices.")
        return said

    @property
    def table(self) -> Columns:
        """One row a candidate: what `plan.csv` holds."""
        return table(self)

    def to_pandas(self) -> Any:
        """`table` as a pandas DataFrame."""
        return to_pandas(self.table)

    def _costs(self, row: PlanRow) -> str:
        parts = []
        for name in COSTS:
            metric, spread = Metric(name, self.target), row.cost(name)
            if math.isfinite(spread.median):
                between = f" ({metric.between(spread)})" if row.seeds > 1 else ""
                parts.append(f"{metric.show(spread.median)}{between}")
        seeds = f"median and middle half of {counted(row.seeds, 'seed')}" if row.seeds > 1 else "one seed"
        return f"It costs {', '.join(parts)}, {seeds}."

    def _limits(self, row: PlanRow) -> list[str]:
        said = []
        quicker = [r for r in self.rows if not r.allowed and _median(r, self) < _median(row, self)]
        if quicker:
            broken = [c.text for c in self.where if not c.met(quicker[0].limits[c.text].median)]
            said.append(f"What limits it: {' and '.join(broken)}; without, {quicker[0].candidate.name} would do.")
        elif self.where:
            said.append(
                f"No candidate that the search saw breaks {' or '.join(c.text for c in self.where)} and is better."
            )
        pace, devices = row.simulated, row.candidate.experiment.data.devices
        idle = f", which wait {row.estimate.idle:.0%} of their time" if row.estimate.idle > 0.005 else ""
        said.append(
            f"An aggregation every {quantity(pace.round_s)} s has {quantity(round(pace.ready, 1))} of "
            f"{counted(devices, 'device')}{idle}; an update is {quantity(round(pace.staleness, 2))} versions old."
        )
        return [*said, *_edges(self, row)]

    def _sure(self, row: PlanRow) -> str:
        same = _without_thrift(row.candidate)  # the choice before it was made thriftier is no rival
        rivals = [r for r in self.rows if r.allowed and r.seeds == row.seeds and r.rung == 2]
        rivals = [r for r in rivals if _without_thrift(r.candidate) != same]
        rivals = sorted((r for r in rivals if math.isfinite(_median(r, self))), key=lambda r: _median(r, self))
        if not rivals:
            return "No other candidate got to the target with all seeds."
        mine, other = (np.array(r.cost(self.best_by.name).values) for r in (row, rivals[0]))
        with np.errstate(invalid="ignore"):
            ahead = other - mine
        if row.seeds < 2 or not np.isfinite(ahead).all():
            return f"Next: {rivals[0].candidate.name}, {self.best_by.show(_median(rivals[0], self))}."
        low, high = mean_interval(ahead)
        gap = f"{quantity(float(ahead.mean()))} {self.best_by.unit}"
        between = f"{gap} on average, 95 % interval {quantity(low)} to {quantity(high)}"
        if low > 0:
            return f"Ahead of {rivals[0].candidate.name} with certainty: {between}."
        return f"The seeds cannot tell it from {rivals[0].candidate.name} ({between}): take whichever suits you."

    def _why_not(self) -> str:
        finals = [row for row in self.rows if row.rung == 2]
        reached = [row for row in finals if math.isfinite(_median(row, self))]
        if not reached:
            top = max(self.rows, key=lambda row: row.accuracy)
            goal = f"{self.score.target(self.target)} within {quantity(self.duration_s)} s"
            if self.duration_s < self.given_s:
                goal += f", as much of the {quantity(self.given_s)} s as is searched without --over"
            return f"no candidate reaches {goal}; the highest is {self.score.show(top.accuracy)}, {top.candidate.name}"
        broken = [c for c in self.where if not any(c.met(row.limits[c.text].median) for row in reached)] or self.where
        nearest = min(reached, key=lambda row: row.limits[broken[0].text].median)
        least = broken[0].metric.show(nearest.limits[broken[0].text].median)
        return f"no candidate has {broken[0].text}; the nearest needs {least}, {nearest.candidate.name}"


def choices_of(candidate: Candidate) -> dict[str, Any]:
    """The five answers, where they apply: algorithm, period, devices, power, payload; and what else was varied."""
    config = candidate.config
    entry = config.to_dict()
    said: dict[str, Any] = {"algorithm": config.label}
    if "timing.period_s" in candidate.choices or type(config.algorithm.scheme).__name__ in ("Periodic", "Tiered"):
        said["timing.period_s"] = config.timing.period_s
    said["data.devices"] = candidate.experiment.data.devices
    said["power.max_power_w"] = config.power.max_power_w
    said["payload"] = config.algorithm.payload
    said |= {key: entry[key] for key in ("share", "participants", "selected") if entry.get(key) is not None}
    return said | {key: value for key, value in candidate.choices.items() if key not in said}


def recommendation(search: Search, experiment: Experiment | None) -> Recommendation:
    """The outcome of a search that has ended."""
    from .estimate import simulated

    rows = []
    for candidate in search.candidates:
        if candidate.index not in search.reached_rung:  # it failed
            continue
        runs = search.known([candidate])[candidate.index]
        names = dict.fromkeys((*COSTS, search.best.name))
        rows.append(
            PlanRow(
                candidate=candidate,
                rung=search.reached_rung[candidate.index],
                estimate=search.foreseen[candidate.index],
                simulated=simulated(runs),
                costs={name: search.cost(candidate, name) for name in names},
                limits={c.text: Spread(tuple(c.metric.of(run) for run in runs)) for c in search.where},
                accuracy=float(np.median([float(np.nanmax(run.metrics["test_accuracy"])) for run in runs])),
                seconds=max(float(run.metrics["time_s"][-1]) for run in runs),
                updates=sum(updates_of(run) for run in runs),
                allowed=all(c.allows(runs) for c in search.where),
            )
        )
    rows = [replace(row, pareto=_undominated(row, rows)) for row in rows]
    chosen = next((row for row in rows if row.candidate is search.chosen), None)
    score = Score(search.score)
    return Recommendation(
        name=search.spec.experiment.name,
        target=search.spec.target,
        best_by=replace(search.best, score=score),
        where=tuple(search.where),
        seeds=len(search.seeds),
        duration_s=search.duration_s,
        given_s=search.given_s,
        rows=tuple(rows),
        chosen=chosen,
        experiment=experiment,
        fleet=search.fleet,
        searched=search.base.data.devices,
        updates=search.updates,
        candidates=search.grid,
        failed={search.candidates[index].name: why for index, why in sorted(search.failed.items())},
    )


def _undominated(row: PlanRow, rows: Sequence[PlanRow]) -> bool:
    """Whether no other row is at least as good in seconds, joules and airtime, and better in one."""
    mine = _three(row)
    if not np.isfinite(mine[0]):
        return False
    return not any((_three(r) <= mine).all() and (_three(r) < mine).any() for r in rows if r is not row)


def _three(row: PlanRow) -> Any:
    return np.array([row.cost(name).median for name in COSTS])


def _median(row: PlanRow, made: Recommendation) -> float:
    return row.cost(made.best_by.name).median


def _edges(made: Recommendation, row: PlanRow) -> list[str]:
    """A choice at the end of what was tried may not be the best there is."""
    hints = []
    for key, value in row.candidate.choices.items():
        tried = {r.candidate.choices.get(key) for r in made.rows if r.candidate.algorithm == row.candidate.algorithm}
        numbers = sorted(v for v in tried if isinstance(v, int | float) and not isinstance(v, bool))
        if len(numbers) > 2 and value in (numbers[0], numbers[-1]):
            word = "smaller" if value == numbers[0] else "larger"
            hints.append(f"{key} = {show(value)} is the end of what was tried: {word} values may be better still.")
    return hints


def _without_thrift(candidate: Candidate) -> dict[str, Any]:
    return {"algorithm": candidate.algorithm} | {k: v for k, v in candidate.choices.items() if k not in THRIFT}


def table(made: Recommendation) -> Columns:
    """One row a candidate."""
    rows = made.rows
    columns: dict[str, list[Any]] = {
        "candidate": [row.candidate.name for row in rows],
        "chosen": [int(row is made.chosen) for row in rows],
        "rung": [row.rung for row in rows],
        "seeds": [row.seeds for row in rows],
        "allowed": [int(row.allowed) for row in rows],
        "pareto": [int(row.pareto) for row in rows],
    }
    for name in rows[0].costs if rows else COSTS:
        for part, suffix in (("median", ""), ("low", " q25"), ("high", " q75"), ("reached", " reached")):
            columns[f"{name}:{made.target:g}{suffix}"] = [getattr(row.cost(name), part) for row in rows]
    columns["accuracy"] = [row.accuracy for row in rows]
    columns["seconds simulated"] = [row.seconds for row in rows]
    for what in ("round_s", "ready", "staleness", "noise_std"):
        columns[f"{what} estimated"] = [getattr(row.estimate, what) for row in rows]
        columns[f"{what} simulated"] = [getattr(row.simulated, what) for row in rows]
    return {name: np.array(values, dtype=object) for name, values in columns.items()}
