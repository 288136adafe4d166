"""Figures of single devices: their participation and weight, and the model's score on their own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np

from ...base.files import Columns
from ...base.formatting import SHARE_TICKS, sentences
from ...pages.curves import Curve, column, thinned
from ...pages.figure import Figure, FigureOptions, Layout, Trace, View, axes, level, line, line_chart, numbers, together
from ...pages.page import Section
from ...results.device_scores import by_device
from .study import Entry, Study
from .timing import bin_name, staleness_bins

MOST_DOTS = 150  # of one algorithm
FEWEST_DEVICES = 3  # for a correlation
AGAINST = {  # column: title, axis, whether the axis is a share, logarithmic
    "participation": ("participation", "share of the aggregations with the device", True, False),
    "staleness_mean": ("staleness", "mean staleness in rounds", False, False),
    "channel_gain_mean": ("channel gain", "mean channel gain |h|²", False, True),
}
# The value of each contribution of an entry, and the value [K] of each device in one seed.
Contributions = Callable[[Entry], np.ndarray]
Amounts = Callable[[Columns], np.ndarray]


def devices_section(study: Study, points: int) -> Section | None:
    """Return the section of scores, participation and weights of devices, or None without their records."""
    tables = {
        entry.index: [by_device(run.metrics, run.devices, run.device_scores) for run in entry.trajectories]
        for entry in study.drawn
    }
    scored = {index: found for index, found in tables.items() if any(np.isfinite(t["accuracy"]).any() for t in found)}
    entries = [entry for entry in study.drawn if len(column(entry.devices, "device"))]
    recorded = {entry.index: tables[entry.index] for entry in entries}
    weighted = {
        entry.index: tables[entry.index] for entry in entries if np.isfinite(column(entry.devices, "weight")).all()
    }
    score = study.score
    ticks, exact = score.formats
    figures = [
        _ranked(
            scored,
            points,
            lambda table: table["accuracy"],
            axes("device, from best to worst", y_format=ticks, y_hover=exact),
            id="own-ranked",
            title=f"{score.name[:1].upper() + score.name[1:]} on each device's own data",
            caption=f"The {score.name} of the final model on test samples, weighted by the device's own shares of the "
            "labels (mean over the seeds at each rank).",
        ),
        *(_against(study, scored, name) for name in AGAINST),
        _ranked(
            recorded,
            points,
            lambda table: table["participation"],
            axes("device, by rank", y_format=SHARE_TICKS, y_hover=".1%", from_zero=True),
            id="participation",
            title="Participation of each device",
            caption="Share of all aggregations in which a device took part (mean over the seeds at each rank).",
        ),
        _ranked(
            weighted,
            points,
            lambda table: table["weight"],
            together(axes("device, by rank", y_hover=".3~f", from_zero=True), level(1.0, "equal share")),
            id="influence",
            title="Total weight of each device",
            caption="Sum of a device's weights over the run, beside an equal share (1).",
        ),
        _by_staleness(
            study,
            _relative_weight,
            level(1.0),
            id="weight-by-staleness",
            title="Relative weight by staleness",
            caption="Weight of a contribution beside an equal share (1) of its round. Boxes: quartiles and median; "
            "whiskers: 5 to 95 %.",
        ),
        _by_staleness(
            study,
            lambda entry: column(entry.devices, "similarity"),
            {},
            id="similarity-by-staleness",
            title="Similarity by staleness",
            caption="Agreement of an update with the global model's last step: 1 same direction, 0.5 unrelated, 0 opposite.",
        ),
    ]
    present = [figure for figure in figures if figure]
    if not present:
        return None
    intro = (
        "Score on each device's own data, participation of each device, and weights of fresh and stale contributions."
    )
    return Section(id="devices", title="Devices", intro=intro, figures=present, unfolded=1)


def _ranked(
    tables: dict[int, list[Columns]], points: int, measure: Amounts, layout: Layout, **options: Unpack[FigureOptions]
) -> Figure | None:
    """Return a measure of each device in descending order, the mean over the seeds at each rank."""
    traces: list[Trace] = []
    for index, seeds in tables.items():
        known = [values[np.isfinite(values)] for values in map(measure, seeds)]
        ranks = [np.sort(values)[::-1] for values in known if len(values)]
        if ranks:
            ranked = np.mean([each[: min(map(len, ranks))] for each in ranks], axis=0)
            curve = Curve(x=np.arange(1, len(ranked) + 1.0), middle=ranked)
            traces.append(line(index, thinned(curve, points)))
    return line_chart({"all": (traces, layout)}, **options) if traces else None


def _against(study: Study, tables: dict[int, list[Columns]], name: str) -> Figure | None:
    """Return the devices' scores against a column of `by_device`, a dot for each device of the first seed."""
    title, x_title, share, log = AGAINST[name]
    traces: list[Trace] = []
    said, alike = [], []
    for index, (table, *_) in tables.items():
        x, y = table[name], table["accuracy"]
        known = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log))
        if not known.any():
            continue
        x, y = x[known], y[known]
        if np.ptp(x) == 0:  # a column of dots shows nothing
            alike.append(study.entries[index].name)
            continue
        chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_DOTS)).astype(int))
        dots = {"type": "scatter", "mode": "markers", "series": index, "marker": {"size": 6, "opacity": 0.65}}
        traces.append(dots | {"x": numbers(x[chosen], 4), "y": numbers(y[chosen], 4)})
        if len(x) >= FEWEST_DEVICES and np.ptp(y) > 0:
            said.append(f"{study.entries[index].name} {rank_correlation(x, y):+.2f}")
    if not traces:
        return None
    ticks, exact = study.score.formats
    layout = axes(x_title, y_format=ticks, y_hover=exact, x_log=log) | {"hovermode": "closest"}
    if share:
        layout["xaxis"]["tickformat"] = SHARE_TICKS
    correlations = f"Rank correlation: {', '.join(said)}." if said else ""
    left_out = f"Left out, the same for all devices: {', '.join(alike)}." if alike else ""
    return line_chart(
        {"all": (traces, layout)},
        id=f"own-{name.split('_')[0]}",
        title=f"Own {study.score.name} against {title}",
        y_name=f"own {study.score.name}",
        caption=sentences(["A dot for each device, of the first seed.", correlations, left_out]),
    )


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return Spearman's correlation of x and y [n]; equal values share their mean rank."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[inverse]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def _relative_weight(entry: Entry) -> np.ndarray:
    """Return weight times number of contributions in the same aggregation: 1 for an equal share."""
    weights = column(entry.devices, "weight")
    keys = np.stack([np.asarray(entry.devices["seed"]), np.asarray(entry.devices["round"])]).astype(np.int64)
    _, event, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    return weights * counts[event.ravel()]


def _by_staleness(
    study: Study, measure: Contributions, reference: Layout, **options: Unpack[FigureOptions]
) -> Figure | None:
    """Return boxes of a measure of each contribution at each staleness."""
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
    layout = axes("staleness in rounds", y_hover=".3~f", category=True) | {"boxmode": "group", "hovermode": "closest"}
    view = View(traces=traces, layout=together(layout, reference), columns=("staleness", "median"))
    return Figure(views={"all": view}, **options)


def _boxes(staleness: np.ndarray, values: np.ndarray, bins: Sequence[tuple[int, int]]) -> Trace:
    """Return Plotly's precomputed boxes: five quantiles in each staleness bin that has values."""
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
