"""Who is ready in each round, and how old the model is that they trained on."""

from __future__ import annotations

import math

import numpy as np

from .curves import against_round
from .figure import Figure, Section, Trace, View, axes, drawn, line, numbers
from .study import Series, Study, column
from .words import percent

MOST_BINS = 12


def timing_section(study: Study, points: int) -> Section:
    figures = [
        _against_round(
            study,
            points,
            "ready",
            "Ready devices",
            "Devices whose contribution the server received in that round. A periodic method starts with everybody in "
            "step and settles after a few rounds.",
        ),
        staleness_figure(study),
        _against_round(
            study,
            points,
            "staleness_mean",
            "Mean staleness (rounds)",
            "How many rounds old the model was from which the contributions started, averaged over each round.",
        ),
        _against_round(
            study, points, "staleness_max", "Largest staleness (rounds)", "The oldest contribution of each round."
        ),
        _against_round(
            study,
            points,
            "lost",
            "Lost updates",
            "Contributions that faults took away, or that were held back because they were too stale.",
        ),
        _against_round(
            study,
            points,
            "silent",
            "Silent devices",
            "Devices that were ready but did not transmit: a guard held their update back, or their channel was too weak.",
        ),
    ]
    return Section(
        id="timing",
        title="Ready devices and staleness",
        intro="Staleness counts the global models that were made while a device was still training: 0 means that it "
        "started from the newest one.",
        figures=[figure for figure in figures if figure],
    )


def staleness_figure(study: Study, run: int | None = None) -> Figure | None:
    """The share of contributions at each staleness, of all runs or of one of them, always in the same bins."""
    values = {series.index: _staleness(series) for series in drawn(study)}
    largest = max((int(found.max()) for found in values.values() if len(found)), default=None)
    if largest is None:
        return None
    bins = staleness_bins(largest)
    shares = {index: _shares(found, bins) for index, found in values.items() if len(found)}
    highest = max(float(share.max()) for share in shares.values())
    shown = [series for series in drawn(study) if series.index in shares and (run is None or series.run == run)]
    if not shown:
        return None
    names = [_bin_name(first, last) for first, last in bins]
    traces: list[Trace] = [
        {"type": "bar", "series": series.index, "x": names, "y": numbers(shares[series.index], 4)} for series in shown
    ]
    fresh = ", ".join(f"{series.name} {percent(float(shares[series.index][0]), 0)}" for series in shown)
    return Figure(
        id="staleness" if run is None else f"run-{run}-staleness",
        title="Staleness of the contributions" if run is None else f"{study.runs[run].name}: staleness",
        caption="Share of all contributions, over all rounds and seeds, at each staleness.",
        alt=f"Bar chart of the share of contributions at each staleness. At {names[0]}: {fresh}.",
        views={
            "all": View(
                traces=traces,
                layout=axes("staleness in rounds", y_format=".0%", y_hover=".1%", y_range=(0, min(1.05, 1.1 * highest)))
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


def _against_round(study: Study, points: int, name: str, title: str, caption: str) -> Figure | None:
    read = [(series, against_round(series.metrics, name, points)) for series in drawn(study)]
    # Round 0 is the initial model: nobody has sent anything yet.
    curves = [(series, curve.at(curve.x > 0)) for series, curve in read if curve is not None and (curve.x > 0).any()]
    if not curves:
        return None
    means = ", ".join(f"{series.name} {np.mean(curve.middle):.3g}" for series, curve in curves)
    return Figure(
        id=name.replace("_", "-"),
        title=title,
        caption=caption,
        alt=f"Line chart of {title.lower()} against rounds. On average: {means}.",
        views={
            "all": View(
                traces=[line(series.index, curve) for series, curve in curves],
                layout=axes("round", y_hover=".3~f", from_zero=True),
                columns=("round", title.lower()),
            )
        },
    )


def _staleness(series: Series) -> np.ndarray:
    values = column(series.devices, "staleness")
    known: np.ndarray = values[np.isfinite(values)]
    return known


def _shares(values: np.ndarray, bins: list[tuple[int, int]]) -> np.ndarray:
    edges = [first for first, _ in bins] + [bins[-1][1] + 1]
    shares: np.ndarray = np.histogram(values, bins=edges)[0] / len(values)
    return shares


def _bin_name(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"
