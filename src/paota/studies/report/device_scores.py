"""Whom the final model serves: its score on each device's own kind of data, and what goes with it."""

from __future__ import annotations

import numpy as np

from ...base.formatting import SHARE_TICKS, sentences
from ...pages.curves import Curve, Rows, thinned
from ...pages.figure import Figure, Trace, axes, line, line_chart, log_ticks, numbers
from ...results.device_scores import by_device
from .study import Entry, Study

MOST_DOTS = 150  # of one algorithm
FEWEST_DEVICES = 3  # for a correlation
AGAINST = {  # column: title, axis, whether the axis is a share, logarithmic
    "participation": ("how often it is heard", "share of the aggregations with the device", True, False),
    "staleness_mean": ("how stale it is", "mean staleness in rounds", False, False),
    "channel_gain_mean": ("its channel", "mean channel gain |h|²", False, True),
}


def served_figures(study: Study, points: int) -> list[Figure]:
    """The score on the devices' own data, from best to worst, and against participation, staleness and channel."""
    tables = {entry.index: _tables(entry) for entry in study.drawn}
    known = {index: found for index, found in tables.items() if any(np.isfinite(t["accuracy"]).any() for t in found)}
    if not known:
        return []
    made = [_ranked(study, known, points), *(_against(study, known, column) for column in AGAINST)]
    return [figure for figure in made if figure]


def _tables(entry: Entry) -> list[Rows]:
    """`by_device` of each seed."""
    found = []
    for seed in entry.seeds:
        parts = [
            {name: values[table["seed"] == seed] for name, values in table.items()} if "seed" in table else {}
            for table in (entry.metrics, entry.devices, entry.scores)
        ]
        found.append(by_device(*parts))
    return found


def _ranked(study: Study, tables: dict[int, list[Rows]], points: int) -> Figure:
    score = study.score
    traces: list[Trace] = []
    ends = []
    for index, seeds in tables.items():
        ranks = [
            np.sort(known)[::-1] for table in seeds if len(known := table["accuracy"][np.isfinite(table["accuracy"])])
        ]
        ranked = np.mean([each[: min(map(len, ranks))] for each in ranks], axis=0)
        traces.append(line(index, thinned(Curve(x=np.arange(1, len(ranked) + 1.0), middle=ranked), points)))
        ends.append(f"{study.entries[index].name} from {score.show(ranked[0])} to {score.show(ranked[-1])}")
    ticks, exact = score.formats
    layout = axes("device, from best to worst served", y_format=ticks, y_hover=exact)
    title = f"{score.name[:1].upper() + score.name[1:]} on each device's own data"
    return line_chart(
        {"all": (traces, layout)},
        id="own-ranked",
        title=title,
        caption=f"{score.name[:1].upper() + score.name[1:]} of the final model on test samples, every label counting as "
        "often as among the device's own samples (mean over the seeds at each rank).",
        alt=f"{title}, by rank. {'; '.join(ends)}.",
    )


def _against(study: Study, tables: dict[int, list[Rows]], column: str) -> Figure | None:
    """A dot for each device, of the first seed."""
    title, x_title, share, log = AGAINST[column]
    traces: list[Trace] = []
    said, seen, alike = [], [], []
    for index, (table, *_) in tables.items():
        x, y = table[column], table["accuracy"]
        known = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not log))
        if not known.any():
            continue
        x, y = x[known], y[known]
        if np.ptp(x) == 0:  # a column of dots says nothing
            alike.append(study.entries[index].name)
            continue
        chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_DOTS)).astype(int))
        dots = {"type": "scatter", "mode": "markers", "series": index, "marker": {"size": 6, "opacity": 0.65}}
        traces.append(dots | {"x": numbers(x[chosen], 4), "y": numbers(y[chosen], 4)})
        seen += [float(x.min()), float(x.max())]
        if len(x) >= FEWEST_DEVICES and np.ptp(y) > 0:
            said.append(f"{study.entries[index].name} {rank_correlation(x, y):+.2f}")
    if not traces:
        return None
    ticks, exact = study.score.formats
    layout = axes(x_title, y_format=ticks, y_hover=exact, x_log=log) | {"hovermode": "closest"}
    if share:
        layout["xaxis"]["tickformat"] = SHARE_TICKS
    if log:
        layout["xaxis"] |= log_ticks(min(seen), max(seen))
    correlations = f"Rank correlation: {', '.join(said)}." if said else ""
    left_out = f"Left out, the same for all devices: {', '.join(alike)}." if alike else ""
    return line_chart(
        {"all": (traces, layout)},
        id=f"own-{column.split('_')[0]}",
        title=f"Own {study.score.name} against {title}",
        y_name=f"own {study.score.name}",
        caption=sentences(["A dot for each device, of the first seed.", correlations, left_out]),
        alt=f"the {study.score.name} on each device's own data against {title}. {correlations}",
    )


def rank_correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks of x and y [n], equal values sharing their mean rank."""

    def ranks(values: np.ndarray) -> np.ndarray:
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[inverse]

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])
