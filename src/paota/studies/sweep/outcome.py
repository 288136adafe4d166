"""What a sweep found: one row for each point and label, the best point of each label, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import unknown_name
from ...base.files import Columns, to_pandas
from ...base.formatting import counted
from ...results.measures import Spread
from ...results.result import Result
from .fair_comparison import AS_ASKED, HeldEqual, fingerprint
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
    bits: str = ""  # the same for the same results


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
    equal: HeldEqual = AS_ASKED
    foreign: Mapping[str, Sequence[str]] = field(default_factory=dict)  # axes of the timing that a label does not have

    def __repr__(self) -> str:
        said = [
            f"{label}: {place(self.touching(label), tuple(best.values()))}"
            for label in self.labels
            if (best := self.best(label))
        ]
        return f"<paota.Sweep '{self.name}', {answer(self)}; best {'; '.join(said) or 'nowhere'}>"

    def _repr_html_(self) -> str:
        from .page import sweep_html  # start-up time

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
        """The values of the axes that concern `label` (by default the first) at its best point; {} if none reaches it."""
        if not self.rows:
            return {}
        label = label or self.labels[0]
        row = self.best_row(label)
        if row is None:
            return {}
        return {axis.key: row.values[self.axes.index(axis)] for axis in self.touching(label)}

    def best_row(self, label: str) -> SweepRow | None:
        """The best point of a label; None if none reaches it, or if no axis makes a difference to it."""
        return best_row(self.of(label), self.best_by) if self.touching(label) else None

    def touching(self, label: str) -> list[Axis]:
        """The axes that make a difference to a label; with all others its results are the same, bit for bit."""
        rows = self.of(label)
        return [
            axis for i, axis in enumerate(self.axes)
            if axis.key not in self.foreign.get(label, ()) and not _idle(rows, i)
        ]  # fmt: skip

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
        made.append(SweepRow(point.index, label, point.values, scores, diverged, fingerprint(runs)))
    return made


def _idle(rows: Sequence[SweepRow], axis: int) -> bool:
    """Whether every change of one axis alone has left the bits as they are."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        rest = repr((*row.values[:axis], *row.values[axis + 1 :]))
        groups.setdefault(rest, []).append(row.bits)
    compared = [bits for bits in groups.values() if len(bits) > 1]
    return bool(compared) and all(len(set(bits)) == 1 and bits[0] for bits in compared)


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


def sentence(
    sweep: Sweep,
    label: str,
    where: Callable[[Sequence[Axis], Sequence[Any]], str] = place,
    called: Callable[[str], str] = str,
) -> str:
    """`timing.period_s = 6 for paota: 80 % after 240 s (median of 5 seeds, middle half 232 s to 248 s).`

    `where` says a combination of values, `called` a key; by default in the words of an experiment file.
    """
    metric, rows, axes = sweep.best_by, sweep.of(label), sweep.touching(label)
    if not axes:
        return _unconcerned(sweep, label, rows, where, called)
    best = best_row(rows, metric)
    if best is None:
        return _nobody(sweep, label, rows, where)
    mine = best.scores[metric.text]
    many = len(mine.values) > 1
    text = f"{where(axes, _values(sweep, best, axes))} for {label}: {metric.phrase(mine.median)} "
    spread = f"middle half {metric.show(mine.low)} to {metric.show(mine.high)}"
    text += f"(median of {len(mine.values)} seeds, {spread})." if many else "(one seed)."
    others = as_good(rows, best, metric) if many else []
    named = list(dict.fromkeys(where(axes, _values(sweep, row, axes)) for row in others))
    named = [name for name in named if name != where(axes, _values(sweep, best, axes))]
    if named:
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        text += f" Within its spread over the seeds: {'; '.join(named[:3])}{more}."
    return text + "".join(f" {hint}" for hint in _edges(sweep, best, axes, where))


def _values(sweep: Sweep, row: SweepRow, axes: Sequence[Axis]) -> list[Any]:
    return [row.values[sweep.axes.index(axis)] for axis in axes]


def _unconcerned(sweep: Sweep, label: str, rows: Sequence[SweepRow], where: Any, called: Callable[[str], str]) -> str:
    """No advice on what makes no difference."""
    metric, keys = sweep.best_by, [called(axis.key) for axis in sweep.axes]
    medians = sorted(row.scores[metric.text].median for row in rows)
    if not np.isfinite(medians[0]):
        return _nobody(sweep, label, rows, where)
    if medians[0] == medians[-1]:
        verb = "makes" if len(keys) == 1 else "make"
        return f"{label}: {' and '.join(keys)} {verb} no difference; {metric.phrase(medians[0])} at every point."
    return (
        f"{label} has no {' and no '.join(keys)}: only its number of participants follows PAOTA's, by the fairness rule "
        f"({metric.show(medians[0])} to {metric.show(medians[-1])}); choose it with algorithms.{label}.participants."
    )


def _nobody(sweep: Sweep, label: str, rows: Sequence[SweepRow], where: Any) -> str:
    final = replace(Metric("final_accuracy"), score=sweep.best_by.score)
    able = [row for row in rows if row.diverged < len(row.scores[final.text].values)]
    if not able:
        return f"every point of the grid diverged for {label}."
    top = max(able, key=lambda row: row.scores[final.text].median)
    text = f"no point of the grid has a median of {sweep.best_by.title} for {label}"
    highest = final.show(top.scores[final.text].median)
    return f"{text}; the highest {final.score.name} at the end is {highest}, with {where(sweep.axes, top.values)}."


def _edges(sweep: Sweep, best: SweepRow, axes: Sequence[Axis], where: Any) -> list[str]:
    """A best value at the end of its axis may not be the best there is."""
    hints = []
    for axis, value in zip(axes, _values(sweep, best, axes), strict=True):
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
