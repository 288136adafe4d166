"""One axis as a line plot: an SVG with a line, a band of the middle half and a marked best point for each label."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..sweeps.grid import Axis, show
from ..sweeps.outcome import Sweep, best_row, is_numeric
from . import markup, palette

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 78, 24, 16, 56
DASHES = {"solid": "", "dash": "7 4", "dot": "2 3", "dashdot": "7 3 2 3", "longdash": "11 4", "longdashdot": "11 3 2 3"}
LOG_FROM = 50  # largest over smallest value; below, an even scale reads better

Scale = Callable[[float], float]


def line_plot(sweep: Sweep) -> str:
    axis, metric = sweep.axes[0], sweep.best_by
    places = _places(axis)
    highs = [v for row in sweep.rows for v in _known(row.scores[metric.text].median, row.scores[metric.text].high)]
    lows = [v for row in sweep.rows for v in _known(row.scores[metric.text].median, row.scores[metric.text].low)]
    if not highs:
        return '<p class="intro">There is nothing to draw: no point has a finite value.</p>'
    ticks = _ticks(min(lows), max(highs))
    y = _scale(ticks[0], ticks[-1], HEIGHT - BOTTOM, TOP)
    styles = palette.style_of([(0, label) for label in sweep.labels])
    parts = [_frame(sweep, axis, places, ticks, y)]
    for label, (colour, dash) in zip(sweep.labels, styles, strict=True):
        parts.append(_series(sweep, label, places, y, colour, DASHES[dash]))
    alt = markup.text(f"{metric.title} against {axis.key}; the table below has the numbers")
    legend = "".join(
        f'<li><svg width="30" height="10" aria-hidden="true"><line x1="1" x2="29" y1="5" y2="5" class="s{colour}" '
        f'stroke-width="2.5" stroke-dasharray="{DASHES[dash]}"/></svg> {markup.name(label)}</li>'
        for label, (colour, dash) in zip(sweep.labels, styles, strict=True)
    )
    return (
        f'<figure class="card"><svg class="lines" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{alt}">'
        f'{"".join(parts)}</svg><ul class="keys">{legend}</ul></figure>'
    )


def series_css() -> str:
    """The colours of the lines on a light and a dark page."""
    rules = {
        theme: "".join(
            f".s{i}{{stroke:{colour}}}.f{i}{{fill:{colour}}}" for i, colour in enumerate(palette.SERIES[theme])
        )
        for theme in ("light", "dark")
    }
    return f"{rules['light']}@media (prefers-color-scheme:dark){{{rules['dark']}}}"


def _series(sweep: Sweep, label: str, places: Sequence[float], y: Scale, colour: int, dash: str) -> str:
    metric, rows = sweep.best_by, sweep.of(label)
    best = best_row(rows, metric)
    values = list(sweep.axes[0].values)
    known = [
        (places[values.index(row.values[0])], row.scores[metric.text], row is best)
        for row in rows
        if math.isfinite(row.scores[metric.text].median)
    ]
    known.sort(key=lambda item: item[0])
    ends = [(x, y(s.low), y(s.high) if math.isfinite(s.high) else float(TOP)) for x, s, _ in known]
    outline = [*((x, low) for x, low, _ in ends), *((x, high) for x, _, high in reversed(ends))]
    line = " ".join(f"{x:.1f},{y(s.median):.1f}" for x, s, _ in known)
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y(s.median):.1f}" r="{8 if is_best else 4}" class="f{colour}'
        f'{" star" if is_best else ""}"><title>{markup.text(f"{label}: {metric.show(s.median)}")}</title></circle>'
        for x, s, is_best in known
    )
    band = " ".join(f"{x:.1f},{at:.1f}" for x, at in outline)
    return (
        f'<polygon points="{band}" class="f{colour}" opacity=".15"/>'
        f'<polyline points="{line}" class="s{colour}" fill="none" stroke-width="2.5" stroke-dasharray="{dash}"/>{dots}'
    )


def _frame(sweep: Sweep, axis: Axis, places: Sequence[float], ticks: Sequence[float], y: Scale) -> str:
    parts = []
    for tick in ticks:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" class="rule"/>')
        parts.append(
            f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" class="end">{markup.text(sweep.best_by.show(tick))}</text>'
        )
    step = math.ceil(len(places) / 12)
    for place, value in list(zip(places, axis.values, strict=True))[::step]:
        text = show(value)
        parts.append(
            f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 22}" class="middle">'
            f"{markup.text(text if len(text) <= 14 else text[:13] + '…')}</text>"
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" class="middle axis">{markup.text(axis.key)}</text>'
    )
    return "".join(parts)


def _places(axis: Axis) -> list[float]:
    """Where each value stands: to scale if they are numbers (by decades if they span many), else side by side."""
    if not is_numeric(axis) or len(axis.values) == 1:
        return [_scale(0, len(axis.values), LEFT, WIDTH - RIGHT)(i + 0.5) for i in range(len(axis.values))]
    values = [float(value) for value in axis.values]
    if min(values) > 0 and max(values) / min(values) >= LOG_FROM:
        values = [math.log10(value) for value in values]
    scale = _scale(min(values), max(values), LEFT + 20, WIDTH - RIGHT - 20)
    return [scale(value) for value in values]


def _scale(low: float, high: float, begin: float, end: float) -> Scale:
    return lambda value: begin + (value - low) / (high - low) * (end - begin)


def _ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers from below `low` to above `high`."""
    if high <= low:
        reach = abs(low) * 0.1 or 1.0
        low, high = low - reach, high + reach
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough * 0.999)
    first = math.floor(low / step + 1e-9)
    last = math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _known(*values: float) -> list[float]:
    return [value for value in values if math.isfinite(value)]
