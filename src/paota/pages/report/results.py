"""The results as a table: one row for each entry, spread over the seeds included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from ..curves import column, last_before, number
from ..page import Table, TableCell, TableRow
from ..words import counted, percent, quantity, target_percent
from .findings import equal_time_accuracies, final_accuracies, reach
from .study import Entry, Study

NOTHING = TableCell(text="–", muted=True)


@dataclass(frozen=True)
class _Column:
    """Cells with their scores: larger is better, None cannot win."""

    group: str
    head: str
    cells: list[tuple[TableCell, float | None]]

    def marked(self) -> list[TableCell]:
        """The cells, the best of them marked as such unless there is only one."""
        top = max((score for _, score in self.cells if score is not None), default=None)
        several = len(self.cells) > 1
        return [replace(cell, bold=several and score is not None and score == top) for cell, score in self.cells]


def results_table(study: Study) -> Table:
    """Accuracies, then rounds and seconds to each target; the best of each column is marked."""
    columns = [*_accuracy_columns(study), *_target_columns(study)]
    rows = zip(*(column.marked() for column in columns), strict=True)
    return Table(
        label="Results table",
        heads=["Algorithm", *(column.head for column in columns)],
        groups=[(group, len(list(inside))) for group, inside in groupby(column.group for column in columns)],
        rows=[
            TableRow(head=_head(entry), cells=cells, series=entry.index)
            for entry, cells in zip(study.entries, rows, strict=True)
        ],
    )


def _head(entry: Entry) -> TableCell:
    cases = entry.summary.get("diverged")
    return TableCell(text=entry.name, badge=f"diverged in {counted(len(cases), 'seed')}" if cases else "")


def _accuracy_columns(study: Study) -> list[_Column]:
    group = "Test accuracy"
    last_rounds = [_last_evaluated_round(entry) for entry in study.entries]
    common = min((last for last in last_rounds if last is not None), default=None)
    uneven = len(set(last_rounds)) > 1
    final = "final" if uneven or common is None else f"final, after {counted(common, 'round')}"
    columns = [_Column(group, final, [_accuracy(final_accuracies(entry)) for entry in study.entries])]
    if uneven and common is not None:
        cells = [_accuracy(last_before(entry.metrics, "test_accuracy", "round", common)) for entry in study.entries]
        columns.append(_Column(group, f"after {counted(common, 'round')}", cells))
    if study.equal_time_s is not None:
        equal = equal_time_accuracies(study)
        cells = [_accuracy(equal[entry.index]) for entry in study.entries]
        columns.append(_Column(group, f"after {quantity(study.equal_time_s)} s", cells))
    return columns


def _last_evaluated_round(entry: Entry) -> int | None:
    """The last round that every seed of the entry was evaluated in or after."""
    known = np.isfinite(column(entry.metrics, "test_accuracy"))
    lasts = [entry.metrics["round"][known & (entry.metrics["seed"] == seed)] for seed in entry.seeds]
    ends = [int(rounds.max()) for rounds in lasts if len(rounds)]
    return min(ends) if ends else None


def _accuracy(values: np.ndarray) -> tuple[TableCell, float | None]:
    if not len(values):
        return NOTHING, None
    mean = float(values.mean())
    spread = [f"± {100 * float(values.std()):.1f}"] if len(values) > 1 else []
    return TableCell(text=percent(mean), notes=spread), mean


def _target_columns(study: Study) -> list[_Column]:
    return [
        _Column(
            group, target_percent(target), [_time_cell(entry, reach(entry, key, target)) for entry in study.entries]
        )
        for key, group in (("rounds_to", "Rounds to"), ("seconds_to", "Simulated seconds to"))
        for target in study.targets
    ]


def _time_cell(entry: Entry, time: Any) -> tuple[TableCell, float | None]:
    """Median and quartiles; how many seeds got there unless all did; nothing for a target of another run only."""
    if not time:
        return NOTHING, None
    seeds, reached = len(entry.seeds), time.get("reached")
    some = [f"{reached} of {seeds} seeds"] if reached and reached < seeds else []
    median, low, high = (number(time.get(key)) for key in ("median", "q25", "q75"))
    if median is None:
        return TableCell(text="not reached", muted=True, notes=some), None
    spread = [f"{quantity(low)}–{quantity(high)}"] if seeds > 1 and low is not None and high is not None else []
    return TableCell(text=quantity(median), notes=spread + some), -median
