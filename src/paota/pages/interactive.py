"""The report's figures as Plotly objects, for notebooks and scripts. Nothing is defined twice: the same traces are dressed here
as the page's script dresses them in the browser, in the colours of a light page.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UserError, unknown_name
from . import palette
from .figure import Figure, Layout, Style, Trace, View
from .report.learning import learning_section
from .report.power import QUANTITIES as POWER
from .report.quantity import Quantity, quantity_figure
from .report.study import ResultLike, Study, gather
from .report.timing import QUANTITIES as TIMING
from .report.timing import timeline_section

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

MOST_POINTS = 300
AXES = {"time_s": "seconds", "round": "rounds"}  # what a user says -> the view of a figure
BAND = 0.16  # opacity of the middle half of the seeds
LONGEST_NAME = 48


def plot(result: ResultLike, column: str, against: str) -> PlotlyFigure:
    """A column of the metrics, one curve an algorithm: the figure of the report, or one in its style."""
    if against not in AXES:
        raise unknown_name("axis", against, AXES, {"seconds": "time_s", "time": "time_s", "rounds": "round"})
    study, axis = gather([result]), AXES[against]
    for figure in learning_section(study, MOST_POINTS).figures:
        if figure.id == column.replace("_", "-"):
            return as_plotly(figure, axis, _legend(study))
    shown = next((q for q in (*TIMING, *POWER) if q.column == column), Quantity(column, column.replace("_", " "), ""))
    made = quantity_figure(study, MOST_POINTS, shown, axis=axis)
    if made is None:
        raise UserError(f"nothing to draw: no algorithm of this run has a value in the column '{column}'")
    return as_plotly(made, "all", _legend(study))


def plot_timeline(result: ResultLike, label: str | None) -> PlotlyFigure:
    """Who trains, waits and sends at the beginning of the run of one algorithm."""
    study = gather([result])
    figures = timeline_section(study).figures
    if not figures:
        raise UserError("this run kept no records of single devices, so there is no timeline to draw")
    views = {name: key for key, name in figures[0].choices.items()}
    if label is not None and label not in views:
        raise unknown_name("algorithm label with a timeline", label, views)
    name = label or next(iter(views))
    return as_plotly(figures[0], views[name], _legend(study), title=f"{figures[0].title}: {name}")


def as_plotly(figure: Figure, view: str, legend: Sequence[Style], *, title: str = "") -> PlotlyFigure:
    """One view of a figure; `legend` has the styles that its traces name by number."""
    import plotly.graph_objects as go

    shown = figure.views[view]
    traces = [part for trace in shown.traces for part in _dressed(trace, legend)]
    return go.Figure(traces, _layout(shown, title or figure.title, figure.height_px))


def _legend(study: Study) -> list[Style]:
    return [entry.style for entry in study.drawn]


def _dressed(trace: Trace, legend: Sequence[Style]) -> list[Trace]:
    """A trace with the name, colour and dash of its series, its band before it; a trace of no series only coloured."""
    made = {key: _coloured(key, value) for key, value in trace.items() if key not in ("series", "band", "dash")}
    if "series" not in trace:
        return [made]
    style = legend[trace["series"]]
    ink = palette.SERIES["light"][style.colour]
    made |= {"name": _plain(trace.get("name", style.name)), "legendgroup": style.name}
    if trace["type"] == "bar":
        made["marker"] = {"color": _translucent(ink, 0.88), "line": {"color": ink, "width": 1}}
        return [made]
    if trace["mode"] == "text":
        return [made | {"showlegend": False, "textfont": {"color": palette.CHROME["light"]["muted"], "size": 12}}]
    made["line"] = {"color": ink, "width": 2, "dash": trace.get("dash", style.dash)}
    made["marker"] = {"color": ink, "size": 6, **made.get("marker", {})}
    return [*_band(trace, ink, style), made]


def _band(trace: Trace, ink: str, style: Style) -> list[Trace]:
    """The outline of the middle half of the seeds, one for each unbroken stretch."""
    if "band" not in trace:
        return []
    outlines: list[Trace] = []
    look = {"fill": "toself", "fillcolor": _translucent(ink, BAND), "line": {"width": 0}, "hoverinfo": "skip"}
    for stretch in _stretches(list(zip(trace["x"], *trace["band"], strict=True))):
        x, low, high = map(list, zip(*stretch, strict=True))
        outline = {"x": x + x[::-1], "y": high + low[::-1], "legendgroup": style.name, "showlegend": False}
        outlines.append({"type": "scatter", "mode": "lines"} | look | outline)
    return outlines


def _stretches(points: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    stretch: list[tuple[Any, ...]] = []
    for point in [*points, (None,)]:
        if None not in point:
            stretch.append(point)
        elif stretch:
            yield stretch
            stretch = []


def _layout(view: View, title: str, height_px: int) -> Layout:
    chrome = palette.CHROME["light"]
    own = {key: _coloured(key, value) for key, value in view.layout.items() if key != "legend"}
    axis = {
        "gridcolor": chrome["grid"],
        "linecolor": chrome["rule"],
        "zerolinecolor": chrome["grid"],
        "automargin": True,
    }
    return {
        "title": {"text": _plain(title), "font": {"size": 15}, "x": 0.02, "y": 0.96},
        "template": "none",
        "height": max(height_px, 340),
        "font": {"size": 12, "color": chrome["text"]},
        "paper_bgcolor": chrome["card"],
        "plot_bgcolor": chrome["card"],
        "hovermode": "x unified",
        "margin": {"l": 56, "r": 16, "t": 64, "b": 44},
        **own,
        "showlegend": True,
        "xaxis": axis | own.get("xaxis", {}),
        "yaxis": axis | own.get("yaxis", {}),
    }


def _coloured(key: str, part: Any) -> Any:
    """`part` with every `$name` below a key that holds colours resolved; elsewhere it may be a text."""
    if isinstance(part, dict):
        return {name: _coloured(name, value) for name, value in part.items()}
    if isinstance(part, list):
        return [_coloured(key, value) for value in part]
    return palette.resolved(part) if key.endswith("color") and isinstance(part, str) else part


def _translucent(ink: str, opacity: float) -> str:
    red, green, blue = (int(ink[start : start + 2], 16) for start in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def _plain(name: str) -> str:
    """Plotly reads a little markup in its texts; a name is never markup."""
    return html.escape(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…", quote=False)
