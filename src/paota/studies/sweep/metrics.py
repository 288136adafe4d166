"""What makes a point good: a number of each trajectory, its middle over the seeds, and which direction is better."""

from __future__ import annotations

import math
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
    """A family of metrics; `argument` names what follows the colon, if anything does."""

    argument: str
    smaller_is_better: bool
    title: str  # {at} stands for the argument, {score} for what the model is judged by


KINDS = {
    "seconds_to": Kind("accuracy", True, "simulated seconds to {at} test {score}"),
    "rounds_to": Kind("accuracy", True, "rounds to {at} test {score}"),
    "joules_to": Kind("accuracy", True, "joules (sending and computing) to {at} test {score}"),
    "airtime_to": Kind("accuracy", True, "seconds on the air to {at} test {score}"),
    "updates_to": Kind("accuracy", True, "device updates to {at} test {score}"),
    "seconds": Kind("", True, "simulated seconds in all"),
    "joules": Kind("", True, "joules (sending and computing) in all"),
    "airtime_s": Kind("", True, "seconds on the air in all"),
    "updates": Kind("", True, "device updates in all"),
    "final_accuracy": Kind("", False, "test {score} at the end"),
    "accuracy_at": Kind("seconds", False, "test {score} after {at} simulated seconds"),
    "accuracy_after": Kind("rounds", False, "test {score} after {at} rounds"),
    "final_loss": Kind("", True, "test loss at the end"),
}

# What is spent on the way to a target, and the metric of its total.
SPENT = {
    "seconds_to": "seconds", "rounds_to": "rounds", "joules_to": "joules", "airtime_to": "airtime_s",
    "updates_to": "updates",
}  # fmt: skip
UNITS = {"seconds": "s", "rounds": "rounds", "joules": "J", "airtime_s": "s on the air", "updates": "updates"}


def spending(run: Trajectory, what: str) -> measures.Floats:
    """What had been spent of seconds, rounds, joules, airtime_s or updates at every row of a run, `[rounds + 1]`."""
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
    """`seconds_to:0.8`, taken apart."""

    name: str
    argument: float = math.nan
    score: Score = field(default=Score(), compare=False)  # what the model is judged by

    @property
    def kind(self) -> Kind:
        """The family it belongs to."""
        return KINDS[self.name]

    @property
    def text(self) -> str:
        """As `--best` takes it, e.g. `seconds_to:0.8`."""
        return f"{self.name}:{self.argument:g}" if self.kind.argument else self.name

    @property
    def title(self) -> str:
        """In words, e.g. `simulated seconds to 80 % test {score}`."""
        to_target = self.kind.argument == "accuracy"
        at = self.score.target(self.argument) if to_target else quantity(self.argument)
        return self.kind.title.format(at=at, score=self.score.name)

    @property
    def worst(self) -> float:
        """What an unknown value counts as."""
        return math.inf if self.kind.smaller_is_better else 0.0

    def of(self, run: Trajectory) -> float:
        """Of one seed, by the rules of `paota.results.measures`; what is unknown counts as the worst."""
        value = self._of(run)
        return self.worst if math.isnan(value) else value

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
            case "final_loss":
                return measures.final_loss(run)
            case _:
                raise AssertionError(self.name)

    def show(self, value: float) -> str:
        """With its unit, for a sentence or a table."""
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
        """`97.3 to 113 s`: the middle half, with the unit once."""
        low, high = self.show(spread.low), self.show(spread.high)
        unit = high.partition(" ")[2]
        return (
            f"{low.removesuffix(unit).rstrip()} to {high}" if unit and low.endswith(f" {unit}") else f"{low} to {high}"
        )

    @property
    def unit(self) -> str:
        """Of what is spent; empty for all others."""
        return UNITS.get(SPENT.get(self.name, self.name), "")

    def phrase(self, value: float) -> str:
        """`80 % after 240 s`."""
        shown = self.show(value)
        match self.name:
            case "seconds_to" | "rounds_to":
                return f"{self.score.target(self.argument)} after {shown}"
            case "joules_to" | "airtime_to" | "updates_to":
                return f"{self.score.target(self.argument)} for {shown}"
            case "seconds" | "joules" | "airtime_s" | "updates":
                return f"{shown} in all"
            case "accuracy_at":
                return f"{shown} after {quantity(self.argument)} s"
            case "accuracy_after":
                return f"{shown} after {quantity(self.argument)} rounds"
            case "final_loss":
                return f"test loss {shown} at the end"
        return f"{shown} at the end"


def parse_metric(text: str, option: str = "--best") -> Metric:
    """`seconds_to:0.8` -> a metric; refuses unknown names and impossible numbers, naming the option that gave them."""
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
        example = {"accuracy": "0.8", "seconds": "400", "rounds": "50"}[wanted]
        raise UserError(f"{option} {name} needs a number of {wanted}, e.g. {name}:{example}, not '{text}'") from None
    if wanted == "accuracy" and not 0 < value <= 1:
        raise UserError(f"{option} {name}: an accuracy lies above 0 and at most at 1, not {raw.strip()}")
    if wanted != "accuracy" and not 0 <= value < math.inf:
        raise UserError(f"{option} {name}: a number of {wanted} is 0 or more, and finite, not {raw.strip()}")
    return Metric(name, value)


def spread(metric: Metric, runs: Sequence[Trajectory]) -> Spread:
    """One metric over the seeds of one point and label."""
    return Spread(tuple(metric.of(run) for run in runs))
