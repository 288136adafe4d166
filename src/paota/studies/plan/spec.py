"""What a plan asks for, what its answer may cost at most (`--where "joules_to:0.8 < 2000"`), and the plan folder.

`plan.json` holds the question. `runs/003-1` is the run folder of candidate 3 in rung 1. One with a `run.json` is whole; all
others are computed (again, or from their checkpoints) when the plan goes on. `experiment.toml`, `plan.csv` and `report.html`
are written last.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import UserError
from ...base.types import Settings, Table
from ...results.measures import Spread, median
from ...results.result import Trajectory
from ..collection import Collection, Question
from ..sweep.grid import Axis
from ..sweep.metrics import SPENT, UNITS, Metric, parse_metric, spending

_FORM = re.compile(r"\s*([a-z_]+(?::[^<>\s]*)?)\s*(<=|<)\s*(\S+)\s*")


@dataclass(frozen=True)
class Constraint:
    """A cost that must stay below a limit, in the median over the seeds."""

    metric: Metric
    limit: float
    inclusive: bool = False

    @property
    def text(self) -> str:
        """As `--where` takes it."""
        return f"{self.metric.text} {'<=' if self.inclusive else '<'} {self.limit:g}"

    def met(self, cost: float) -> bool:
        """Whether a cost stays within the limit; never does not."""
        return cost <= self.limit if self.inclusive else cost < self.limit

    def allows(self, runs: Sequence[Trajectory]) -> bool:
        """Whether runs that have come to their end meet it."""
        return self.met(Spread(tuple(self.metric.of(run) for run in runs)).median)

    def may_allow(self, runs: Sequence[Trajectory]) -> bool:
        """Whether runs that were cut short may still meet it: what they have spent only grows."""
        return self.met(median([self._at_least(run) for run in runs]))

    def _at_least(self, run: Trajectory) -> float:
        cost = self.metric.of(run)
        if math.isfinite(cost) or self.metric.name not in SPENT:
            return cost
        spent = float(spending(run, SPENT[self.metric.name])[-1])
        return math.inf if math.isnan(spent) else spent


def parse_constraint(text: str) -> Constraint:
    """`joules_to:0.8 < 2000` -> a constraint; anything else is refused in a sentence."""
    found = _FORM.fullmatch(text)
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


@dataclass(frozen=True, kw_only=True)
class PlanSpec(Question):
    """The target, the values and algorithms to choose from, and the limits; `best` is made small."""

    target: float
    axes: tuple[Axis, ...] = ()
    algorithms: tuple[str, ...] = ()
    where: tuple[str, ...] = ()

    def identity(self) -> Table:
        """All of it."""
        over = [[axis.key, list(axis.values)] for axis in self.axes]
        names = {"algorithms": self.algorithms, "where": self.where}
        return {"target": self.target, "best": self.best, "over": over, **names}


def _spec(found: Settings, **common: Any) -> PlanSpec:
    axes = tuple(Axis(key, tuple(values)) for key, values in found["over"])
    return PlanSpec(
        target=float(found["target"]), axes=axes, algorithms=tuple(found["algorithms"]), where=tuple(found["where"]),
        **common,
    )  # fmt: skip


PLANS = Collection("plan", "plan.json", 1, _spec)
