"""Figures of the columns that the table of columns assigns to a section: timing, power and privacy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import Markup

from ...air.privacy import DELTA
from ...base.columns import Column, drawn_in, metric, own_names
from ...base.formatting import SHARE_TICKS, listing, quantity
from ...pages.curves import column
from ...pages.figure import Figure, axes, is_constant, last_values, level, line, line_chart, together
from ...pages.page import Section, Table, TableCell, TableRow
from .learning import READERS, X_TITLES
from .study import Entry, Study

# An algorithm without any of these columns does not use the air.
ON_AIR = ("amplitude_sum", "noise_std", "transmit_power_w_mean", "transmit_power_w_max")


def metric_figure(
    study: Study, points: int, shown: Column, *, axis: str = "rounds", height_px: int = 300
) -> Figure | None:
    """Return the figure of a column, or None if no entry has it.

    Args:
        study: the entries to draw.
        points: the largest number of points of a curve.
        shown: the column.
        axis: "rounds" or "seconds".
        height_px: of the figure.
    """
    read = [(entry, READERS[axis](entry.metrics, shown.name, points)) for entry in study.drawn]
    # Round 0 is the initial model, before any transmission.
    curves = [(entry, curve.at(curve.x > 0)) for entry, curve in read if curve is not None and (curve.x > 0).any()]
    if not curves:
        return None
    # A logarithmic axis needs a positive value; an ideal channel has no noise.
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
    limits = set().union(*(run.power_limits_w for run in study.runs)) if shown.beside_power_limit else ()
    return line_chart(
        {
            "all": (
                [line(entry.index, curve, positive=log) for entry, curve in curves],
                together(layout, *(level(limit, f"P_max {quantity(limit)} W", log=log) for limit in sorted(limits))),
            )
        },
        id=shown.name.replace("_", "-"),
        title=shown.title,
        caption=shown.meaning,
        height_px=height_px,
    )


def metric_figures(study: Study, points: int, section: str, height_px: int = 300) -> list[Figure]:
    """Return the figures of all columns that belong to a section of the report."""
    made = [metric_figure(study, points, shown, height_px=height_px) for shown in drawn_in(section)]
    return [figure for figure in made if figure]


def own_section(study: Study, points: int) -> Section | None:
    """Return the figures of metrics of the user's own."""
    names = dict.fromkeys(
        name for entry in study.drawn for run in entry.trajectories for name in own_names(run.metrics)
    )
    figures = [made for name in names if (made := metric_figure(study, points, metric(name)))]
    intro = "Metrics that an algorithm or a callback of your own added."
    return Section(id="own", title="Own metrics", intro=intro, figures=figures) if figures else None


def without_constants(section: Section | None, study: Study) -> Section | None:
    """Return the section with a sentence in place of the figures in which each series has one value only."""
    if section is None:
        return None
    legend = [entry.style for entry in study.drawn]
    said = [f"{figure.title} ({last_values(figure, legend)})" for figure in section.figures if is_constant(figure)]
    if not said:
        return section
    figures = [figure for figure in section.figures if not is_constant(figure)]
    return replace(section, figures=figures, intro=section.intro + f" Constant, so not drawn: {'; '.join(said)}.")


def power_section(study: Study, points: int) -> Section:
    """Return the section of amplitudes, noise and transmit power of the algorithms that use the air."""
    silent = [
        entry.name
        for entry in study.drawn
        if all(not np.isfinite(column(entry.metrics, name)).any() for name in ON_AIR)
    ]
    figures = metric_figures(study, points, "power", height_px=260)
    section = Section(id="power", title="Power and noise", intro="", figures=figures, unfolded=1)
    if len(silent) == len(study.drawn) or not figures:
        return replace(section, figures=(), intro="No algorithm of this report sends over the air.")
    note = Markup(" Not on the air, and so without power and noise: {}.").format(listing(silent)) if silent else ""
    return replace(section, intro="The signals of the devices and the noise at the server, round by round." + note)


def privacy_section(study: Study, points: int) -> Section | None:
    """Return the section of the largest privacy loss of a device, or None where updates were not clipped."""
    accounted = [entry for entry in study.entries if np.isfinite(column(entry.metrics, "rho_max")).any()]
    if not accounted:
        return None
    shown = [
        noise
        for noise in drawn_in("privacy")
        if any(np.isfinite(column(entry.metrics, noise.name)).any() for entry in accounted)
    ]
    names = [name for noise in shown for name in (noise.name.replace("epsilon", "rho"), noise.name)]
    table = Table(
        label="Privacy loss",
        heads=["Algorithm", *(head for _ in shown for head in ("rho", f"epsilon at {DELTA:g}"))],
        groups=[(noise.title.partition(", ")[2], 2) for noise in shown],
        rows=[
            TableRow(
                head=TableCell(text=entry.name), cells=[_largest(entry, name) for name in names], series=entry.index
            )
            for entry in accounted
        ],
    )
    return Section(
        id="privacy",
        title="Privacy",
        intro="The largest privacy loss of a device against the server, or anyone who receives the same signal. Updates "
        "were clipped, so that noise hides something. Devices are trusted to clip; amplitudes, norms and the choice of "
        "devices count as public.",
        tables=[table],
        figures=metric_figures(study, points, "privacy"),
    )


def _largest(entry: Entry, name: str) -> TableCell:
    """Return the largest value over all seeds, because a guarantee holds for every run."""
    values = column(entry.metrics, name)
    if not np.isfinite(values).any():
        return TableCell(text="–", muted=True)
    return TableCell(text=f"{np.nanmax(values):.3g}")
