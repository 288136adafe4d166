"""Who is heard and who is served: how often each device takes part, what it weighs, how well the model does for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.formatting import SHARE_TICKS, percent
from ...pages.curves import Curve, column, thinned
from ...pages.figure import Figure, Trace, View, axes, level, line, line_chart, numbers, together
from ...pages.page import Section
from .device_scores import served_figures
from .study import Entry, Study
from .timing import bin_name, staleness_bins


def participation_section(study: Study, points: int) -> Section:
    """How often each device is heard and how much it weighs, by rank and by staleness."""
    figures = [
        _ranked(
            study,
            points,
            _times_heard,
            id="participation",
            title="How often each device takes part",
            caption="Share of all aggregations in which a device took part, from the busiest device to the idlest "
            "(mean over the seeds at each rank).",
            share=True,
        ),
        _ranked(
            study,
            points,
            _total_weight,
            id="influence",
            title="Total weight of each device",
            caption="Sum of a device's weights over the run, from the most to the least influential; 1 is an equal "
            "share.",
            share=False,
        ),
        _by_staleness(
            study,
            "relative weight",
            _relative_weight,
            id="weight-by-staleness",
            title="Weight by staleness",
            caption="Weight of a contribution beside an equal share (1) of its round. Boxes: middle half and median; "
            "whiskers: 5 to 95 %.",
            reference=1.0,
        ),
        _by_staleness(
            study,
            "similarity",
            lambda entry: column(entry.devices, "similarity"),
            id="similarity-by-staleness",
            title="Similarity by staleness",
            caption="How well an update agrees with the global model's last step: 1 same direction, 0.5 "
            "unrelated, 0 opposite.",
        ),
    ]
    present = [*served_figures(study, points), *(figure for figure in figures if figure)]
    intro = (
        "Whom the model serves and whom it does not, whether some devices are hardly heard, and how the power control "
        "weighs late and early contributions."
        if present
        else "This run kept no records of single devices."
    )
    return Section(id="devices", title="Devices", intro=intro, figures=present)


def _ranked(
    study: Study, points: int, measure: Callable[[Entry, int], np.ndarray | None], *, share: bool, **words: Any
) -> Figure | None:
    """A measure of each device [K], sorted downwards: a `share` of the aggregations, or a weight beside an equal share."""
    traces, ends = [], []
    for entry in study.drawn:
        ranked = measure(entry, study.runs[entry.run].devices or 0) if len(column(entry.devices, "device")) else None
        if ranked is None or not np.isfinite(ranked).all():
            continue
        curve = Curve(x=np.arange(1, len(ranked) + 1, dtype=float), middle=ranked)
        traces.append(line(entry.index, thinned(curve, points)))
        shown = [percent(value) if share else f"{value:.3g}" for value in (ranked[0], ranked[-1])]
        ends.append(f"{entry.name} from {shown[0]} to {shown[1]}")
    if not traces:
        return None
    y_format, y_hover = (SHARE_TICKS, ".1%") if share else ("", ".3~f")
    layout = axes("device, by rank", y_format=y_format, y_hover=y_hover, from_zero=True)
    if not share:
        layout = together(layout, level(1.0, "equal share"))
    alt = f"{words['title'].lower()}, by rank of the devices. {'; '.join(ends)}."
    return line_chart({"all": (traces, layout)}, alt=alt, **words)


def _times_heard(entry: Entry, devices: int) -> np.ndarray:
    return _mean_ranking(entry, np.ones(len(entry.devices["device"])), devices)


def _total_weight(entry: Entry, devices: int) -> np.ndarray | None:
    weights = column(entry.devices, "weight")
    if not np.isfinite(weights).all():
        return None
    ranking = _mean_ranking(entry, weights, devices)
    # Every aggregation hands out a total weight of 1, so an equal share of all of them is 1/K each.
    return ranking * len(ranking)


def _mean_ranking(entry: Entry, amounts: np.ndarray, devices: int) -> np.ndarray:
    """Each device's sum of amounts per aggregation, sorted downwards, averaged over the seeds rank by rank."""
    ids = np.asarray(entry.devices["device"]).astype(int)
    count = max(devices, int(ids.max()) + 1)
    seeds = np.asarray(entry.devices["seed"])
    rankings = []
    for seed in np.unique(seeds):
        own = seeds == seed
        events = len(np.unique(np.asarray(entry.devices["round"])[own]))
        rankings.append(np.sort(np.bincount(ids[own], amounts[own], minlength=count))[::-1] / events)
    ranking: np.ndarray = np.mean(rankings, axis=0)
    return ranking


def _relative_weight(entry: Entry) -> np.ndarray:
    """Weight times the number of contributions in the same aggregation: 1 for an equal share."""
    weights = column(entry.devices, "weight")
    keys = np.stack([np.asarray(entry.devices["seed"]), np.asarray(entry.devices["round"])]).astype(np.int64)
    _, event, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return weights * counts[event.ravel()]


def _by_staleness(
    study: Study, y_name: str, measure: Callable[[Entry], np.ndarray], *, reference: float | None = None, **words: Any
) -> Figure | None:
    """Boxes of a measure of each contribution, at each staleness."""
    known = [entry for entry in study.drawn if len(column(entry.devices, "staleness"))]
    staleness = {entry.index: column(entry.devices, "staleness") for entry in known}
    largest = max((int(np.nanmax(values)) for values in staleness.values() if np.isfinite(values).any()), default=0)
    traces = []
    for entry in known:
        found = _boxes(staleness[entry.index], measure(entry), staleness_bins(largest))
        if found:
            traces.append({"type": "box", "series": entry.index, "hoverinfo": "y+name"} | found)
    if not traces:
        return None
    boxes = {"boxmode": "group", "hovermode": "closest"}
    layout = axes("staleness in rounds", y_hover=".3~f", category=True) | boxes
    if reference is not None:
        layout = together(layout, level(reference))
    view = View(traces=traces, layout=layout, columns=("staleness", f"{y_name}, median"))
    return Figure(alt=f"Box plot of {y_name} at each staleness.", views={"all": view}, **words)


def _boxes(staleness: np.ndarray, values: np.ndarray, bins: list[tuple[int, int]]) -> Trace:
    """Plotly's ready-made boxes: five quantiles in each staleness bin that has values."""
    names, quantiles = [], []
    for first, last in bins:
        inside = values[(staleness >= first) & (staleness <= last) & np.isfinite(values)]
        if len(inside):
            names.append(bin_name(first, last))
            quantiles.append(np.quantile(inside, [0.05, 0.25, 0.5, 0.75, 0.95]))
    if not names:
        return {}
    keys = ("lowerfence", "q1", "median", "q3", "upperfence")
    return {"x": names} | {key: numbers(part) for key, part in zip(keys, np.transpose(quantiles), strict=True)}
