"""Two axes as a heat map: an HTML table whose cells are coloured and say their number: nobody needs the colour."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..sweeps.grid import show
from ..sweeps.outcome import Row, Sweep, best_row
from . import markup


def heat_maps(sweep: Sweep, label: str) -> str:
    """The first two axes across each other; one map for each combination of the others."""
    down, across, *others = sweep.axes
    rows = sweep.of(label)
    best = best_row(rows, sweep.best_by)
    shades = _shades(sweep, rows)
    found = {_frozen(row.values): row for row in rows}
    maps = []
    for rest in itertools.product(*(axis.values for axis in others)):
        named = ", ".join(f"{axis.key} = {show(value)}" for axis, value in zip(others, rest, strict=True))
        body = "".join(
            f'<tr><th scope="row">{markup.text(show(y))}</th>'
            + "".join(_cell(sweep, found.get(_frozen((y, x, *rest))), best, shades) for x in across.values)
            + "</tr>"
            for y in down.values
        )
        heads = "".join(f'<th scope="col">{markup.text(show(x))}</th>' for x in across.values)
        caption = f"<caption>{markup.text(named)}</caption>" if named else ""
        spoken = markup.text(f"{label} {named}")
        maps.append(
            f'<div class="table-box heat-box" role="region" tabindex="0" aria-label="{spoken}">'
            f'<table class="heat">{caption}<thead><tr><td></td><th scope="colgroup" class="axis" '
            f'colspan="{len(across.values)}">{markup.text(across.key)}</th></tr>'
            f'<tr><th scope="col" class="axis">{markup.text(down.key)}</th>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
    return "".join(maps)


def _cell(sweep: Sweep, row: Row | None, best: Row | None, shades: tuple[float, float]) -> str:
    if row is None:
        return '<td class="void" title="this point failed">failed</td>'
    score = row.scores[sweep.best_by.text]
    classes = ["best"] if row is best else []
    spread = f"{sweep.best_by.show(score.low)} to {sweep.best_by.show(score.high)}" if len(score.values) > 1 else ""
    note = f'<span class="diverged">{row.diverged} diverged</span>' if row.diverged else ""
    if sweep.best_by.kind.argument == "accuracy" and 0 < score.reached < len(score.values):
        note += f'<span class="spread">{score.reached} of {len(score.values)} seeds</span>'
    style = ""
    share = _share(score.median, shades)
    if share is None:
        classes.append("void")
    else:
        style = f' style="--share:{share:.3f}"'
    title = f' title="{markup.text(f"middle half of the seeds: {spread}")}"' if spread else ""
    named = f' class="{" ".join(classes)}"' if classes else ""
    star = '<span class="star" aria-label="best">★</span> ' if row is best else ""
    return f"<td{named}{style}{title}>{star}{markup.text(sweep.best_by.show(score.median))}{note}</td>"


def _shades(sweep: Sweep, rows: Sequence[Row]) -> tuple[float, float]:
    """(the value that gets no colour, the one that gets all of it): deep is good."""
    medians = [row.scores[sweep.best_by.text].median for row in rows]
    known = [value for value in medians if math.isfinite(value)] or [0.0]
    return (max(known), min(known)) if sweep.best_by.kind.smaller_is_better else (min(known), max(known))


def _share(value: float, shades: tuple[float, float]) -> float | None:
    pale, deep = shades
    if not math.isfinite(value):
        return None
    return (value - pale) / (deep - pale) if deep != pale else 1.0


def _frozen(values: Sequence[Any]) -> tuple[Any, ...]:
    """Lists (as in model.hidden = [10, 10]) as something that can be looked up."""
    return tuple(repr(value) for value in values)
