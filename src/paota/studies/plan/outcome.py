"""The result of a plan: the recommendation, its costs, its limits, its certainty, and all other candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.files import Columns, to_pandas
from ...base.formatting import Score, counted, percent, quantity
from ...base.types import Table
from ...experiment.experiment import Experiment
from ...results.inference import mean_interval
from ...results.measures import Spread
from ..sweep.grid import PERIOD, Axis, beyond_the_end, show
from ..sweep.metrics import Constraint, Metric
from .candidates import Candidate, Pace, simulated
from .search import COSTS, RUNGS, Search


@dataclass(frozen=True, kw_only=True)
class PlanRow:
    """The result of one candidate.

    Args:
        candidate: the candidate.
        rung: the last rung it took part in.
        estimate: its expected pace.
        simulated: its simulated pace.
        costs: of the target, by metric name; infinite if the target was not reached.
        limits: what is constrained, by the constraint's text.
        accuracy: median over the seeds of the highest accuracy.
        seconds: longest simulated time.
        allowed: whether it keeps the constraints.
        pareto: whether no other candidate is at least as good in seconds, joules and airtime, and better in one.
    """

    candidate: Candidate
    rung: int
    estimate: Pace
    simulated: Pace
    costs: Mapping[str, Spread]
    limits: Mapping[str, Spread]
    accuracy: float
    seconds: float
    allowed: bool
    pareto: bool = False

    @property
    def seeds(self) -> int:
        """The number of seeds of its runs."""
        return len(self.costs["seconds_to"].values)

    def cost(self, name: str) -> Spread:
        """Return the cost of the target in `seconds_to`, `joules_to`, `airtime_to` or the metric that is minimised."""
        return self.costs[name]


@dataclass(frozen=True, kw_only=True, repr=False)
class Recommendation:
    """The result of `paota.plan`; `experiment` is what to deploy, None if no candidate fulfils the question.

    Args:
        name: of the experiment.
        target: test accuracy.
        best_by: the metric that is minimised.
        where: the constraints.
        seeds: of the finalists.
        duration_s: simulated time of a candidate at most.
        given_s: simulated time that the experiment allows.
        rows: one for each candidate.
        chosen: the row of the choice.
        experiment: the choice as an experiment.
        fleet: devices of the experiment.
        searched: devices of the search.
        updates: device updates that the search computed.
        failed: the reasons of failed candidates, by name.
        folder: the plan folder.
        curve: the expected pace of the choice at other periods.
    """

    name: str
    target: float
    best_by: Metric
    where: tuple[Constraint, ...]
    seeds: int
    duration_s: float
    given_s: float
    rows: tuple[PlanRow, ...]
    chosen: PlanRow | None
    experiment: Experiment | None
    fleet: int
    searched: int
    updates: int
    failed: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    curve: Sequence[Pace] = ()

    def __repr__(self) -> str:
        return f"<paota.Recommendation '{self.name}': {self.headline}>"

    def _repr_html_(self) -> str:
        from .page import plan_html  # start-up time

        return plan_html(self)

    @property
    def candidates(self) -> int:
        """The number of candidates."""
        return len(self.rows) + len(self.failed)

    @property
    def score(self) -> Score:
        """The score of the model."""
        return self.best_by.score

    @property
    def goal(self) -> str:
        """The target in words."""
        return f"{self.score.target(self.target)} test {self.score.name}"

    @property
    def choices(self) -> Table:
        """The settings to deploy, by their keys; {} if there is nothing to recommend."""
        return {} if self.chosen is None else choices_of(self.chosen.candidate)

    @property
    def ranking(self) -> list[PlanRow]:
        """The rows, the ones that survived longest and cost least first."""
        return sorted(self.rows, key=lambda row: (-row.rung, self.median(row), -row.accuracy))

    def median(self, row: PlanRow) -> float:
        """Return the median cost of a candidate in the metric that is minimised.

        Args:
            row: a candidate.
        """
        return row.cost(self.best_by.name).median

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        if self.chosen is None:
            return f"nothing to recommend: {self._why_not()}"
        cost = self.chosen.cost(self.best_by.name)
        spread = f" (middle half {self.best_by.between(cost)})" if self.seeds > 1 else ""
        word = "after" if self.best_by.name in ("seconds_to", "rounds_to") else "for"
        return f"{self.chosen.candidate.name}: {self.goal} {word} {self.best_by.show(cost.median)}{spread}"

    @property
    def sentences(self) -> list[str]:
        """The answer, its costs, its limits and its certainty."""
        said = [f"{'Deploy' if self.chosen is not None else 'There is'} {self.headline}."]
        if self.chosen is not None:
            said += [self._costs(self.chosen), *self._limits(self.chosen), self._sure(self.chosen)]
        if self.fleet > self.searched:
            said.append(f"Searched with the first {self.searched:,} of {self.fleet:,} devices.")
        return said

    @property
    def table(self) -> Columns:
        """One row per candidate, as in `plan.csv`."""
        rows = self.rows
        columns: dict[str, Sequence[object]] = {
            "candidate": [row.candidate.name for row in rows],
            "chosen": [int(row is self.chosen) for row in rows],
        }
        for what in ("rung", "seeds", "allowed", "pareto"):
            columns[what] = [int(getattr(row, what)) for row in rows]
        for name in rows[0].costs if rows else COSTS:
            for part, suffix in (("median", ""), ("low", " q25"), ("high", " q75"), ("reached", " reached")):
                columns[f"{name}:{self.target:g}{suffix}"] = [getattr(row.cost(name), part) for row in rows]
        columns["accuracy"] = [row.accuracy for row in rows]
        columns["seconds simulated"] = [row.seconds for row in rows]
        for what in ("round_s", "ready", "staleness", "noise_std"):
            columns[f"{what} estimated"] = [getattr(row.estimate, what) for row in rows]
            columns[f"{what} simulated"] = [getattr(row.simulated, what) for row in rows]
        return {name: np.array(values, dtype=object) for name, values in columns.items()}

    def to_pandas(self) -> Any:
        """Return `table` as a pandas DataFrame."""
        return to_pandas(self.table)

    def _costs(self, row: PlanRow) -> str:
        parts = []
        for name in COSTS:
            metric, spread = Metric(name, self.target), row.cost(name)
            if math.isfinite(spread.median):
                between = f" ({metric.between(spread)})".replace(" on the air", "") if row.seeds > 1 else ""
                parts.append(f"{metric.show(spread.median)}{between}")
        seeds = f"median and middle half of {counted(row.seeds, 'seed')}" if row.seeds > 1 else "one seed"
        return f"It costs {', '.join(parts)}, {seeds}."

    def _limits(self, row: PlanRow) -> list[str]:
        said = []
        quicker = [r for r in self.rows if not r.allowed and self.median(r) < self.median(row)]
        if quicker:
            broken = [c.text for c in self.where if not c.met(quicker[0].limits[c.text].median)]
            said.append(f"What limits it: {' and '.join(broken)}; without, {quicker[0].candidate.name} would do.")
        elif self.where:
            said.append(
                f"No candidate that the search saw breaks {' or '.join(c.text for c in self.where)} and is better."
            )
        pace, devices = row.simulated, row.candidate.experiment.data.devices
        idle = f", which wait {percent(row.estimate.idle, 0)} of their time" if row.estimate.idle > 0.005 else ""
        said.append(
            f"An aggregation every {quantity(pace.round_s)} s has {quantity(round(pace.ready, 1))} of "
            f"{counted(devices, 'device')}{idle}; an update is {quantity(round(pace.staleness, 2))} versions old."
        )
        return [*said, *_edges(self, row)]

    def _sure(self, row: PlanRow) -> str:
        rivals = [r for r in self.rows if r is not row and r.allowed and r.seeds == row.seeds and _is_final(r)]
        rival = min((r for r in rivals if math.isfinite(self.median(r))), key=self.median, default=None)
        if rival is None:
            return "No other candidate got to the target with all seeds."
        mine, other = (np.array(r.cost(self.best_by.name).values) for r in (row, rival))
        with np.errstate(invalid="ignore"):
            ahead = other - mine
        if row.seeds < 2 or not np.isfinite(ahead).all():
            return f"Next: {rival.candidate.name}, {self.best_by.show(self.median(rival))}."
        low, high = mean_interval(ahead)
        gap = f"{quantity(float(ahead.mean()))} {self.best_by.unit}"
        between = f"{gap} on average, {percent(0.95, 0)} interval {quantity(low)} to {quantity(high)}"
        if low > 0:
            return f"Ahead of {rival.candidate.name}: {between}."
        return f"The seeds do not separate it from {rival.candidate.name} ({between}): either will do."

    def _why_not(self) -> str:
        reached = [row for row in self.rows if _is_final(row) and math.isfinite(self.median(row))]
        if not reached:
            top = max(self.rows, key=lambda row: row.accuracy)
            goal = f"{self.score.target(self.target)} within {quantity(self.duration_s)} s"
            if self.duration_s < self.given_s:
                goal += f", as much of the {quantity(self.given_s)} s as is searched without --over"
            return f"no candidate reaches {goal}; the highest is {self.score.show(top.accuracy)}, {top.candidate.name}"
        broken = [c for c in self.where if not any(c.met(row.limits[c.text].median) for row in reached)] or self.where
        nearest = min(reached, key=lambda row: row.limits[broken[0].text].median)
        least = broken[0].metric.show(nearest.limits[broken[0].text].median)
        return (
            f"no candidate has {broken[0].text}; the nearest of those simulated to the target needs {least}, "
            f"{nearest.candidate.name}"
        )


def choices_of(candidate: Candidate) -> Table:
    """Return algorithm, period, devices, power and payload, where they apply, and all other settings that were varied."""
    config = candidate.config
    entry = config.to_dict()
    said: Table = {"algorithm": config.label}
    if PERIOD in candidate.choices or config.algorithm.scheme.uses_period:
        said[PERIOD] = config.timing.period_s
    said["data.devices"] = candidate.experiment.data.devices
    said["power.max_power_w"] = config.power.max_power_w
    said["payload"] = config.algorithm.payload
    said |= {key: entry[key] for key in ("share", "participants", "selected") if entry.get(key) is not None}
    return said | {key: value for key, value in candidate.choices.items() if key not in said}


def recommendation(search: Search, experiment: Experiment | None, curve: Sequence[Pace]) -> Recommendation:
    """Return the result of a search that has ended; `experiment` and `curve` are those of its choice."""
    spec = search.spec
    rows = [_row(search, candidate) for candidate in search.candidates if candidate.index in search.reached_rung]
    rows = [replace(row, pareto=_undominated(row, rows)) for row in rows]
    return Recommendation(
        name=spec.experiment.name,
        target=spec.target,
        best_by=replace(search.best, score=Score(search.score)),
        where=tuple(search.where),
        seeds=len(search.seeds),
        duration_s=search.duration_s,
        given_s=search.given_s,
        rows=tuple(rows),
        chosen=next((row for row in rows if row.candidate is search.chosen), None),
        experiment=experiment,
        fleet=search.fleet,
        searched=search.base.data.devices,
        updates=search.updates,
        failed={search.candidates[index].name: why for index, why in sorted(search.failed.items())},
        curve=curve,
    )


def _row(search: Search, candidate: Candidate) -> PlanRow:
    runs = search.known([candidate])[candidate.index]
    return PlanRow(
        candidate=candidate,
        rung=search.reached_rung[candidate.index],
        estimate=search.foreseen[candidate.index],
        simulated=simulated(runs),
        costs={name: search.cost(candidate, name) for name in dict.fromkeys((*COSTS, search.best.name))},
        limits={c.text: c.metric.over(runs) for c in search.where},
        accuracy=float(np.median([float(np.nanmax(run.metrics["test_accuracy"])) for run in runs])),
        seconds=max(float(run.metrics["time_s"][-1]) for run in runs),
        allowed=all(c.allows(runs) for c in search.where),
    )


def _is_final(row: PlanRow) -> bool:
    return row.rung == len(RUNGS) - 1


def _undominated(row: PlanRow, rows: Sequence[PlanRow]) -> bool:
    def costs(row: PlanRow) -> list[float]:
        return [row.cost(name).median for name in COSTS]

    mine = costs(row)
    pairs = ([(theirs <= ours, theirs < ours) for theirs, ours in zip(costs(r), mine, strict=True)] for r in rows)
    dominated = any(all(as_good for as_good, _ in pair) and any(better for _, better in pair) for pair in pairs)
    return math.isfinite(mine[0]) and not dominated


def _edges(made: Recommendation, row: PlanRow) -> list[str]:
    """Return a hint for each choice at the end of the tried values, where values beyond it may be better."""
    hints = []
    for key, value in row.candidate.choices.items():
        kin = [r.candidate.choices.get(key) for r in made.rows if r.candidate.algorithm == row.candidate.algorithm]
        numbers = sorted({number for tried in kin for number in Axis(key, (tried,)).numbers})
        if beyond := beyond_the_end(numbers, value):
            hints.append(f"{key} = {show(value)} is the end of what was tried: {beyond}")
    return hints


def shown(value: float) -> str:
    """Return a mean for a table; `-` if it is not known."""
    return quantity(value) if math.isfinite(value) else "-"


def costs_of(made: Recommendation, row: PlanRow) -> list[str]:
    """Return the median time, energy and airtime of a candidate for a table; `-` where they are not known."""
    medians = [(Metric(name, made.target), row.cost(name).median) for name in COSTS]
    return [metric.show(m).removesuffix(" on the air") if math.isfinite(m) else "-" for metric, m in medians]
