"""Figures of the ready devices in each round, the staleness of their updates, and the device timeline."""

from __future__ import annotations

import math

import numpy as np

from ...base.formatting import SHARE_TICKS
from ...pages.curves import column
from ...pages.figure import Figure, Trace, View, axes, numbers
from ...pages.page import Section
from ...pages.timeline import MOST_TIMELINES, stretch_of, timeline_figure
from .metrics import metric_figures
from .study import Entry, Study

MOST_BINS = 12


def timing_section(study: Study, points: int) -> Section:
    """Return the section of staleness, ready devices and lost updates."""
    staleness = staleness_figure(study)
    return Section(
        id="timing",
        title="Ready devices and staleness",
        intro="Staleness counts the global models that the server made while a device was training: 0 means that the "
        "device started from the newest one.",
        figures=[*([staleness] if staleness else []), *metric_figures(study, points, "timing")],
        unfolded=1,
    )


def timeline_section(study: Study) -> Section:
    """Return the section that shows the beginning of the run device by device, one algorithm at a time."""
    recorded = [entry for entry in study.drawn if len(column(entry.devices, "time_s"))]
    first = {entry.index: min(entry.trajectories, key=lambda run: run.seed) for entry in recorded}
    found = [(entry, stretch_of(first[entry.index].devices)) for entry in recorded[:MOST_TIMELINES]]
    stretches = {str(entry.index): (entry.name, stretch) for entry, stretch in found if stretch is not None}
    if not stretches:
        empty = "This run kept no records of single devices, so there is no timeline to draw."
        return Section(id="timeline", title="Device timeline", intro=empty)
    seed = first[int(next(iter(stretches)))].seed
    some = f" Of {len(recorded)} timelines the first {MOST_TIMELINES} are kept." if len(recorded) > len(found) else ""
    return Section(
        id="timeline",
        title="Device timeline",
        intro=f"The recorded beginning of the run, for the first devices that take part (seed {seed}).{some}",
        figures=[timeline_figure(stretches)],
    )


def staleness_figure(study: Study) -> Figure | None:
    """Return the share of contributions at each staleness, or None if none is stale or recorded."""
    values = {entry.index: _staleness(entry) for entry in study.drawn}
    largest = max((int(found.max()) for found in values.values() if len(found)), default=0)
    if not largest:
        return None
    bins = staleness_bins(largest)
    edges = [first for first, _ in bins] + [bins[-1][1] + 1]
    shares = {index: np.histogram(found, bins=edges)[0] / len(found) for index, found in values.items() if len(found)}
    names = [bin_name(first, last) for first, last in bins]
    traces: list[Trace] = [
        {"type": "bar", "series": index, "x": names, "y": numbers(share, 4)} for index, share in shares.items()
    ]
    y_range = (0, min(1.05, 1.1 * max(float(share.max()) for share in shares.values())))
    layout = axes("staleness in rounds", y_format=SHARE_TICKS, y_hover=".1%", y_range=y_range, category=True)
    return Figure(
        id="staleness",
        title="Staleness of the contributions",
        caption="Share of all contributions, over all rounds and seeds, at each staleness.",
        views={
            "all": View(
                traces=traces,
                layout=layout | {"barmode": "group", "bargap": 0.2},
                columns=("staleness", "share of contributions"),
            )
        },
    )


def staleness_bins(largest: int) -> list[tuple[int, int]]:
    """Return (first, last) of at most `MOST_BINS` equally wide bins from 0 to the largest staleness."""
    width = math.ceil((largest + 1) / MOST_BINS)
    return [(first, first + width - 1) for first in range(0, largest + 1, width)]


def bin_name(first: int, last: int) -> str:
    """Return `3`, or `4–7` for a wider bin."""
    return str(first) if first == last else f"{first}–{last}"


def _staleness(entry: Entry) -> np.ndarray:
    values = column(entry.devices, "staleness")
    known: np.ndarray = values[np.isfinite(values)]
    return known
