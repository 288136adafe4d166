"""Columns of the metrics against rounds, one figure each."""

from __future__ import annotations

from ...base.columns import Column
from ...base.formatting import SHARE_TICKS, quantity
from ...pages.figure import Figure, axes, level, line, line_chart, log_ticks, together
from .learning import READERS, X_TITLES
from .study import Study


def quantity_figure(
    study: Study, points: int, shown: Column, *, axis: str = "rounds", height_px: int = 300
) -> Figure | None:
    """The quantity of each entry against rounds or seconds, in at most so many points; None if no entry has it."""
    read = [(entry, READERS[axis](entry.metrics, shown.name, points)) for entry in study.drawn]
    # Round 0 is the initial model: nobody has sent anything yet.
    curves = [(entry, curve.at(curve.x > 0)) for entry, curve in read if curve is not None and (curve.x > 0).any()]
    if not curves:
        return None
    # A logarithmic axis needs something positive to show (an ideal channel has no noise at all).
    log = shown.log and any((curve.middle > 0).any() for _, curve in curves)
    small = log or max(float(curve.middle.max()) for _, curve in curves) < 1
    layout = axes(
        X_TITLES[axis],
        y_format=SHARE_TICKS if shown.share else "",
        y_hover=".1%" if shown.share else ".3g" if small else ".3~f",
        log=log,
        y_range=(0, 1.02) if shown.share else None,
        from_zero=not log,
    )
    limits = sorted({limit for run in study.runs for limit in run.power_limits_w}) if shown.beside_power_limit else []
    if log:
        seen = [value for _, curve in curves for value in curve.middle[curve.middle > 0]] + limits
        layout["yaxis"] |= log_ticks(min(seen), max(seen))
    layout = together(layout, *(level(limit, f"P_max {quantity(limit)} W", log=log) for limit in limits))
    last = ", ".join(f"{entry.name} {curve.middle[-1]:.3g}" for entry, curve in curves)
    return line_chart(
        {"all": ([line(entry.index, curve, positive=log) for entry, curve in curves], layout)},
        id=shown.name.replace("_", "-"),
        title=shown.title,
        caption=shown.meaning,
        alt=f"{shown.title} against {axis}. At the end: {last}.",
        height_px=height_px,
    )
