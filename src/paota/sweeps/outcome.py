"""What a sweep found: one row for each point and label, the best point of each label, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import unknown_name
from ..pages.words import counted
from ..runs.files import Columns, to_pandas
from ..runs.measures import Spread
from ..runs.results import Result
from .grid import Axis, Point, place, show
from .metrics import Metric, spread


@dataclass(frozen=True)
class SweepRow:
    """One label at one point."""

    point: int
    label: str
    values: tuple[Any, ...]  # of the axes
    scores: Mapping[str, Spread]  # by the text of the metric
    diverged: int = 0  # seeds


@dataclass(frozen=True, kw_only=True, repr=False)
class Sweep:
    """The result of `paota.sweep`. `table` is tidy, `best()` answers the question, `failed` says what did not run."""

    name: str
    axes: tuple[Axis, ...]
    best_by: Metric
    metrics: tuple[Metric, ...]
    seeds: int
    rows: tuple[SweepRow, ...]
    failed: Mapping[int, str] = field(default_factory=dict)  # why, by point
    points: int = 0
    folder: Path | None = None

    def __repr__(self) -> str:
        said = [
            f"{label}: {place(self.axes, tuple(best.values()))}" for label in self.labels if (best := self.best(label))
        ]
        return f"<paota.Sweep '{self.name}', {answer(self)}; best {'; '.join(said) or 'nowhere'}>"

    def _repr_html_(self) -> str:
        from ..pages.notebook import sweep_html

        return sweep_html(self)

    @property
    def labels(self) -> list[str]:
        """Of the algorithms, in the order of the experiment."""
        return list(dict.fromkeys(row.label for row in self.rows))

    def of(self, label: str) -> list[SweepRow]:
        """The rows of one label, by point."""
        found = [row for row in self.rows if row.label == label]
        if not found:
            raise unknown_name("algorithm label", label, self.labels)
        return found

    def best(self, label: str | None = None) -> dict[str, Any]:
        """The values of the axes at the best point of `label` (by default of the first), or {} if none reaches it."""
        row = best_row(self.of(label or self.labels[0]) if self.rows else [], self.best_by)
        return {} if row is None else {axis.key: value for axis, value in zip(self.axes, row.values, strict=True)}

    @property
    def sentences(self) -> list[str]:
        """The answer for each label."""
        return [sentence(self, label) for label in self.labels]

    @property
    def table(self) -> Columns:
        """One row a point and label: what `sweep.csv` holds."""
        return table(self)

    def to_pandas(self) -> Any:
        """`table` as a pandas DataFrame."""
        return to_pandas(self.table)


def standard_metrics(best_by: Metric, targets: Sequence[float]) -> tuple[Metric, ...]:
    """What the table holds: the metric that decides, the end, and the way to each target."""
    wanted = [best_by, Metric("final_accuracy")]
    wanted += [Metric(name, target) for name in ("seconds_to", "rounds_to") for target in targets]
    return tuple({metric.text: metric for metric in wanted}.values())


def rows_of(point: Point, result: Result, metrics: Sequence[Metric]) -> list[SweepRow]:
    """One row for each label of a point's result."""
    made = []
    for label in result.labels:
        runs = result.of(label)
        diverged = sum(run.diverged_round is not None for run in runs)
        scores = {metric.text: spread(metric, runs) for metric in metrics}
        made.append(SweepRow(point.index, label, point.values, scores, diverged))
    return made


def best_row(rows: Sequence[SweepRow], metric: Metric) -> SweepRow | None:
    """The best median; among equals the better worse quartile, then the earlier point. None if no point gets there."""
    sign = 1 if metric.kind.smaller_is_better else -1

    def rank(row: SweepRow) -> tuple[float, float, int]:
        mine = row.scores[metric.text]
        return sign * mine.median, sign * (mine.high if sign > 0 else mine.low), row.point

    able = [row for row in rows if np.isfinite(row.scores[metric.text].median) and row.diverged < _seeds(row, metric)]
    return min(able, key=rank, default=None)


def as_good(rows: Sequence[SweepRow], best: SweepRow, metric: Metric) -> list[SweepRow]:
    """Other points whose median lies inside the best point's middle half: the seeds cannot tell them apart."""
    low, high = best.scores[metric.text].low, best.scores[metric.text].high
    return [row for row in rows if row is not best and low <= row.scores[metric.text].median <= high]


