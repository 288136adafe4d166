"""The result of a sweep: a row for each point and label, and the best point of each label in a sentence."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import unknown_name
from ...base.files import Columns, to_pandas
from ...base.formatting import counted, quantity
from ...base.types import Table
from ...results.measures import Spread
from ...results.result import Result, Trajectory
from .grid import Axis, Point, beyond_the_end, place, setting_name, show
from .metrics import Metric


@dataclass(frozen=True, kw_only=True)
class HeldEqual:
    """The quantity that all points have equal: "time" or "rounds".

    `duration_s` is the simulated time of all points where equal rounds would have taken unequal time, else None.
    """

    what: str = "time"
    duration_s: float | None = None

    @property
    def sentence(self) -> str:
        """The equality in words; empty if nothing was changed."""
        if self.duration_s is None:
            return ""
        return (
            f"Equal rounds would take unequal time: all points get {quantity(self.duration_s)} simulated seconds, "
            "those of the longest."
        )


@dataclass(frozen=True)
class SweepRow:
    """The result of one label at one point."""

    point: int
    label: str
    values: tuple[object, ...]  # of the axes
    scores: Mapping[str, Spread]  # by the text of the metric
    diverged: int = 0  # seeds
    bits: str = ""  # a hash of all metrics
    seeds: tuple[int, ...] = ()

    def score(self, metric: Metric) -> Spread:
        """Return a metric over the seeds."""
        return self.scores[metric.text]


@dataclass(frozen=True, kw_only=True, repr=False)
class Sweep:
    """The result of `paota.sweep`.

    `table` is tidy, `best()` gives the best values, `sentences` say them, and `failed` has the reasons of failed points.

    Args:
        name: of the experiment.
        axes: settings and their values.
        best_by: metric that decides.
        metrics: metrics in the table.
        seeds: number of seeds.
        rows: one per point and algorithm.
        points: number of points.
        folder: of the sweep, or None.
        equal: quantity that is equal for all algorithms.
    """

    name: str
    axes: tuple[Axis, ...]
    best_by: Metric
    metrics: tuple[Metric, ...]
    seeds: int
    rows: tuple[SweepRow, ...]
    failed: Mapping[int, str] = field(default_factory=dict)  # reasons by point
    points: int = 0
    folder: Path | None = None
    equal: HeldEqual = HeldEqual(what="rounds")
    foreign: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by label, axes over a period it does not have

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
        """The labels of the algorithms, in the order of the experiment."""
        return list(dict.fromkeys(row.label for row in self.rows))

    def of(self, label: str) -> list[SweepRow]:
        """Return the rows of one label, by point.

        Args:
            label: of an algorithm.
        """
        found = [row for row in self.rows if row.label == label]
        if not found:
            raise unknown_name("algorithm label", label, self.labels)
        return found

    def best(self, label: str | None = None) -> Table:
        """Return the best values of the axes that concern `label` (default: the first); {} if no point is best."""
        if not self.rows:
            return {}
        label = label or self.labels[0]
        row, axes = self.best_row(label), self.touching(label)
        return {} if row is None else dict(zip((axis.key for axis in axes), _values(self, row, axes), strict=True))

    def best_row(self, label: str) -> SweepRow | None:
        """Return the best point of a label; None if none reaches the target, or if no axis makes a difference.

        Args:
            label: of an algorithm.
        """
        return best_row(self.of(label), self.best_by) if self.touching(label) else None

    def touching(self, label: str) -> list[Axis]:
        """Return the axes that make a difference to a label; along all others its results are bit-identical.

        Args:
            label: of an algorithm.
        """
        rows, foreign = self.of(label), self.foreign.get(label, ())
        return [axis for i, axis in enumerate(self.axes) if axis.key not in foreign and not _idle(rows, i)]

    @property
    def sentences(self) -> list[str]:
        """The best point of each label in a sentence."""
        return [sentence(self, label) for label in self.labels]

    @property
    def table(self) -> Columns:
        """One row per point and label, as in `sweep.csv`: each metric's median, its quartiles and its seeds."""
        rows = self.rows
        columns: dict[str, Sequence[object]] = {"point": [r.point for r in rows], "label": [r.label for r in rows]}
        for i, axis in enumerate(self.axes):
            values = [row.values[i] for row in rows]
            columns[axis.key] = values if axis.numbers else [show(value) for value in values]
        columns["seeds"] = [len(row.score(self.best_by).values) for row in rows]
        columns["diverged"] = [row.diverged for row in rows]
        for metric in self.metrics:
            scores = [row.score(metric) for row in rows]
            columns[metric.text] = [s.median for s in scores]
            columns[f"{metric.text} q25"] = [s.low for s in scores]
            columns[f"{metric.text} q75"] = [s.high for s in scores]
            if metric.kind.argument == "accuracy":
                columns[f"{metric.text} reached"] = [s.reached for s in scores]
        return {name: np.array(values, dtype=object) for name, values in columns.items()}

    def to_pandas(self, *, by_seed: bool = False) -> Any:
        """Return `table` as a pandas DataFrame.

        Args:
            by_seed: whether to return one row for each point, label and seed instead.
        """
        if not by_seed:
            return to_pandas(self.table).infer_objects()
        rows = [(row, i, seed) for row in self.rows for i, seed in enumerate(row.seeds)]
        columns = {"point": [row.point for row, *_ in rows], "label": [row.label for row, *_ in rows]}
        columns |= {axis.key: [row.values[k] for row, *_ in rows] for k, axis in enumerate(self.axes)}
        columns |= {"seed": [seed for *_, seed in rows]}
        columns |= {m.text: [row.score(m).values[i] for row, i, _ in rows] for m in self.metrics}
        return to_pandas({name: np.array(values) for name, values in columns.items()})


