"""The results as a table: one row for each series, spread over the seeds included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import markup
from .curves import last_before
from .learning import target_key
from .study import Series, Study, column, number
from .verdict import equal_time_accuracies, final_accuracies
from .words import counted, percent, quantity, target_percent

NOTHING = '<span class="none" title="does not apply">–</span>'


@dataclass(frozen=True)
class _Cell:
    html: str
    score: float | None = None  # larger is better; the best of a column is set in bold


@dataclass(frozen=True)
class _Column:
    head: str
    cells: list[_Cell]
    group: str = ""


def results_table(study: Study) -> str:
    columns = [*_accuracy_columns(study), *_target_columns(study)]
    rows = []
    for position, series in enumerate(study.series):
        cells = "".join(f"<td>{_shown(column_, position)}</td>" for column_ in columns)
        rows.append(f'<tr><th scope="row">{_row_head(series)}</th>{cells}</tr>')
    return (
        '<div class="table-box" role="region" tabindex="0" aria-label="Results table">'
        f'<table class="results"><thead>{_head(columns)}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _head(columns: Sequence[_Column]) -> str:
    """Two header rows: the groups (accuracy, rounds to, seconds to) above their columns."""
    groups = "".join(
        f'<th scope="colgroup" colspan="{sum(column_.group == group for column_ in columns)}">{group}</th>'
        for group in dict.fromkeys(column_.group for column_ in columns)
    )
    heads = "".join(f'<th scope="col">{column_.head}</th>' for column_ in columns)
    return f'<tr><th rowspan="2" scope="col">Algorithm</th>{groups}</tr><tr>{heads}</tr>'


def _row_head(series: Series) -> str:
    swatch = f'<span class="swatch" data-swatch="{series.index}"></span>'
    mark = ""
    if cases := series.summary.get("diverged"):
        seeds = "seed" if len(cases) == 1 else "seeds"
        mark = f'<span class="diverged">diverged in {len(cases)} {seeds}</span>'
    return f'<span class="who">{swatch}{markup.name(series.name)}</span>{mark}'


def _shown(column_: _Column, position: int) -> str:
    cell = column_.cells[position]
    scores = [other.score for other in column_.cells if other.score is not None]
    best = len(column_.cells) > 1 and cell.score is not None and cell.score == max(scores)
    return f'<strong title="best of this column">{cell.html}</strong>' if best else cell.html


def _accuracy_columns(study: Study) -> list[_Column]:
    group = "Test accuracy"
    last_rounds = [_last_evaluated_round(series) for series in study.series]
    common = min((last for last in last_rounds if last is not None), default=None)
    uneven = len(set(last_rounds)) > 1
    final = "final" if uneven or common is None else f"final, after {counted(common, 'round')}"
    columns = [_Column(final, [_accuracy(final_accuracies(series)) for series in study.series], group)]
    if uneven and common is not None:
        cells = [_accuracy(last_before(series.metrics, "test_accuracy", "round", common)) for series in study.series]
        columns.append(_Column(f"after {counted(common, 'round')}", cells, group))
    if study.equal_time_s is not None:
        equal = equal_time_accuracies(study)
        cells = [_accuracy(equal[series.index]) for series in study.series]
        columns.append(_Column(f"after {quantity(study.equal_time_s)} s", cells, group))
    return columns


def _last_evaluated_round(series: Series) -> int | None:
    """The last round that every seed of the series was evaluated in or after."""
    known = np.isfinite(column(series.metrics, "test_accuracy"))
    lasts = [series.metrics["round"][known & (series.metrics["seed"] == seed)] for seed in series.seeds]
    ends = [int(rounds.max()) for rounds in lasts if len(rounds)]
    return min(ends) if ends else None


def _accuracy(values: np.ndarray) -> _Cell:
    if not len(values):
        return _Cell(NOTHING)
    mean = float(values.mean())
    if len(values) == 1:
        return _Cell(percent(mean), mean)
    deviation = f"{100 * float(values.std()):.1f}"
    return _Cell(f'{percent(mean)} <span class="spread">± {deviation}</span>', mean)


def _target_columns(study: Study) -> list[_Column]:
    columns = []
    for key, group in (("rounds_to", "Rounds to"), ("seconds_to", "Simulated seconds to")):
        for target in study.targets:
            cells = [_time_cell(series, series.summary.get(key, {}).get(target_key(target))) for series in study.series]
            columns.append(_Column(target_percent(target), cells, group))
    return columns


def _time_cell(series: Series, time: Any) -> _Cell:
    """Median and quartiles; how many seeds got there unless all did; nothing for a target of another run only."""
    if not isinstance(time, dict):
        return _Cell(NOTHING)
    seeds = len(series.seeds)
    reached = time.get("reached")
    some = f'<span class="spread">{reached} of {seeds} seeds</span>' if reached and reached < seeds else ""
    median = number(time.get("median"))
    if median is None:
        return _Cell(f'<span class="none">not reached</span>{" " + some if some else ""}')
    shown = quantity(median)
    low, high = number(time.get("q25")), number(time.get("q75"))
    if seeds > 1 and low is not None and high is not None:
        shown += f' <span class="spread">{quantity(low)}–{quantity(high)}</span>'
    return _Cell(f"{shown} {some}".rstrip(), -median)
