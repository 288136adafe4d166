"""Results in a notebook: sentences and tables as plain HTML, figures as Plotly objects."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from ..base.types import Json
from . import palette
from .figure import Figure, Style, Trace
from .page import Table, environment

if TYPE_CHECKING:
    from jinja2 import Template
    from plotly.graph_objects import Figure as PlotlyFigure

MOST_ROWS = 20
LONGEST_NAME = 48
BAND_OPACITY = "29"  # two hexadecimal digits: 16 %
_CHROME = palette.CHROME["light"]
_AXIS = {
    "gridcolor": _CHROME["grid"], "linecolor": _CHROME["rule"], "zerolinecolor": _CHROME["grid"], "automargin": True,
}  # fmt: skip
# The light page as a Plotly template.
TEMPLATE = {
    "layout": {
        "title": {"font": {"size": 15}, "x": 0.02, "y": 0.96},
        "font": {"size": 12, "color": _CHROME["text"]},
        "paper_bgcolor": _CHROME["card"],
        "plot_bgcolor": _CHROME["card"],
        "hovermode": "x unified",
        "margin": {"l": 56, "r": 16, "t": 64, "b": 44},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
    }
}


def page_html(title: str, sentences: Sequence[str], table: Table) -> str:
    """Return sentences and a table as a notebook shows them."""
    return str(_template().render(title=title, sentences=sentences, table=table))


def bar(value: float, largest: float) -> Markup:
    """Return a small horizontal bar for a cell of a table."""
    share = value / largest if largest > 0 else 0.0
    ink = palette.SERIES["light"][0]
    return Markup('<svg width="120" height="10"><rect width="{}" height="10" fill="{}"/></svg>').format(
        f"{120 * share:.0f}", ink
    )


def as_plotly(figure: Figure, view: str, legend: Sequence[Style], *, title: str = "") -> PlotlyFigure:
    """Return one view of a figure as a Plotly object, in the colours of a light page.

    Args:
        figure: of a page.
        view: key of the view.
        legend: the styles that the traces name by number.
        title: in place of the figure's own.
    """
    import plotly.graph_objects as go  # start-up time

    shown = figure.views[view]
    traces = [part for trace in shown.traces for part in _styled(trace, legend)]
    size = {"height": max(figure.height_px, 340), "showlegend": True}
    made = go.Figure(traces, _coloured("", shown.layout) | size | {"template": TEMPLATE})
    return made.update_layout(title_text=_plain(title or figure.title))


def _styled(trace: Trace, legend: Sequence[Style]) -> list[Trace]:
    """Return a trace with the look of its series, after the band around it; without a series, its colours alone."""
    made = {key: _coloured(key, value) for key, value in trace.items() if key not in ("series", "band", "dash")}
    if "series" not in trace:
        return [made]
    style = legend[trace["series"]]
    ink = palette.SERIES["light"][style.colour]
    made |= {"name": _plain(style.name), "legendgroup": style.name}
    made["line"] = {"color": ink, "width": 2, "dash": trace.get("dash", style.dash)}
    made["marker"] = {"color": ink, "size": 6, **made.get("marker", {})}
    if "band" not in trace:
        return [made]
    known = [point for point in zip(trace["x"], *trace["band"], strict=True) if None not in point]
    x, low, high = map(list, zip(*known, strict=True)) if known else ([], [], [])
    band = {
        "type": "scatter", "mode": "lines", "x": x + x[::-1], "y": high + low[::-1], "fill": "toself",
        "fillcolor": ink + BAND_OPACITY, "line": {"width": 0}, "hoverinfo": "skip", "legendgroup": style.name,
        "showlegend": False,
    }  # fmt: skip
    return [band, made]


def _coloured(key: str, part: Json) -> Json:
    """Return `part` with every `$name` below a key of colours resolved; below other keys it may be a text."""
    if isinstance(part, dict):
        return {name: _coloured(name, value) for name, value in part.items()}
    if isinstance(part, list):
        return [_coloured(key, value) for value in part]
    return palette.resolved(part) if key.endswith("color") and isinstance(part, str) else part


def _plain(name: str) -> str:
    """Return a name without meaning to Plotly, which reads a little markup in its texts."""
    return html.escape(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…", quote=False)


@cache
def _template() -> Template:
    return environment().get_template("notebook.html")
