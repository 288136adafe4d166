"""Metrics that compare runs: a number for each run, its median over the seeds, and limits on what is spent."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.errors import UserError, unknown_name
from ...base.formatting import Score, quantity
from ...results import measures
from ...results.measures import Spread
from ...results.result import Trajectory


@dataclass(frozen=True)
class Kind:
    """A family of metrics.

    In `title` and `phrase`, {at} stands for the argument, {score} for the name of the score, {value} for the result.
    """

    argument: str  # what follows the colon; empty if nothing does
    smaller_is_better: bool
    title: str
    phrase: str


KINDS = {
    "seconds_to": Kind("accuracy", True, "simulated seconds to {at} test {score}", "{at} after {value}"),
    "rounds_to": Kind("accuracy", True, "rounds to {at} test {score}", "{at} after {value}"),
    "joules_to": Kind("accuracy", True, "joules (sending and computing) to {at} test {score}", "{at} for {value}"),
    "airtime_to": Kind("accuracy", True, "seconds on the air to {at} test {score}", "{at} for {value}"),
    "updates_to": Kind("accuracy", True, "device updates to {at} test {score}", "{at} for {value}"),
    "seconds": Kind("", True, "simulated seconds in all", "{value} in all"),
    "joules": Kind("", True, "joules (sending and computing) in all", "{value} in all"),
    "airtime_s": Kind("", True, "seconds on the air in all", "{value} in all"),
    "updates": Kind("", True, "device updates in all", "{value} in all"),
    "final_accuracy": Kind("", False, "test {score} at the end", "{value} at the end"),
    "accuracy_at": Kind("seconds", False, "test {score} after {at} simulated seconds", "{value} after {at} s"),
    "accuracy_after": Kind("rounds", False, "test {score} after {at} rounds", "{value} after {at} rounds"),
    "final_loss": Kind("", True, "test loss at the end", "test loss {value} at the end"),
}
EXAMPLES = {"accuracy": "0.8", "seconds": "400", "rounds": "50"}

# What is spent on the way to a target, and the metric of its total.
SPENT = {
    "seconds_to": "seconds", "rounds_to": "rounds", "joules_to": "joules", "airtime_to": "airtime_s",
    "updates_to": "updates",
}  # fmt: skip
UNITS = {"seconds": "s", "rounds": "rounds", "joules": "J", "airtime_s": "s on the air", "updates": "updates"}
_CONSTRAINT = re.compile(r"\s*([a-z_]+(?::[^<>\s]*)?)\s*(<=|<)\s*(\S+)\s*")


def spending(run: Trajectory, what: str) -> measures.Floats:
    """Return the seconds, rounds, joules, airtime_s or updates spent so far, at every row of a run `[rounds + 1]`."""
    metrics = run.metrics
    match what:
        case "seconds":
            return np.asarray(metrics["time_s"], float)
        case "rounds":
            return np.asarray(metrics["round"], float)
        case "joules":
            return np.cumsum(metrics["energy_j"] + metrics["compute_j"])
        case "airtime_s":
            return np.cumsum(np.asarray(metrics["airtime_s"], float))
        case "updates":
            return np.cumsum(np.asarray(metrics["ready"], float))
    raise AssertionError(what)


@dataclass(frozen=True)
class Metric:
    """A metric such as `seconds_to:0.8`: its name and its argument. `score` is the column `test_accuracy`."""

    name: str
    argument: float = 0.0  # of a metric that has one; NaN would make equal metrics differ on Python 3.13
    score: Score = field(default=Score(), compare=False)

    @property
    def kind(self) -> Kind:
        """The family of the metric."""
        return KINDS[self.name]

    @property
    def text(self) -> str:
        """The metric in the words of `--best`, e.g. `seconds_to:0.8`."""
        return f"{self.name}:{self.argument:g}" if self.kind.argument else self.name

    @property
    def title(self) -> str:
        """The metric in words, e.g. `simulated seconds to 80 % test accuracy`."""
        return self.kind.title.format(at=self._at, score=self.score.name)

    def phrase(self, value: float) -> str:
        """Return a value in words: `80 % after 240 s`."""
        return self.kind.phrase.format(at=self._at, value=self.show(value))

    @property
    def _at(self) -> str:
        to_target = self.kind.argument == "accuracy"
        return self.score.target(self.argument) if to_target else quantity(self.argument)

    def of(self, run: Trajectory) -> float:
        """Return the metric of one run by the rules of `paota.results.measures`; an unknown value is the worst one."""
        value = self._of(run)
        return (math.inf if self.kind.smaller_is_better else 0.0) if math.isnan(value) else value

    def over(self, runs: Sequence[Trajectory]) -> Spread:
        """Return the metric of several runs, one of each seed."""
        return Spread(tuple(self.of(run) for run in runs))

    def _of(self, run: Trajectory) -> float:
        if self.name in SPENT:
            return measures.reach(run, self.argument, spending(run, SPENT[self.name]))
        if self.name in UNITS:
            return float(spending(run, self.name)[-1])
        match self.name:
            case "final_accuracy":
                return measures.final_accuracy(run)
            case "accuracy_at":
                return measures.accuracy_at(run, self.argument, "time_s")
            case "accuracy_after":
                return measures.accuracy_at(run, self.argument, "round")
        return measures.final_loss(run)

    def show(self, value: float) -> str:
        """Return a value with its unit, for a sentence or a table."""
        if not math.isfinite(value):
            return "never" if self.kind.argument == "accuracy" else "-"
        if self.name in ("final_accuracy", "accuracy_at", "accuracy_after"):
            return self.score.show(value)
        if self.name == "final_loss":
            return f"{value:.4g}"
        if self.unit == UNITS["airtime_s"] and 0 < value < 0.1:
            return f"{quantity(1000 * value)} m{self.unit}"
        return f"{quantity(value)} {self.unit}"

    def between(self, spread: Spread) -> str:
        """Return the middle half with its unit once: `97.3 to 113 s`."""
        low, high = self.show(spread.low), self.show(spread.high)
        unit = high.partition(" ")[2]
        shared = unit and low.endswith(f" {unit}")
        return f"{low.removesuffix(unit).rstrip() if shared else low} to {high}"

    @property
    def unit(self) -> str:
        """The unit of a metric of spending; empty for all others."""
        return UNITS.get(SPENT.get(self.name, self.name), "")


def parse_metric(text: str, option: str = "--best") -> Metric:
    """Parse `seconds_to:0.8`; refuse unknown names and impossible numbers, naming the option that gave them."""
    name, colon, raw = text.strip().partition(":")
    if name not in KINDS:
        raise unknown_name(f"metric of {option}", name, KINDS)
    wanted = KINDS[name].argument
    if not wanted:
        if colon:
            raise UserError(f"{option} {name} takes no number, not '{text}'")
        return Metric(name)
    try:
        value = float(raw)
    except ValueError:
        example = f"{name}:{EXAMPLES[wanted]}"
        raise UserError(f"{option} {name} needs a number of {wanted}, e.g. {example}, not '{text}'") from None
    if wanted == "accuracy" and not 0 < value <= 1:
        raise UserError(f"{option} {name}: an accuracy must be above 0 and at most 1, not {raw.strip()}")
    if wanted != "accuracy" and not 0 <= value < math.inf:
        raise UserError(f"{option} {name}: a number of {wanted} is 0 or more, and finite, not {raw.strip()}")
    return Metric(name, value)


@dataclass(frozen=True)
class Constraint:
    """A cost that must stay below a limit, in the median over the seeds."""

    metric: Metric
    limit: float
    inclusive: bool = False

    @property
    def text(self) -> str:
        """The constraint in the words of `--where`."""
        return f"{self.metric.text} {'<=' if self.inclusive else '<'} {self.limit:g}"

    def met(self, cost: float) -> bool:
        """Return whether a cost is within the limit; an infinite cost is not."""
        return cost <= self.limit if self.inclusive else cost < self.limit

    def allows(self, runs: Sequence[Trajectory]) -> bool:
        """Return whether complete runs meet the constraint."""
        return self.met(self.metric.over(runs).median)

    def may_allow(self, runs: Sequence[Trajectory]) -> bool:
        """Return whether shortened runs may still meet the constraint: their spending only grows."""
        return self.met(measures.median([self._at_least(run) for run in runs]))

    def _at_least(self, run: Trajectory) -> float:
        cost = self.metric.of(run)
        if math.isfinite(cost) or self.metric.name not in SPENT:
            return cost
        spent = float(spending(run, SPENT[self.metric.name])[-1])
        return math.inf if math.isnan(spent) else spent


def parse_constraint(text: str) -> Constraint:
    """Parse `joules_to:0.8 < 2000`; refuse anything else in a sentence."""
    found = _CONSTRAINT.fullmatch(text)
    if found is None:
        raise UserError(f"--where needs METRIC < NUMBER, e.g. --where 'joules_to:0.8 < 2000', not '{text}'")
    metric = parse_metric(found[1], "--where")
    if metric.name not in SPENT and metric.name not in UNITS:
        names = ", ".join([*SPENT, *UNITS])
        raise UserError(
            f"--where limits what is spent on the way to the target, not {metric.name}; choose from: {names}"
        )
    try:
        limit = float(found[3])
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        raise UserError(f"--where {metric.text}: the limit must be a number above 0, not {found[3]}")
    return Constraint(metric, limit, found[2] == "<=")
