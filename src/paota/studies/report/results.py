"""The results as a table: one row for each entry, spread over the seeds included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from ...base.formatting import Score, counted, quantity
from ...pages.curves import column, last_before, number
from ...pages.page import Table, TableCell, TableRow
from .findings import equal_time_accuracies, final_accuracies, reach, served
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
    columns = [*_score_columns(study), *_device_columns(study), *_target_columns(study)]
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
    cases, over = entry.summary.get("diverged"), entry.summary.get("over_budget")
    badge = f"diverged in {counted(len(cases), 'seed')}" if cases else "over the power budget" if over else ""
    return TableCell(text=entry.name, badge=badge)


def _score_columns(study: Study) -> list[_Column]:
    group = f"Test {study.score.name}"
    last_rounds = [_last_evaluated_round(entry) for entry in study.entries]
    common = min((last for last in last_rounds if last is not None), default=None)
    uneven = len(set(last_rounds)) > 1
    final = "final" if uneven or common is None else f"final, after {counted(common, 'round')}"
    columns = [_Column(group, final, [_mean(entry, final_accuracies(entry), study.score) for entry in study.entries])]
    if uneven and common is not None:
        found = [last_before(entry.metrics, "test_accuracy", "round", common) for entry in study.entries]
        cells = [_mean(entry, values, study.score) for entry, values in zip(study.entries, found, strict=True)]
        columns.append(_Column(group, f"after {counted(common, 'round')}", cells))
    if study.equal_time_s is not None:
        equal = equal_time_accuracies(study)
        cells = [_mean(entry, equal[entry.index], study.score) for entry in study.entries]
        columns.append(_Column(group, f"after {quantity(study.equal_time_s)} s", cells))
    return columns


def _device_columns(study: Study) -> list[_Column]:
    """On the devices' own kind of data: the worst tenth of them, and how far they lie apart."""
    group = "On devices' own data"
    found = {key: [served(entry, key) for entry in study.entries] for key in ("worst_tenth", "deviation")}
    if not any(found["worst_tenth"]):
        return []
    values = {
        key: [np.array([x for x in map(number, one.get("values", ())) if x is not None]) for one in each]
        for key, each in found.items()
    }
    worst = [_mean(entry, own, study.score) for entry, own in zip(study.entries, values["worst_tenth"], strict=True)]
    apart = [_apart(own, study.score) for own in values["deviation"]]
    return [_Column(group, "worst tenth", worst), _Column(group, "standard deviation", apart)]


def _apart(values: np.ndarray, score: Score) -> tuple[TableCell, float | None]:
    if not len(values):
        return NOTHING, None
    mean = float(values.mean())
    return TableCell(text=f"{100 * mean:.1f} points" if score.is_share else f"{mean:.2g}"), None


def _last_evaluated_round(entry: Entry) -> int | None:
    """The last round that every seed of the entry was evaluated in or after."""
    known = np.isfinite(column(entry.metrics, "test_accuracy"))
    lasts = [entry.metrics["round"][known & (entry.metrics["seed"] == seed)] for seed in entry.seeds]
    ends = [int(rounds.max()) for rounds in lasts if len(rounds)]
    return min(ends) if ends else None


def _mean(entry: Entry, values: np.ndarray, score: Score) -> tuple[TableCell, float | None]:
    """Mean and standard deviation over the seeds; who diverged with one of them cannot be the best."""
    if not len(values):
        return NOTHING, None
    mean, deviation = float(values.mean()), float(values.std())
    spread = [f"± {100 * deviation:.1f}" if score.is_share else f"± {deviation:.2g}"] if len(values) > 1 else []
    return TableCell(text=score.show(mean), notes=spread), None if entry.summary.get("diverged") else mean


def _target_columns(study: Study) -> list[_Column]:
    return [
        _Column(
            group, study.score.target(target), [_time_cell(entry, reach(entry, key, target)) for entry in study.entries]
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
    return TableCell(text=quantity(median), notes=spread + some), None if entry.summary.get("diverged") else -median