def sentence(sweep: Sweep, label: str, where: Callable[[Sequence[Axis], Sequence[Any]], str] = place) -> str:
    """`timing.period_s = 6 for paota: 80 % after 240 s (median of 5 seeds, middle half 232 s to 248 s).`

    `where` says a combination of values; by default in the words of an experiment file.
    """
    metric, rows = sweep.best_by, sweep.of(label)
    best = best_row(rows, metric)
    if best is None:
        return _nobody(sweep, label, rows, where)
    mine = best.scores[metric.text]
    many = len(mine.values) > 1
    text = f"{where(sweep.axes, best.values)} for {label}: {metric.phrase(mine.median)} "
    spread = f"middle half {metric.show(mine.low)} to {metric.show(mine.high)}"
    text += f"(median of {len(mine.values)} seeds, {spread})." if many else "(one seed)."
    others = as_good(rows, best, metric) if many else []
    if others:
        named = "; ".join(where(sweep.axes, row.values) for row in others[:3])
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        text += f" Within its spread over the seeds: {named}{more}."
    return text + "".join(f" {hint}" for hint in _edges(sweep, best, where))


def _nobody(sweep: Sweep, label: str, rows: Sequence[SweepRow], where: Any) -> str:
    final = replace(Metric("final_accuracy"), score=sweep.best_by.score)
    able = [row for row in rows if row.diverged < len(row.scores[final.text].values)]
    if not able:
        return f"every point of the grid diverged for {label}."
    top = max(able, key=lambda row: row.scores[final.text].median)
    text = f"no point of the grid has a median of {sweep.best_by.title} for {label}"
    highest = final.show(top.scores[final.text].median)
    return f"{text}; the highest {final.score.name} at the end is {highest}, with {where(sweep.axes, top.values)}."


def _edges(sweep: Sweep, best: SweepRow, where: Any) -> list[str]:
    """A best value at the end of its axis may not be the best there is."""
    hints = []
    for axis, value in zip(sweep.axes, best.values, strict=True):
        if len(axis.values) < 3 or not is_numeric(axis):
            continue
        for end, word in ((min(axis.values), "smaller"), (max(axis.values), "larger")):
            if value == end:
                hints.append(f"{where([axis], [value])} is the end of its range: {word} values may be better still.")
    return hints


def is_numeric(axis: Axis) -> bool:
    """Whether all values of an axis are numbers."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in axis.values)


def _seeds(row: SweepRow, metric: Metric) -> int:
    return len(row.scores[metric.text].values)


def question(axes: Sequence[Axis]) -> str:
    """What a sweep over these axes asks."""
    return f"Which {' and '.join(axis.key for axis in axes)} should I use?"


def answer(sweep: Sweep) -> str:
    """One line for the head of a page."""
    ran = f"{counted(sweep.points, 'point')}, {counted(sweep.seeds, 'seed')} each, judged by {sweep.best_by.title}"
    return f"{ran}; {len(sweep.failed)} failed" if sweep.failed else ran


def table(sweep: Sweep) -> Columns:
    """One row a point and label; a metric's median under its own name, its quartiles and its seeds beside it."""
    rows = sweep.rows
    columns: dict[str, list[Any]] = {"point": [row.point for row in rows], "label": [row.label for row in rows]}
    for i, axis in enumerate(sweep.axes):
        plain = is_numeric(axis)
        columns[axis.key] = [row.values[i] if plain else show(row.values[i]) for row in rows]
    columns["seeds"] = [_seeds(row, sweep.best_by) for row in rows]
    columns["diverged"] = [row.diverged for row in rows]
    for metric in sweep.metrics:
        scores = [row.scores[metric.text] for row in rows]
        columns[metric.text] = [s.median for s in scores]
        columns[f"{metric.text} q25"] = [s.low for s in scores]
        columns[f"{metric.text} q75"] = [s.high for s in scores]
        if metric.kind.argument == "accuracy":
            columns[f"{metric.text} reached"] = [s.reached for s in scores]
    return {name: np.array(values, dtype=object) for name, values in columns.items()}
