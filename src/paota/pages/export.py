"""Figures for papers: matplotlib draws the figures of a page as PNG and PDF (the extra `paper`).

It reads the same traces as the browser, in Plotly's words.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..base.files import atomic
from ..base.formatting import SHARE_TICKS
from ..base.types import Json, Table
from . import palette
from .figure import Layout, Style, Trace, View
from .page import Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

COLUMN_INCHES, ROW_INCHES = 3.5, 2.6
MOST_COLUMNS = 2  # more would be too small in a column of text
BAND = 0.15  # opacity of the band between the quartiles
DASHES = {
    "solid": "-",
    "dash": "--",
    "dot": ":",
    "dashdot": "-.",
    "longdash": (0, (8, 3)),
    "longdashdot": (0, (8, 3, 2, 3)),
}
MARKERS = {"circle": "o", "triangle-up": "^", "square": "s", "diamond": "D"}
RULES: dict[Json, Json] = {
    "font.size": 8,
    "font.family": "DejaVu Serif",
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "paota",  # the same data give the same bytes
}


def available() -> bool:
    """Return True if matplotlib is installed."""
    return find_spec("matplotlib") is not None


def export(section: Section, legend: Sequence[Style], folder: Path) -> list[Path]:
    """Write the figures of a section as one picture with a panel for each view: `folder`/ID.png and ID.pdf.

    Each file appears whole or not at all. The files hold no date, so the same data give the same bytes.

    Args:
        section: with at least one figure.
        legend: the styles that the traces name by number.
        folder: an existing one.

    Returns:
        The paths of the files.
    """
    import matplotlib  # optional
    from matplotlib.figure import Figure as Picture  # optional

    panels = [(figure, view) for figure in section.figures for view in figure.views.values()]
    columns = min(len(panels), MOST_COLUMNS)
    rows = math.ceil(len(panels) / columns)
    row_inches = ROW_INCHES * max(1.0, max(figure.height_px for figure, _ in panels) / 300) if rows == 1 else ROW_INCHES
    made = []
    with matplotlib.rc_context(RULES):
        width = COLUMN_INCHES * (1.6 if len(panels) == 1 and panels[0][0].wide else columns)
        picture = Picture(figsize=(width, row_inches * rows), layout="constrained")
        places = picture.subplots(rows, columns, squeeze=False).ravel()
        for place, (figure, view) in zip(places, panels, strict=False):
            place.set_title(figure.title)
            draw(view, legend, place)
        for place in places[len(panels) :]:
            place.set_axis_off()
        _legend(picture, places, width)
        for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
            buffer = io.BytesIO()
            picture.savefig(buffer, format=kind, dpi=200, metadata=metadata)
            made.append(folder / f"{section.id}.{kind}")
            with atomic(made[-1]) as stream:
                stream.write(buffer.getvalue())
    return made


def draw(view: View, legend: Sequence[Style], place: Axes) -> None:
    """Draw all traces and lines of a view into one pair of matplotlib's axes."""
    bars = [trace for trace in view.traces if trace["type"] == "bar" and "base" not in trace]
    for trace in view.traces:
        style = legend[trace["series"]] if "series" in trace else Style(name=trace.get("name", ""), colour=0)
        label = trace.get("name", style.name)
        label = label if trace.get("showlegend", True) else ""
        if trace["type"] == "bar":
            _bars(place, trace, style, label, (bars.index(trace), len(bars)) if trace in bars else (0, 1))
        else:
            _points(place, trace, style, label)
    for shape in view.layout.get("shapes", ()):
        upright = shape["x0"] == shape["x1"]
        look: Table = {
            "color": palette.resolved(shape["line"]["color"]),
            "linestyle": DASHES[shape["line"]["dash"]],
            "linewidth": 0.8,
        }
        (place.axvline if upright else place.axhline)(shape["x0" if upright else "y0"], zorder=0, **look)
    _axes(place, view.layout)


