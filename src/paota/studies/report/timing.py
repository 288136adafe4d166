"""Who is ready in each round, and how old the model is that they trained on."""

from __future__ import annotations

import math

import numpy as np

from ...base.columns import drawn_in
from ...base.formatting import SHARE_TICKS, percent
from ...pages.curves import column
from ...pages.figure import Figure, Trace, View, axes, numbers
from ...pages.page import Section
from ...pages.timeline import MOST_TIMELINES, Stretch, stretch_of, timeline_figure
from .quantity import quantity_figure
from .study import Entry, Study

MOST_BINS = 12


def timing_section(study: Study, points: int) -> Section:
    """Ready devices, staleness and what was lost, round by round."""
    ready, *others = (quantity_figure(study, points, shown) for shown in drawn_in("timing"))
    return Section(
        id="timing",
        title="Ready devices and staleness",
        intro="Staleness counts the global models that were made while a device was still training: 0 means that it "
        "started from the newest one.",
        figures=[figure for figure in (ready, staleness_figure(study), *others) if figure],
    )


def timeline_section(study: Study) -> Section:
    """The beginning of the run device by device, one algorithm at a time."""
    recorded = [entry for entry in study.drawn if len(column(entry.devices, "time_s"))]
    found = [(entry, _first_seed_stretch(entry)) for entry in recorded[:MOST_TIMELINES]]
    stretches = {str(entry.index): (entry, stretch) for entry, stretch in found if stretch is not None}
    if not stretches:
        empty = "This run kept no records of single devices, so there is no timeline to draw."
        return Section(id="timeline", title="Device timeline", intro=empty)
    seed = int(next(iter(stretches.values()))[0].devices["seed"].min())
    some = (
        f" Of {len(recorded)} timelines the first {MOST_TIMELINES} are kept." if len(recorded) > MOST_TIMELINES else ""
    )
    return Section(
        id="timeline",
        title="Device timeline",
        intro=f"The beginning of the run as it really went, for the first devices that take part (seed {seed}).{some}",
        figures=[timeline_figure({key: (entry.name, stretch) for key, (entry, stretch) in stretches.items()})],
    )


def _first_seed_stretch(entry: Entry) -> Stretch | None:
    seeds = np.asarray(entry.devices["seed"])
    own = seeds == seeds.min()
    return stretch_of({name: np.asarray(values)[own] for name, values in entry.devices.items() if name != "label"})


def staleness_figure(study: Study, run: int | None = None) -> Figure | None:
    """The share of contributions at each staleness, of all runs or of one of them, always in the same bins."""
    values = {entry.index: _staleness(entry) for entry in study.drawn}
    largest = max((int(found.max()) for found in values.values() if len(found)), default=None)
    if largest is None:
        return None
    bins = staleness_bins(largest)
    shares = {index: _shares(found, bins) for index, found in values.items() if len(found)}
    highest = max(float(share.max()) for share in shares.values())
    shown = [entry for entry in study.drawn if entry.index in shares and (run is None or entry.run == run)]
    if not shown:
        return None
    names = [bin_name(first, last) for first, last in bins]
    traces: list[Trace] = [
        {"type": "bar", "series": entry.index, "x": names, "y": numbers(shares[entry.index], 4)} for entry in shown
    ]
    fresh = ", ".join(f"{entry.name} {percent(float(shares[entry.index][0]), 0)}" for entry in shown)
    return Figure(
        id="staleness" if run is None else f"run-{run}-staleness",
        title="Staleness of the contributions" if run is None else f"{study.runs[run].name}: staleness",
        caption="Share of all contributions, over all rounds and seeds, at each staleness.",
        alt=f"Bar chart of the share of contributions at each staleness. At {names[0]}: {fresh}.",
        views={
            "all": View(
                traces=traces,
                layout=axes(
                    "staleness in rounds", y_format=SHARE_TICKS, y_hover=".1%", y_range=(0, min(1.05, 1.1 * highest))
                )
                | {"barmode": "group", "bargap": 0.2},
                columns=("staleness", "share of contributions"),
            )
        },
        height_px=300 if run is None else 240,
    )


def staleness_bins(largest: int) -> list[tuple[int, int]]:
    """(first, last) of at most `MOST_BINS` equally wide bins from 0 to the largest staleness."""
    width = math.ceil((largest + 1) / MOST_BINS)
    return [(first, first + width - 1) for first in range(0, largest + 1, width)]


def _staleness(entry: Entry) -> np.ndarray:
    values = column(entry.devices, "staleness")
    known: np.ndarray = values[np.isfinite(values)]
    return known


def _shares(values: np.ndarray, bins: list[tuple[int, int]]) -> np.ndarray:
    edges = [first for first, _ in bins] + [bins[-1][1] + 1]
    shares: np.ndarray = np.histogram(values, bins=edges)[0] / len(values)
    return shares


def bin_name(first: int, last: int) -> str:
    """`3`, or `4–7` for a wider bin."""
    return str(first) if first == last else f"{first}–{last}"
