"""What a notebook shows: sentences, a table, a small picture. Plain HTML and SVG, which need no script."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from markupsafe import Markup

from ..base.formatting import quantity
from . import palette
from .figure import Style, View
from .page import Table, environment

WIDTH, HEIGHT, MARGIN = 460, 150, 34  # of the small figure, in pixels
MOST_ROWS = 20


def bar(value: float, largest: float) -> Markup:
    share = value / largest if largest > 0 else 0.0
    ink = palette.SERIES["light"][0]
    return Markup('<svg width="120" height="10"><rect width="{}" height="10" fill="{}"/></svg>').format(
        f"{120 * share:.0f}", ink
    )


def page_html(title: str, sentences: Sequence[str], table: Table, figure: str = "") -> str:
    """Sentences, a table and perhaps a picture, as a notebook shows them."""
    return str(_template().render(title=title, sentences=sentences, table=table, figure=figure))


@cache
def _template() -> Any:
    return environment().get_template("notebook.html")


def picture(view: View, legend: Sequence[Style], words: str) -> Markup:
    """The lines of a view, with the ends of both axes and the names beside them. Values outside 0 to 1 set the scale."""
    lines = [(legend[trace["series"]], _known(trace)) for trace in view.traces if "series" in trace]
    points = [point for _, line in lines for point in line]
    if not points:
        return Markup()
    right = max(x for x, _ in points) or 1.0
    top = max(1.0, max(y for _, y in points))

    def place(x: float, y: float) -> str:
        return f"{MARGIN + (WIDTH - MARGIN) * x / right:.1f},{(HEIGHT - 20) * (1 - y / top) + 4:.1f}"

    parts = [Markup('<path d="M{} H{}" stroke="#b3bac4" fill="none"/>').format(place(0, 0), WIDTH)]
    for style, line in lines:
        parts.append(
            Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>').format(
                " ".join(place(*point) for point in line),
                palette.SERIES["light"][style.colour],
                palette.DASHES[style.dash],
            )
        )
    texts = [(0, 12, "start", f"{top:.0%}"), (0, HEIGHT - 16, "start", "0"), (MARGIN, HEIGHT - 2, "start", "0 s")]
    texts.append((WIDTH, HEIGHT - 2, "end", f"{quantity(right)} s"))
    for x, y, anchor, text in texts:
        parts.append(Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, text))
    picture = Markup('<svg role="img" aria-label="{}" width="{}" height="{}" font-size="11" fill="#5a6472">{}</svg>')
    keys = (
        Markup('<span style="color:{};white-space:nowrap">▬&nbsp;{}</span>').format(
            palette.SERIES["light"][style.colour], style.name
        )
        for style, _ in lines
    )
    drawn = picture.format(words, WIDTH, HEIGHT, Markup("").join(parts))
    return Markup("<div>{}</div><div>{} &nbsp; <small>{}</small></div>").format(
        drawn, Markup(" &nbsp; ").join(keys), words
    )


def _known(trace: dict[str, Any]) -> list[tuple[float, float]]:
    pairs = zip(trace["x"], trace["y"], strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None and math.isfinite(y)]
