"""The parts of a figure, as plain dictionaries in Plotly's words.

Some keys are ours and are resolved in the browser, where the theme is known: `series` (an index into the page's legend:
gives a trace its name, colour and dash), `dash` (instead of the legend's), `band` ([low, high] around y) and colours that
start with `$`. Texts are plain: no name is ever markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .curves import Curve
from .palette import DASHES

Trace = dict[str, Any]
Layout = dict[str, Any]

# Below this many points a line alone would look more certain than it is; a lone point would not be seen at all.
MARKED_POINTS = 12
# Factors of the ticks within a decade, from the densest to the thinnest.
LADDERS = ((1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
MOST_TICKS = 6
# A figure's own legend, for traces that are no series of the page.
OWN_LEGEND = {"showlegend": True, "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}}


@dataclass(frozen=True, kw_only=True)
class Style:
    """One entry of a page's legend: the name, colour (its number in the palette) and dash that its traces share."""

    name: str
    colour: int
    dash: str = "solid"

    def payload(self) -> dict[str, Any]:
        """What the script reads: also the dash as lengths of strokes, for the swatch."""
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

    def payload(self) -> dict[str, Any]:
        """What the script reads."""
        shown: dict[str, Any] = {"traces": self.traces, "layout": self.layout, "columns": self.columns}
        return shown | ({"records": self.record_columns} if self.record_columns else {})


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A titled picture with a caption, a text for those who cannot see it, and one view for each choice of `group`.

    The first view is shown until the reader chooses another: by the page's switch if the group is `axis`, by a selector
    in the figure's own head if there are `choices` (the name of each view).
    """

    id: str
    title: str
    caption: str
    alt: str
    views: dict[str, View]
    group: str | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    height_px: int = 300
    wide: bool = False

    def payload(self) -> dict[str, Any]:
        """What the script reads."""
        views = {key: view.payload() for key, view in self.views.items()}
        return {"group": self.group, "title": self.title, "views": views}


def line_chart(
    views: Mapping[str, tuple[Sequence[Trace], Layout]], *, title: str, alt: str, y_name: str = "", **more: Any
) -> Figure:
    """A figure of lines: the traces and the layout of each view. Its table names x by its axis and y by the title."""
    named = y_name or title[:1].lower() + title[1:]
    drawn = {
        key: View(traces=list(traces), layout=layout, columns=(layout["xaxis"]["title"]["text"], named))
        for key, (traces, layout) in views.items()
    }
    return Figure(title=title, alt=f"Line chart of {alt}", views=drawn, **more)


def coinciding(traces: Sequence[Trace]) -> list[list[int]]:
    """Series whose lines or dots lie on each other, to within half a percent of the figure's height, in groups.

    Only the last one of a group can be seen.
    """
    drawn = [trace for trace in traces if trace["type"] == "scatter" and "series" in trace and trace["mode"] != "text"]
    known = [value for trace in drawn for value in trace["y"] if value is not None]
    nearly = 0.005 * (max(known) - min(known)) if known else 0.0
    groups: list[list[Trace]] = []
    for trace in drawn:
        home = next((group for group in groups if _same(group[0], trace, nearly)), None)
        if home is None:
            groups.append([trace])
        else:
            home.append(trace)
    return [[trace["series"] for trace in group] for group in groups if len(group) > 1]


def _same(one: Trace, other: Trace, nearly: float) -> bool:
    if one["x"] != other["x"] or len(one["y"]) != len(other["y"]):
        return False
    pairs = zip(one["y"], other["y"], strict=True)
    return all((a is None) == (b is None) and (a is None or abs(a - b) <= nearly) for a, b in pairs)


def numbers(values: Iterable[float] | np.ndarray, digits: int = 5, *, positive: bool = False) -> list[float | None]:
    """Plain JSON numbers: rounded to so many digits, None for what is not finite (or not positive, for log axes)."""
    plain: list[float | None] = []
    for value in np.asarray(values, dtype=float).tolist():
        if not np.isfinite(value) or (positive and value <= 0):
            plain.append(None)
            continue
        short = float(f"{value:.{digits}g}")
        plain.append(int(short) if short.is_integer() and abs(short) < 1e15 else short)
    return plain


def scatter(mode: str, x: Iterable[float] | np.ndarray, y: Iterable[float] | np.ndarray, **more: Any) -> Trace:
    """Points, lines or texts that belong to no series: `more` says their name and look, and they stay silent."""
    return {"type": "scatter", "mode": mode, "x": numbers(x), "y": numbers(y), "hoverinfo": "skip"} | more


def line(series: int, curve: Curve, *, positive: bool = False) -> Trace:
    """The curve of one series; `positive` leaves out what a logarithmic axis cannot show."""
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
    """Error bars from `low` to `high` [n each]; none where an end is not finite."""
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
    """The two axes. The quantity and its unit stand in the figure's title, so the y axis needs none of its own."""
    x_axis: dict[str, Any] = {"title": {"text": x_title}}
    if not category:
        x_axis["tickformat"] = ","  # 24,000 rather than 24k
    if x_log or category:
        x_axis["type"] = "log" if x_log else "category"
    y_axis: dict[str, Any] = {"tickformat": y_format, "hoverformat": y_hover or y_format}
    if log:
        y_axis |= {"type": "log", "exponentformat": "power", "minexponent": 2, "nticks": 5}
    if y_range is not None:
        y_axis["range"] = list(y_range)
    elif from_zero:
        y_axis["rangemode"] = "tozero"
    return {"xaxis": x_axis, "yaxis": y_axis}


def log_ticks(low: float, high: float) -> Layout:
    """Ticks of a logarithmic axis from `low` to `high`: the densest ladder that is not crowded.

    Plotly's own choice crowds a small figure. A range too narrow for two ticks is left to it.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for ladder in LADDERS:
        values = [factor * 10.0**decade for decade in decades for factor in ladder]
        inside = [value for value in values if low * 0.98 <= value <= high * 1.02]
        if len(inside) <= MOST_TICKS:
            break
    inside = inside[:: math.ceil(len(inside) / MOST_TICKS)] if inside else []
    if len(inside) < 2:
        return {}
    plain = inside[0] >= 0.01 and inside[-1] <= 1000
    return {"tickvals": inside, "ticktext": [f"{value:g}" if plain else power_of_ten(value) for value in inside]}


def power_of_ten(value: float) -> str:
    """2e-10 -> `2·10⁻¹⁰`."""
    exponent = math.floor(math.log10(value) + 1e-9)
    digits = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    factor = f"{value / 10.0**exponent:.2g}"
    return f"10{digits}" if factor == "1" else f"{factor}·10{digits}"


def level(
    at: float, text: str = "", *, log: bool = False, vertical: bool = False, dash: str = "dot", side: str = "right"
) -> Layout:
    """A line across the figure, horizontal unless `vertical`, with its name at the right or left end, or on the axis."""
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
    """The layout with the shapes and annotations of the others added."""
    merged = dict(layout)
    for other in more:
        for key, parts in other.items():
            merged[key] = [*merged.get(key, []), *parts]
    return merged
