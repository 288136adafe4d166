"""The figures of pages as Plotly objects, for notebooks and scripts: the same traces, in the colours of a light page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from . import palette
from .figure import Figure, Layout, Style, Trace, View

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

BAND = 0.16  # opacity of the middle half of the seeds
LONGEST_NAME = 48


def as_plotly(figure: Figure, view: str, legend: Sequence[Style], *, title: str = "") -> PlotlyFigure:
    """One view of a figure; `legend` has the styles that its traces name by number."""
    import plotly.graph_objects as go

    shown = figure.views[view]
    traces = [part for trace in shown.traces for part in _dressed(trace, legend)]
    return go.Figure(traces, _layout(shown, title or figure.title, figure.height_px))


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
