"""The page of a sweep: the best points in sentences, one figure of all points, and every number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from markupsafe import Markup

from ...base.files import to_toml, write_text
from ...base.formatting import capital, counted, isolated, listing
from ...experiment.experiment import Experiment
from ...pages import palette
from ...pages.curves import Curve
from ...pages.figure import Figure, Style, Trace, axes, level, line, line_chart, numbers, together
from ...pages.notebook import MOST_ROWS, page_html
from ...pages.page import Page, Section, SettingsFile, Table, TableCell, TableRow, render, with_coincidences
from ...results.measures import Spread
from .grid import Axis, Point, place, point_folder, show, titled
from .metrics import Metric
from .outcome import Sweep, SweepRow, answer, question, sentence

LOG_FROM = 50  # largest over smallest value; below, an even scale reads better
MOST_TICKS = 12
SMALL_DOT, BEST_DOT = 7, 15  # px
NEVER, NEVER_SPREAD = 1.12, 0.05  # height of the crosses, and of all lines' together, relative to the highest value


@dataclass(frozen=True)
class Line:
    """One line of the figure: the rows of a label along the first axis, at fixed values of the other axes."""

    label: str
    style: Style
    rows: Sequence[SweepRow]


def write_page(path: Path, sweep: Sweep, experiment: Experiment, points: Sequence[Point]) -> None:
    """Write the page to `path`; `experiment` is what all points share, `points` are those of the grid."""
    write_text(path, render(build(sweep, experiment, points)))


def build(sweep: Sweep, experiment: Experiment, points: Sequence[Point]) -> Page:
    """Return the page of a sweep."""
    title = question(sweep.axes, named=True)
    lines = lines_of(sweep)
    drawn = lines[: palette.MOST_SERIES]
    legend = [one.style for one in drawn]
    failed = [f"{place(sweep.axes, points[index].values, named=True)}: {why}" for index, why in sweep.failed.items()]
    figures = [_figure(sweep, drawn)] if drawn else []
    shown = Section(id="lines", title=capital(sweep.best_by.title), intro=_how_to_read(sweep), figures=figures)
    file = SettingsFile(name=sweep.name, toml=to_toml(experiment.to_dict()))
    findings: list[str] = [isolated(_sentence(sweep, label)) for label in sweep.labels]
    return Page(
        kind="PAOTA sweep",
        title=f"{sweep.name}: {title}",
        heading=title,
        ran=Markup("{}: {}").format(isolated(sweep.name), answer(sweep)),
        findings=[*(findings or ["No point has been computed."]), *filter(None, [sweep.equal.sentence])],
        warning=f"{len(failed)} of {sweep.points} points failed:" if failed else "",
        warnings=failed,
        legend=legend,
        left_out=len(lines) - len(drawn),
        sections=[
            with_coincidences(shown, legend),
            Section(
                id="points",
                title="All points",
                intro=Markup(
                    "Medians over the seeds. A label links to the point's run folder, which <code>paota report</code> renders. "
                    "<code>sweep.csv</code> also has the quartiles. In a file the settings are called {}."
                ).format(listing([Markup("<code>{}</code>").format(axis.key) for axis in sweep.axes])),
                tables=[_table(sweep, {id(row): i for i, one in enumerate(drawn) for row in one.rows})],
            ),
            Section(id="settings", title="Settings", intro="The axes replace their own settings.", settings=[file]),
        ],
    )


def _sentence(sweep: Sweep, label: str) -> str:
    """Return the sentence with a capital, unless it begins with a label, which is written as it was given."""
    said = sentence(sweep, label, named=True)
    return said if said.startswith(label) else capital(said)


def lines_of(sweep: Sweep) -> list[Line]:
    """Return one line for each label and combination of the axes after the first; the label chooses the colour."""
    others = sweep.axes[1:]
    places = {
        repr(values): (i, values) for i, values in enumerate(itertools.product(*(axis.values for axis in others)))
    }
    groups: dict[tuple[str, str], list[SweepRow]] = {}
    for label in sweep.labels:
        for row in sweep.of(label):
            groups.setdefault((label, repr(row.values[1:])), []).append(row)
    several = len(sweep.labels) > 1  # else the other axes choose the colour
    styles = palette.style_of([(several * places[values][0], label) for label, values in groups])
    return [
        Line(
            label,
            Style(
                name=", ".join(filter(None, [label, place(others, places[values][1], named=True)])), colour=c, dash=d
            ),
            rows,
        )
        for ((label, values), rows), (c, d) in zip(groups.items(), styles, strict=True)
    ]


def _how_to_read(sweep: Sweep) -> str:
    better = "Smaller is better" if sweep.best_by.kind.smaller_is_better else "Larger is better"
    middle = f"medians of {sweep.seeds} seeds" if sweep.seeds > 1 else "one seed, so there is no spread to show"
    band = "Bands are the middle half of the seeds. " if sweep.seeds > 1 else ""
    return f"{better}; {middle}. {band}The large dot is the best point of each label."


def _figure(sweep: Sweep, lines: Sequence[Line]) -> Figure:
    axis, metric = sweep.axes[0], sweep.best_by
    x_values, ticks = axis.numbers, [show(value) for value in axis.values]
    x_log = bool(x_values) and min(x_values) > 0 and max(x_values) / min(x_values) >= LOG_FROM
    shown, exact = metric.score.formats if "accuracy" in metric.name else (",", ",.4~g")
    layout = axes(titled(axis.key), x_log=x_log, category=not x_values, y_format=shown, y_hover=exact)
    if not x_values:
        layout["xaxis"] |= {"categoryorder": "array", "categoryarray": ticks}
    elif len(x_values) <= MOST_TICKS:
        layout["xaxis"] |= {"tickvals": x_values, "ticktext": ticks}
    layout |= {"hovermode": "closest"}
    top = _top(sweep)
    traces = [_trace(sweep, i, one, top) for i, one in enumerate(lines)]
    # The crosses of several lines would hide each other at one height.
    heights = [top * (NEVER + NEVER_SPREAD * ((i + 0.5) / len(lines) - 0.5)) for i in range(len(lines))]
    never = [mark for i, one in enumerate(lines) if (mark := _never(sweep, i, one, heights[i]))]
    if never:
        layout = together(layout, level(top * NEVER, "never", side="axis"))
        layout["yaxis"] |= {"range": [0, top * (NEVER + 0.07)]}
    return line_chart(
        {"all": (traces + never, layout)},
        id="lines",
        title=capital(metric.title),
        caption="The table below has the numbers."
        + (" Crosses: fewer than half of the seeds reached the target, or none." if never else ""),
        alt=f"{metric.title} against {titled(axis.key)}; the table below has the numbers.",
        height_px=400,
        wide=True,
    )


def _trace(sweep: Sweep, series: int, drawn: Line, top: float) -> Trace:
    """Return the median and the band of a line. A quartile that was never reached ends at the highest known value."""
    scores = [row.score(sweep.best_by) for row in drawn.rows]
    low, middle, high = (np.array([getattr(score, part) for score in scores]) for part in ("low", "median", "high"))
    x = _positions(sweep.axes[0], drawn.rows)
    curve = Curve(x=np.array(x) if sweep.axes[0].numbers else np.zeros(len(x)), middle=middle)
    if sweep.seeds > 1:
        curve = replace(curve, low=low, high=np.where(np.isfinite(middle), np.minimum(high, top), np.nan))
    best = sweep.best_row(drawn.label)
    sizes = [BEST_DOT if row is best else SMALL_DOT for row in drawn.rows]
    return line(series, curve) | {"mode": "lines+markers", "marker": {"size": sizes}, "x": x}


def _positions(axis: Axis, rows: Sequence[SweepRow]) -> list[object]:
    """Return the places of rows along the axis: numbers, or the names of categories."""
    place_of = dict(zip(map(repr, axis.values), axis.numbers or map(show, axis.values), strict=True))
    return [place_of[repr(row.values[0])] for row in rows]


def _top(sweep: Sweep) -> float:
    """Return the highest known value, else 1."""
    scores = [row.score(sweep.best_by) for row in sweep.rows]
    known = [value for score in scores for value in (score.median, score.high) if math.isfinite(value)]
    return max(known, default=1.0) or 1.0


def _never(sweep: Sweep, series: int, drawn: Line, height: float) -> Trace:
    """Return crosses at a height above the figure where a line has no median; {} if there are none."""
    axis, metric = sweep.axes[0], sweep.best_by
    missing = [row for row in drawn.rows if not math.isfinite(row.score(metric).median)]
    if not missing or metric.kind.argument != "accuracy":
        return {}
    said = [f"{drawn.style.name}: {_missed(row.score(metric))} at {show(row.values[0])}" for row in missing]
    return {
        "type": "scatter", "mode": "markers", "series": series, "marker": {"symbol": "x", "size": 9},
        "x": _positions(axis, missing), "y": numbers([height] * len(missing)),
        "text": said, "hovertemplate": "%{text}<extra></extra>", "table": False,
    }  # fmt: skip


def _missed(score: Spread) -> str:
    """Return how many seeds reached the target, where fewer than half of them did."""
    return f"{score.reached} of {len(score.values)} seeds" if score.reached else "never"


def _shown(row: SweepRow, metric: Metric) -> str:
    score = row.score(metric)
    never = metric.kind.argument == "accuracy" and not math.isfinite(score.median)
    return _missed(score) if never else metric.show(score.median)


def _table(sweep: Sweep, series: Mapping[int, int], mark: str = "★ ") -> Table:
    """Return the table of all points.

    Args:
        sweep: the sweep.
        series: the lines of the figure by the identity of their rows.
        mark: the text before the best values.
    """
    best = {label: sweep.best_row(label) for label in sweep.labels}
    rows = []
    for row in sweep.rows:
        cells = [TableCell(text=show(value)) for value in row.values]
        for metric in sweep.metrics:
            star = row is best[row.label] and metric == sweep.best_by
            cells.append(TableCell(text=f"{mark if star else ''}{_shown(row, metric)}", bold=star))
        badge = f"{row.diverged} of {counted(sweep.seeds, 'seed')} diverged" if row.diverged else ""
        head = TableCell(text=row.label, link=f"{point_folder(row.point, sweep.points)}/", badge=badge)
        rows.append(TableRow(head=head, cells=cells, series=series.get(id(row))))
    heads = ["label", *(titled(axis.key) for axis in sweep.axes), *(capital(metric.title) for metric in sweep.metrics)]
    return Table(label="All points", heads=heads, rows=rows)


def sweep_html(sweep: Sweep) -> str:
    """Return what a notebook shows: the sentences, and the first rows of the table."""
    table = _table(sweep, {}, mark="")
    left = len(table.rows) - MOST_ROWS
    more = f"{left} more rows are in the table." if left > 0 else ""
    return page_html(
        f"{sweep.name}: sweep",
        [answer(sweep), *sweep.sentences, *filter(None, (sweep.equal.sentence, more))],
        replace(table, rows=table.rows[:MOST_ROWS]),
    )
