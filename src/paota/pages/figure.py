"""The parts of a figure, as plain dictionaries in Plotly's words.

The page's script resolves some further keys, because only the browser knows the theme: `series` (an index into the
page's legend, which gives a trace its name, colour and dash), `dash` (instead of the legend's), `band` ([low, high]
around y), and colours that start with `$`. All texts are plain: no name is ever markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypedDict, Unpack

import numpy as np

from ..base.formatting import percent, sentences
from ..base.types import Json, Table
from .curves import Curve
from .palette import DASHES

Trace: TypeAlias = Table
Layout: TypeAlias = Table

# A curve with fewer points gets markers: its line alone would look too certain, and a single point would be invisible.
MARKED_POINTS = 12
# The legend of a figure whose traces are no series of the page.
OWN_LEGEND = {"showlegend": True, "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}}
LOGARITHMIC = {"type": "log", "exponentformat": "power", "minexponent": 2, "nticks": 5}
CHART_NAMES = {"bar": "Bar chart", "box": "Box plot"}


@dataclass(frozen=True, kw_only=True)
class Style:
    """One entry of a page's legend: the name, colour (its number in the palette) and dash that its traces share."""

    name: str
    colour: int
    dash: str = "solid"

    def payload(self) -> Table:
        """Return the entry as the script reads it, with the dash also as lengths of strokes for the swatch."""
        return {"name": self.name, "colour": self.colour, "dash": self.dash, "strokes": DASHES[self.dash]}


@dataclass(frozen=True, kw_only=True)
class View:
    """One state of a figure.

    The table of its data has the columns x and y, named by `columns`; with `record_columns` it shows the traces'
    `customdata` instead.
    """

    traces: list[Trace]
    layout: Layout
    columns: tuple[str, str] = ("x", "y")
    record_columns: tuple[str, ...] = ()

    def payload(self) -> Table:
        """Return the view as the script reads it."""
        shown: Table = {"traces": self.traces, "layout": self.layout, "columns": self.columns}
        return shown | ({"records": self.record_columns} if self.record_columns else {})


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A titled picture with a caption, and one view for each choice of `group`.

    The first view is shown until the reader chooses another: with the page's switch if the group is `axis`, with a
    selector in the figure's own head if there are `choices` (the name of each view). `alt` is the text for readers who
    cannot see the figure; `alt_text` writes one where it is empty.
    """

    id: str
    title: str
    caption: str
    views: dict[str, View]
    alt: str = ""
    group: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    height_px: int = 300
    wide: bool = False

    def payload(self) -> Table:
        """Return the figure as the script reads it."""
        views = {key: view.payload() for key, view in self.views.items()}
        return {"group": self.group, "title": self.title, "views": views}


class FigureOptions(TypedDict, total=False):
    """The fields of a `Figure` that a function which draws one passes on."""

    id: str
    title: str
    caption: str
    group: str | None
    height_px: int
    wide: bool


def line_chart(
    views: Mapping[str, tuple[Sequence[Trace], Layout]],
    *,
    y_name: str = "",
    alt: str = "",
    **options: Unpack[FigureOptions],
) -> Figure:
    """Return a figure of lines.

    Args:
        views: the traces and the layout of each view.
        y_name: column of y in the table of the data (default: the title).
        alt: what the lines show, in place of the automatic text.
        options: fields of the figure.
    """
    named = y_name or options["title"][:1].lower() + options["title"][1:]
    drawn = {
        key: View(traces=list(traces), layout=layout, columns=(layout["xaxis"]["title"]["text"], named))
        for key, (traces, layout) in views.items()
    }
    return Figure(views=drawn, alt=f"Line chart of {alt}" if alt else "", **options)


def alt_text(figure: Figure, legend: Sequence[Style]) -> str:
    """Return the figure's text for readers who cannot see it: its own, or its kind, its axes and the last values."""
    if figure.alt:
        return figure.alt
    view = next(iter(figure.views.values()))
    kind = CHART_NAMES.get(view.traces[0]["type"], "Line chart") if view.traces else "Empty chart"
    last = last_values(figure, legend)
    return sentences([f"{kind} of {figure.title} against {view.columns[0]}.", f"Last values: {last}." if last else ""])


def last_values(figure: Figure, legend: Sequence[Style]) -> str:
    """Return the last known value of each series in the first view: `paota 83.1 %, cotaf 80.2 %`."""
    view = next(iter(figure.views.values()))
    share = "p" in view.layout.get("yaxis", {}).get("tickformat", "")
    said = []
    for trace in _data_traces(view):
        values = [value for value in trace["median" if "median" in trace else "y"] if value is not None]
        if values:
            shown = percent(values[-1]) if share else f"{values[-1]:.3g}"
            said.append(f"{legend[trace['series']].name} {shown}")
    return ", ".join(said)


def is_constant(figure: Figure) -> bool:
    """Return whether each series of the figure has one value only, so that a sentence says as much."""
    traces = [trace for view in figure.views.values() for trace in _data_traces(view)]
    return all(len({value for key in _VALUES for value in trace.get(key, ())} - {None}) <= 1 for trace in traces)


_VALUES = ("y", "lowerfence", "q1", "median", "q3", "upperfence")


def _data_traces(view: View) -> list[Trace]:
    return [trace for trace in view.traces if "series" in trace and trace.get("mode") != "text"]