def _points(place: Axes, trace: Trace, style: Style, label: str) -> None:
    x, mode, marker = trace["x"], trace["mode"], trace.get("marker", {})
    y = _floats(trace["y"])
    line = trace.get("line", {})
    ink = palette.SERIES["light"][style.colour] if "series" in trace else palette.resolved(line.get("color", "$text"))
    symbol = marker.get("symbol", "circle")
    look: Table = {
        "color": ink,
        "label": label,
        "linestyle": DASHES[trace.get("dash", line.get("dash", style.dash))] if "lines" in mode else "",
        "linewidth": line.get("width", 2) * 0.65,
        "marker": MARKERS[symbol.removesuffix("-open")] if "markers" in mode else "",
    }
    if "color" in marker:
        look["color"] = palette.resolved(marker["color"])
    if symbol.endswith("-open"):
        look["markerfacecolor"] = "white"
    if "size" in marker:
        look["markersize"] = marker["size"] * 0.55
    place.plot(x, y, **look)
    if "band" in trace:
        low, high = map(_floats, trace["band"])
        place.fill_between(x, low, high, color=ink, alpha=BAND, linewidth=0)
    if "error_y" in trace:
        place.errorbar(x, y, _spans(trace), fmt="none", ecolor=ink, elinewidth=0.6, capsize=1.5)
    if "text" in mode:
        for at_x, at_y, text in zip(x, y, trace["text"], strict=True):
            ink = palette.resolved(trace.get("textfont", {}).get("color", "$text"))
            place.text(at_x, at_y, text, ha="center", va="center", fontsize=7, color=ink)


def _bars(place: Axes, trace: Trace, style: Style, label: str, share: tuple[int, int]) -> None:
    """Draw upright bars side by side (`share` (0, 3): the first of three), or horizontal ones from their `base`."""
    ink = palette.SERIES["light"][style.colour] if "series" in trace else palette.resolved(trace["marker"]["color"])
    if "base" in trace:
        start, length, at = (np.array(trace[key], dtype=float) for key in ("base", "x", "y"))
        place.barh(at, length, left=start, height=0.66, color=ink, linewidth=0, label=label)
        for x, y, text in zip(start + length / 2, at, trace.get("text", ()), strict=False):
            place.text(
                x, y, text, fontsize=5.5, ha="center", va="center", color=palette.resolved(trace["textfont"]["color"])
            )
        return
    position, count = share
    width = 0.8 / count
    at = np.arange(len(trace["x"])) + (position - (count - 1) / 2) * width
    errors: Table = (
        {"yerr": _spans(trace), "error_kw": {"elinewidth": 0.6, "capsize": 1.5}} if "error_y" in trace else {}
    )
    place.bar(at, _floats(trace["y"]), width=width * 0.92, color=ink, label=label, **errors)
    place.set_xticks(range(len(trace["x"])), trace["x"], rotation=20)


def _spans(trace: Trace) -> list[np.ndarray]:
    return [_floats(trace["error_y"][end]) for end in ("arrayminus", "array")]


def _axes(place: Axes, layout: Layout) -> None:
    from matplotlib.ticker import MaxNLocator, NullLocator  # optional

    for name, axis in (("x", layout.get("xaxis", {})), ("y", layout.get("yaxis", {}))):
        if axis.get("type") == "log":
            place.set(**{f"{name}scale": "log"})
        if "range" in axis:
            place.set(**{f"{name}lim": axis["range"]})
        if "ticktext" in axis:
            getattr(place, f"set_{name}ticks")(axis["tickvals"], axis["ticktext"])
            getattr(place, f"{name}axis").set_minor_locator(NullLocator())
        title = axis.get("title", {}).get("text", "")
        place.set(**{f"{name}label": title})
        if title == "round":
            place.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    if layout.get("yaxis", {}).get("tickformat") == SHARE_TICKS:
        place.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
    if layout.get("xaxis", {}).get("visible") is False:
        place.set_aspect("equal")
        place.set_axis_off()


def _legend(picture: Picture, places: Iterable[Axes], width_inches: float) -> None:
    """Draw one legend below all panels, each name once, in as many columns as fit."""
    named: dict[str, Json] = {}
    for place in places:
        for handle, label in zip(*place.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if named:
        column_inches = 0.5 + 0.055 * max(map(len, named))
        ncols = max(1, int(width_inches / column_inches))
        picture.legend(named.values(), named.keys(), loc="outside lower center", ncols=ncols)


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([math.nan if value is None else value for value in values], dtype=float)