def standard_metrics(best_by: Metric, targets: Sequence[float]) -> tuple[Metric, ...]:
    """Return the metrics of the table: the one that decides, the final accuracy, seconds and rounds to each target."""
    wanted = [best_by, Metric("final_accuracy")]
    wanted += [Metric(name, target) for name in ("seconds_to", "rounds_to") for target in targets]
    return tuple({metric.text: metric for metric in wanted}.values())


def rows_of(point: Point, result: Result, metrics: Sequence[Metric]) -> list[SweepRow]:
    """Return one row for each label of a point's result."""
    made = []
    for label in result.labels:
        runs = result.of(label)
        diverged = sum(run.diverged_round is not None for run in runs)
        scores = {metric.text: metric.over(runs) for metric in metrics}
        seeds = tuple(run.seed for run in runs)
        made.append(SweepRow(point.index, label, point.values, scores, diverged, _hash(runs), seeds))
    return made


def _hash(runs: Sequence[Trajectory]) -> str:
    total = hashlib.sha256()
    for run in runs:
        for name in sorted(run.metrics):
            total.update(np.ascontiguousarray(run.metrics[name], float).tobytes())
    return total.hexdigest()


def _idle(rows: Sequence[SweepRow], axis: int) -> bool:
    """Return whether every change of one axis alone leaves the results bit-identical."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        rest = repr((*row.values[:axis], *row.values[axis + 1 :]))
        groups.setdefault(rest, []).append(row.bits)
    compared = [bits for bits in groups.values() if len(bits) > 1]
    return bool(compared) and all(len(set(bits)) == 1 and bits[0] for bits in compared)


def best_row(rows: Sequence[SweepRow], metric: Metric) -> SweepRow | None:
    """Return the row with the best median; among equals the better worse quartile, then the earlier point.

    The result is None if no point reaches the target.
    """
    sign = 1 if metric.kind.smaller_is_better else -1

    def rank(row: SweepRow) -> tuple[float, float, int]:
        mine = row.score(metric)
        return sign * mine.median, sign * (mine.high if sign > 0 else mine.low), row.point

    able = [row for row in rows if math.isfinite(row.score(metric).median) and not _lost(row, metric)]
    return min(able, key=rank, default=None)


def _lost(row: SweepRow, metric: Metric) -> bool:
    """Return whether all seeds diverged."""
    return row.diverged >= len(row.score(metric).values)


def sentence(sweep: Sweep, label: str, *, named: bool = False) -> str:
    """Return the best point of a label in a sentence; `named` as for `place`.

    For example `timing.period_s = 6 for paota: 80 % after 240 s (median of 5 seeds, middle half 232 s to 248 s).`
    """
    metric, rows, axes = sweep.best_by, sweep.of(label), sweep.touching(label)
    best = best_row(rows, metric)
    if not axes and any(math.isfinite(row.score(metric).median) for row in rows):
        return _without_advice(sweep, label, rows, named=named)
    if best is None:
        return _not_reached(sweep, label, rows, named=named)

    def where(row: SweepRow) -> str:
        return place(axes, _values(sweep, row, axes), named=named)

    mine = best.score(metric)
    text = f"{where(best)} for {label}: {metric.phrase(mine.median)} "
    if len(mine.values) == 1:
        text += "(one seed)."
    else:
        spread = f"middle half {metric.show(mine.low)} to {metric.show(mine.high)}"
        text += f"(median of {len(mine.values)} seeds, {spread})."
        others = dict.fromkeys(where(row) for row in rows if mine.low <= row.score(metric).median <= mine.high)
        if names := [name for name in others if name != where(best)]:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            text += f" Within its spread over the seeds: {'; '.join(names[:3])}{more}."
    for axis, value in zip(axes, _values(sweep, best, axes), strict=True):
        if beyond := beyond_the_end(axis.numbers, value):
            text += f" {place([axis], [value], named=named)} is the end of its range: {beyond}"
    return text


def _values(sweep: Sweep, row: SweepRow, axes: Sequence[Axis]) -> list[object]:
    return [row.values[sweep.axes.index(axis)] for axis in axes]


def _without_advice(sweep: Sweep, label: str, rows: Sequence[SweepRow], *, named: bool) -> str:
    metric, keys = sweep.best_by, [setting_name(axis.key) if named else axis.key for axis in sweep.axes]
    medians = sorted(row.score(metric).median for row in rows)
    if medians[0] == medians[-1]:
        verb = "makes" if len(keys) == 1 else "make"
        return f"{label}: {' and '.join(keys)} {verb} no difference; {metric.phrase(medians[0])} at every point."
    return (
        f"{label} has no {' and no '.join(keys)}: only its number of participants follows PAOTA's, by the fairness rule "
        f"({metric.show(medians[0])} to {metric.show(medians[-1])}); choose it with algorithms.{label}.participants."
    )


def _not_reached(sweep: Sweep, label: str, rows: Sequence[SweepRow], *, named: bool) -> str:
    final = replace(Metric("final_accuracy"), score=sweep.best_by.score)
    able = [row for row in rows if not _lost(row, final)]
    if not able:
        return f"every point of the grid diverged for {label}."
    top = max(able, key=lambda row: row.score(final).median)
    text = f"no point of the grid has a median of {sweep.best_by.title} for {label}"
    highest = f"the highest {final.score.name} at the end is {final.show(top.score(final).median)}"
    return f"{text}; {highest}, with {place(sweep.axes, top.values, named=named)}."


def question(axes: Sequence[Axis], *, named: bool = False) -> str:
    """Return the question that a sweep over these axes answers."""
    return f"Which {' and '.join(setting_name(axis.key) if named else axis.key for axis in axes)} should I use?"


def answer(sweep: Sweep) -> str:
    """Return one line for the head of a page."""
    ran = f"{counted(sweep.points, 'point')}, {counted(sweep.seeds, 'seed')} each, judged by {sweep.best_by.title}"
    return f"{ran}; {len(sweep.failed)} failed" if sweep.failed else ran