def coinciding(traces: Sequence[Trace]) -> list[list[int]]:
    """Return groups of series whose lines or dots lie on each other, to within half a percent of the figure's height.

    Only the last series of a group is visible.
    """
    drawn = [trace for trace in traces if trace["type"] == "scatter" and "series" in trace and trace["mode"] != "text"]
    known = [value for trace in drawn for value in trace["y"] if value is not None]
    nearly = 0.005 * (max(known) - min(known)) if known else 0.0
    groups: list[list[Trace]] = []
    for trace in drawn:
        twins = next((group for group in groups if _same(group[0], trace, nearly)), [])
        if not twins:
            groups.append(twins)
        twins.append(trace)
    return [[trace["series"] for trace in group] for group in groups if len(group) > 1]


def _same(one: Trace, other: Trace, nearly: float) -> bool:
    if one["x"] != other["x"] or len(one["y"]) != len(other["y"]):
        return False
    pairs = zip(one["y"], other["y"], strict=True)
    return all((a is None) == (b is None) and (a is None or abs(a - b) <= nearly) for a, b in pairs)


def numbers(values: Iterable[float] | np.ndarray, digits: int = 5, *, positive: bool = False) -> list[float | None]:
    """Return plain JSON numbers, rounded to `digits` significant digits.

    Values that are not finite become None; with `positive` (for logarithmic axes) values up to 0 too.
    """
    plain: list[float | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        if not np.isfinite(value) or (positive and value <= 0):
            plain.append(None)
            continue
        short = float(f"{value:.{digits}g}")
        plain.append(int(short) if short.is_integer() and abs(short) < 1e15 else short)
    return plain


def scatter(mode: str, x: Iterable[float] | np.ndarray, y: Iterable[float] | np.ndarray, **more: Json) -> Trace:
    """Return points, lines or texts that belong to no series and show nothing on hover; `more` are keys of the trace."""
    return {"type": "scatter", "mode": mode, "x": numbers(x), "y": numbers(y), "hoverinfo": "skip"} | more


def line(series: int, curve: Curve, *, positive: bool = False) -> Trace:
    """Return the curve of one series; `positive` leaves out values that a logarithmic axis cannot show."""
    trace: Trace = {
        "type": "scatter",
        "mode": "lines+markers" if len(curve) < MARKED_POINTS else "lines",
        "series": series,
        "x": numbers(curve.x, 6),
        "y": numbers(curve.middle, positive=positive),
    }
    if curve.low is not None and curve.high is not None:
        trace["band"] = [numbers(curve.low, positive=positive), numbers(curve.high, positive=positive)]
    return trace


def whiskers(low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> Trace:
    """Return error bars from `low` to `high` ([n] each), without the ends that are not finite."""
    above, below = (np.maximum(np.nan_to_num(part, posinf=0.0), 0.0) for part in (high - middle, middle - low))
    ends = {"array": numbers(above), "arrayminus": numbers(below)}
    return {"type": "data", "symmetric": False, **ends, "color": "$muted", "thickness": 1.2, "width": 3}


def axes(
    x_title: str,
    *,
    y_format: str = "",
    y_hover: str = "",
    log: bool = False,
    x_log: bool = False,
    category: bool = False,
    y_range: Sequence[float] | None = None,
    from_zero: bool = False,
) -> Layout:
    """Return the two axes. The y axis has no title: the figure's title names the quantity and its unit."""
    kind = LOGARITHMIC if x_log else {"type": "category"} if category else {"tickformat": ","}  # 24,000, not 24k
    x_axis: Table = {"title": {"text": x_title}} | kind
    y_axis: Table = {"tickformat": y_format, "hoverformat": y_hover or y_format} | (LOGARITHMIC if log else {})
    if y_range is not None:
        y_axis["range"] = list(y_range)
    elif from_zero:
        y_axis["rangemode"] = "tozero"
    return {"xaxis": x_axis, "yaxis": y_axis}


def level(
    at: float, text: str = "", *, log: bool = False, vertical: bool = False, dash: str = "dot", side: str = "right"
) -> Layout:
    """Return a line across the figure, horizontal unless `vertical`.

    Its name stands at the `side` "right" or "left", or on the "axis".
    """
    along, across = ("y", "x") if vertical else ("x", "y")
    line = {"type": "line", f"{along}ref": "paper", f"{along}0": 0, f"{along}1": 1, f"{across}0": at, f"{across}1": at}
    look = {"color": "$muted" if text else "$rule", "width": 1, "dash": dash}
    layout: Layout = {"shapes": [line | {"layer": "between", "line": look}]}
    if text:
        place = {"xref": "paper", "showarrow": False} | _SIDES[side]
        # On a logarithmic axis Plotly places lines by the value, but texts by its exponent.
        words = {"y": math.log10(at) if log else at, "text": text}
        layout["annotations"] = [place | words | {"bgcolor": "$card", "font": {"size": 11, "color": "$muted"}}]
    return layout


_SIDES = {
    "right": {"x": 1, "xanchor": "right", "yanchor": "bottom"},
    "left": {"x": 0.005, "xanchor": "left", "yanchor": "bottom"},
    "axis": {"x": -0.006, "xanchor": "right", "yanchor": "middle"},
}


def together(layout: Layout, *more: Layout) -> Layout:
    """Return the layout with the shapes and annotations of the others added."""
    merged = dict(layout)
    for other in more:
        for key, parts in other.items():
            merged[key] = [*merged.get(key, []), *parts]
    return merged
