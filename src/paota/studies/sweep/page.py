"""The sweep page: the answer, a map of it, every number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from ...base.files import to_toml, write_text
from ...base.formatting import counted, isolated, listing
from ...experiment.experiment import Experiment
from ...pages import palette
from ...pages.curves import Curve
from ...pages.figure import Figure, Style, Trace, View, axes, level, line, line_chart, numbers, together
from ...pages.notebook import MOST_ROWS, page_html
from ...pages.page import Page, Section, SettingsFile, Table, TableCell, TableRow, render, with_coincidences
from .folder import inner_path
from .grid import Axis, Point, named_place, setting_name, show, titled
from .metrics import Metric
from .outcome import Sweep, SweepRow, answer, best_row, is_numeric, sentence

LOG_FROM = 50  # largest over smallest value; below, an even scale reads better
MOST_TICKS = 12
SMALL_DOT, BEST_DOT = 7, 15  # px
NEVER, NEVER_STEP = 1.12, 0.025  # height of the crosses, and between two labels', beside the highest value


def write_page(path: Path, sweep: Sweep, experiment: Experiment, points: Sequence[Point]) -> None:
    """The page as one file at `path`; `experiment` is what all points share, `points` are those of the grid."""
    write_text(path, render(build(sweep, experiment, points)))


def build(sweep: Sweep, experiment: Experiment, points: Sequence[Point]) -> Page:
    """The page of a sweep: a line for each label if one setting varies, else a heat map for each."""
    by_line = len(sweep.axes) == 1
    title = _question(sweep.axes)
    legend = _styles(sweep) if by_line else []
    figures = ([_line_chart(sweep)] if by_line else [*_heat_maps(sweep)]) if sweep.rows else []
    failed = [f"{named_place(sweep.axes, points[index].values)}: {why}" for index, why in sweep.failed.items()]
    shown = Section(id="map", title=_capital(sweep.best_by.title), intro=_how_to_read(sweep), figures=figures)
    return Page(
        kind="PAOTA sweep",
        title=f"{sweep.name}: {title}",
        heading=title,
        ran=Markup("{}: {}").format(isolated(sweep.name), answer(sweep)),
        findings=[
            *[isolated(_sentence(sweep, label)) for label in sweep.labels],
            *([sweep.equal.sentence] if sweep.equal.sentence else []),
        ]
        or ["No point has been computed."],
        warning=f"{len(failed)} of {sweep.points} points failed:" if failed else "",
        warnings=failed,
        legend=legend,
        sections=[
            with_coincidences(shown, legend) if by_line else shown,
            Section(
                id="points",
                title="All points",
                intro=Markup(
                    "Medians over the seeds; a label leads to the point's run folder, which <code>paota report</code> renders. "
                    "<code>sweep.csv</code> has the quartiles too. In a file the settings are called {}."
                ).format(listing([Markup("<code>{}</code>").format(axis.key) for axis in sweep.axes])),
                tables=[_table(sweep, swatches=by_line)],
            ),
            Section(
                id="settings",
                title="Settings",
                intro="What all points share, defaults included; the axes replace their own settings.",
                settings=[SettingsFile(name=sweep.name, toml=to_toml(experiment.to_dict()))],
            ),
        ],
    )


def _sentence(sweep: Sweep, label: str) -> str:
    """With a capital, unless it begins with a label, which is written as it was given."""
    said = sentence(sweep, label, named_place, setting_name)
    return said if said.startswith(label) else _capital(said)


def _styles(sweep: Sweep) -> list[Style]:
    styles = palette.style_of([(0, label) for label in sweep.labels])
    return [Style(name=label, colour=c, dash=d) for label, (c, d) in zip(sweep.labels, styles, strict=True)]


def _how_to_read(sweep: Sweep) -> str:
    better = "Smaller is better" if sweep.best_by.kind.smaller_is_better else "Larger is better"
    middle = f"medians of {sweep.seeds} seeds" if sweep.seeds > 1 else "one seed, so there is no spread to show"
    if len(sweep.axes) == 1:
        band = "Bands are the middle half of the seeds; t" if sweep.seeds > 1 else "T"
        return f"{better}; {middle}. {band}he large dot is the best point of each line."
    nobody = all(best_row(sweep.of(label), sweep.best_by) is None for label in sweep.labels)
    star = "" if nobody else " Deeper is better, and ★ marks the best point of each label."
    return f"{better}; {middle}.{star}"


def _line_chart(sweep: Sweep) -> Figure:
    axis, metric = sweep.axes[0], sweep.best_by
    numeric = is_numeric(axis)
    to_scale = [float(value) for value in axis.values] if numeric else []
    x_log = numeric and min(to_scale) > 0 and max(to_scale) / min(to_scale) >= LOG_FROM
    shown, exact = metric.score.formats if "accuracy" in metric.name else (",", ",.4~g")
    layout = axes(titled(axis.key), x_log=x_log, category=not numeric, y_format=shown, y_hover=exact)
    if numeric and len(to_scale) <= MOST_TICKS:
        layout["xaxis"] |= {"tickvals": to_scale, "ticktext": [show(value) for value in axis.values]}
    elif not numeric:
        layout["xaxis"] |= {"categoryorder": "array", "categoryarray": [show(value) for value in axis.values]}
    traces = [_line(sweep, i, label) for i, label in enumerate(sweep.labels)]
    layout |= {"hovermode": "closest"}
    never = [mark for i, label in enumerate(sweep.labels) if (mark := _never(sweep, i, label))]
    if never:
        layout = together(layout, level(_top(sweep) * NEVER, "never", side="axis"))
        layout["yaxis"] |= {"range": [0, _top(sweep) * (NEVER + 0.07)]}
    return line_chart(
        {"all": (traces + never, layout)},
        id="lines",
        title=_capital(metric.title),
        caption="The table below has the numbers."
        + (" Crosses: fewer than half of the seeds ever got there, or none." if never else ""),
        alt=f"{metric.title} against {setting_name(axis.key)}; the table below has the numbers.",
        height_px=400,
        wide=True,
    )


def _line(sweep: Sweep, series: int, label: str) -> Trace:
    """Median and band of one label; where no quarter of the seeds got there, the band ends at the highest that is known."""
    axis, metric = sweep.axes[0], sweep.best_by
    rows = sorted(sweep.of(label), key=lambda row: axis.values.index(row.values[0]))
    best = sweep.best_row(label)
    scores = [row.scores[metric.text] for row in rows]
    low, middle, high = (np.array([getattr(score, part) for score in scores]) for part in ("low", "median", "high"))
    place = [float(row.values[0]) if is_numeric(axis) else 0.0 for row in rows]
    curve = Curve(x=np.array(place), middle=middle)
    if sweep.seeds > 1:
        curve = replace(curve, low=low, high=np.where(np.isfinite(middle), np.minimum(high, _top(sweep)), np.nan))
    sizes = [BEST_DOT if row is best else SMALL_DOT for row in rows]
    drawn = line(series, curve) | {"mode": "lines+markers", "marker": {"size": sizes}}
    return drawn if is_numeric(axis) else drawn | {"x": [show(row.values[0]) for row in rows]}


def _top(sweep: Sweep) -> float:
    """The highest value that is known; 1 if none is."""
    scores = [row.scores[sweep.best_by.text] for row in sweep.rows]
    known = [value for score in scores for value in (score.median, score.high) if math.isfinite(value)]
    return max(known, default=1.0) or 1.0


def _never(sweep: Sweep, series: int, label: str) -> Trace:
    """Crosses above the figure where one label has no median; {} if there is none, or where unknown is not never."""
    axis, metric = sweep.axes[0], sweep.best_by
    missing = [row for row in sweep.of(label) if not math.isfinite(row.scores[metric.text].median)]
    if not missing or metric.kind.argument != "accuracy":
        return {}
    x = [float(row.values[0]) if is_numeric(axis) else show(row.values[0]) for row in missing]
    # Several labels that never get there would hide each other.
    height = _top(sweep) * (NEVER + NEVER_STEP * (series - (len(sweep.labels) - 1) / 2))
    said = [f"{sweep.labels[series]}: {metric.show(math.inf)} at {show(row.values[0])}" for row in missing]
    look = {"symbol": "x", "size": 9}
    return {
        "type": "scatter", "mode": "markers", "series": series, "marker": look, "x": x, "y": numbers([height] * len(x)),
        "text": said, "hovertemplate": "%{text}<extra></extra>", "table": False,
    }  # fmt: skip


def _heat_maps(sweep: Sweep) -> list[Figure]:
    """The first two axes across each other: a map for each label and each combination of the other axes."""
    down, across, *others = sweep.axes
    figures = []
    for i, label in enumerate(sweep.labels):
        rows = {_found(row.values): row for row in sweep.of(label)}
        for j, rest in enumerate(itertools.product(*(axis.values for axis in others))):
            grid = [[rows.get(_found((y, x, *rest))) for x in across.values] for y in down.values]
            title = ", ".join([label, named_place(others, rest)] if others else [label])
            figures.append(
                Figure(
                    id=f"map-{i}-{j}",
                    title=title,
                    caption=f"{_capital(sweep.best_by.title)}; {setting_name(down.key)} downwards, "
                    f"{setting_name(across.key)} to the right.",
                    alt=f"Heat map of {sweep.best_by.title} for {title}; the table below has the numbers.",
                    views={"all": _heat_map(sweep, grid, sweep.best_row(label))},
                    height_px=130 + 52 * len(down.values),
                    wide=len(across.values) > 6,
                )
            )
    return figures


def _heat_map(sweep: Sweep, grid: Sequence[Sequence[SweepRow | None]], best: SweepRow | None) -> View:
    down, across, *_ = sweep.axes
    metric = sweep.best_by
    medians = [row.scores[metric.text].median for row in sweep.rows]
    finite = [value for value in medians if math.isfinite(value)] or [0.0]
    sign = -1 if metric.kind.smaller_is_better else 1  # deep is good
    x, y = [show(value) for value in across.values], [show(value) for value in down.values]
    values = [[math.nan if row is None else sign * row.scores[metric.text].median for row in line] for line in grid]
    places = [(at_y, at_x, row) for at_y, line in zip(y, grid, strict=True) for at_x, row in zip(x, line, strict=True)]
    scale = {"zmin": min(sign * value for value in finite), "zmax": max(sign * value for value in finite) + 1e-12}
    look = {"showscale": False, "xgap": 2, "ygap": 2, "hoverinfo": "skip"}
    cells = {"type": "heatmap", "x": x, "y": y} | look
    shades = {"colorscale": [[0, "$card"], [1, "$deep"]], "z": [numbers(line) for line in values]} | scale
    never = [[None if math.isfinite(value) else 1 for value in line] for line in values]  # or failed
    empty = {"colorscale": [[0, "$faded"], [1, "$faded"]], "z": never, "table": False}
    written: Trace = {
        "type": "scatter",
        "mode": "text",
        "x": [at_x for _, at_x, _ in places],
        "y": [at_y for at_y, _, _ in places],
        "text": [_written(sweep, row, best) for *_, row in places],
        "textfont": {"size": 13, "color": "$text"},
        "customdata": [[at_y, at_x, *_record(sweep, row)] for at_y, at_x, row in places],
        "hovertemplate": "%{text}<br>middle half %{customdata[3]} to %{customdata[4]}<br>%{customdata[5]} seeds got there, "
        "%{customdata[6]} diverged<extra></extra>",
    }
    category = {"type": "category", "showgrid": False, "zeroline": False}
    return View(
        traces=[cells | shades, cells | empty, written],
        layout={
            "xaxis": category | {"title": {"text": titled(across.key)}, "categoryarray": x},
            "yaxis": category | {"title": {"text": titled(down.key)}, "categoryarray": y, "autorange": "reversed"},
            "hovermode": "closest",
        },
        record_columns=(titled(down.key), titled(across.key), metric.title, "low", "high", "reached", "diverged"),
    )


def _written(sweep: Sweep, row: SweepRow | None, best: SweepRow | None) -> str:
    if row is None:
        return "failed"
    metric = sweep.best_by
    median = row.scores[metric.text].median
    if not math.isfinite(median):
        return _missed(sweep, row, metric)
    # The title has the unit; a phone has no room for it in every cell.
    shown = metric.show(median).removesuffix(f" {metric.unit}")
    return f"★ {shown}" if row is best else shown


def _missed(sweep: Sweep, row: SweepRow, metric: Metric) -> str:
    """In place of a median that there is not: `never`, or how many seeds got there after all."""
    score = row.scores[metric.text]
    some = metric.kind.argument == "accuracy" and score.reached
    return f"{score.reached} of {counted(sweep.seeds, 'seed')}" if some else metric.show(score.median)


def _record(sweep: Sweep, row: SweepRow | None) -> list[Any]:
    if row is None:
        return ["failed", "", "", "", ""]
    score = row.scores[sweep.best_by.text]
    shown = (sweep.best_by.show(value) for value in (score.median, score.low, score.high))
    return [*shown, f"{score.reached} of {len(score.values)}", row.diverged]


def _table(sweep: Sweep, *, swatches: bool) -> Table:
    best = {label: sweep.best_row(label) for label in sweep.labels}
    rows = []
    for row in sweep.rows:
        cells = [TableCell(text=show(value)) for value in row.values]
        folder = inner_path(row.point, sweep.points)
        for metric in sweep.metrics:
            median = row.scores[metric.text].median
            shown = metric.show(median) if math.isfinite(median) else _missed(sweep, row, metric)
            star = row is best[row.label] and metric == sweep.best_by
            cells.append(TableCell(text=f"★ {shown}" if star else shown, bold=star))
        cells.append(TableCell(text="" if row.diverged else "0", badge=str(row.diverged) if row.diverged else ""))
        series = sweep.labels.index(row.label) if swatches else None
        rows.append(TableRow(head=TableCell(text=row.label, link=f"{folder}/"), cells=cells, series=series))
    settings = [titled(axis.key) for axis in sweep.axes]
    heads = ["label", *settings, *(_capital(metric.title) for metric in sweep.metrics), "diverged"]
    return Table(label="All points", heads=heads, rows=rows)


def _question(axes_: Sequence[Axis]) -> str:
    return f"Which {' and '.join(setting_name(axis.key) for axis in axes_)} should I use?"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _found(values: Sequence[Any]) -> tuple[str, ...]:
    """Values as something that can be looked up, lists too (as in model.hidden = [10, 10])."""
    return tuple(repr(value) for value in values)


def sweep_html(sweep: Sweep) -> str:
    """The answer for each algorithm, and the metric that decides at every point."""
    best = {label: sweep.best_row(label) for label in sweep.labels}
    points = list(dict.fromkeys(row.point for row in sweep.rows))
    by_place = {(row.point, row.label): row for row in sweep.rows}
    rows = []
    for point in points[:MOST_ROWS]:
        mine = [by_place.get((point, label)) for label in sweep.labels]
        values = next(row for row in mine if row is not None).values
        cells = [
            TableCell(text="failed", muted=True)
            if row is None
            else TableCell(text=sweep.best_by.show(row.scores[sweep.best_by.text].median), bold=row is best[row.label])
            for row in mine
        ]
        head = ", ".join(show(value) for value in values)
        rows.append(TableRow(head=TableCell(text=head), cells=cells))
    left = len(points) - len(rows)
    more = f"{left} more points are in the table." if left > 0 else ""
    return page_html(
        f"{sweep.name}: sweep",
        [answer(sweep), *sweep.sentences, *(text for text in (sweep.equal.sentence, more) if text)],
        Table(
            label=sweep.best_by.title,
            heads=[", ".join(axis.key for axis in sweep.axes), *sweep.labels],
            groups=[(sweep.best_by.title, len(sweep.labels))] if sweep.labels else (),
            rows=rows,
        ),
    )
