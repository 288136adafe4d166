"""How well the model does, against rounds and against simulated seconds, and how soon it reaches each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .curves import Curve, against_round, against_time, against_total
from .figure import Figure, Layout, Section, Trace, View, axes, drawn, level, line, numbers, together
from .study import Series, Study, number
from .words import percent, quantity, target_percent

X_TITLES = {"rounds": "round", "seconds": "simulated seconds"}
READERS = {"rounds": against_round, "seconds": against_time}


def learning_section(study: Study, points: int) -> Section:
    figures = [
        _curves(
            study,
            points,
            "test_accuracy",
            "Test accuracy",
            "Share of the test images that the global model labels correctly. Dotted lines mark the targets.",
            wide=True,
        ),
        _curves(study, points, "test_loss", "Test loss", "Mean cross-entropy on the test set; lower is better."),
        _curves(
            study,
            points,
            "train_loss",
            "Training loss",
            "Loss on the devices' own training data; lower is better.",
        ),
    ]
    spread = any(len(series.seeds) > 1 for series in study.series)
    return Section(
        id="learning",
        title="Learning",
        intro="The line is the median over the seeds, the band holds the middle half of them. "
        * spread
        + "Counted in rounds a synchronous method looks better than it is, because its rounds wait for the slowest "
        "device; counted in simulated seconds every method pays for its waiting. "
        "Drag across a figure to look closer, double-click to go back.",
        figures=[figure for figure in figures if figure],
    )


def target_section(study: Study) -> Section:
    views = {
        axis: View(
            traces=[
                trace
                for series in drawn(study)
                if isinstance(series.summary.get(key), dict)
                for trace in _bars(series, study.targets, key)
            ],
            layout=_grouped(axes("test accuracy to reach", y_format=",", from_zero=True)),
            columns=("target", title),
        )
        for axis, key, title in (("rounds", "rounds_to", "rounds"), ("seconds", "seconds_to", "simulated seconds"))
    }
    if not study.targets or not any(view.traces for view in views.values()):
        return Section(id="targets", title="Time to target", intro="This run set no accuracy targets.")
    figure = Figure(
        id="targets",
        title="Rounds or simulated seconds to each target",
        caption="Median over the seeds; the whiskers span the middle half of them. A cross in place of a bar: "
        "too few seeds reached that accuracy for a median, or none.",
        alt="Bar chart of the time to each accuracy target. " + _targets_in_words(study),
        views=views,
        group="axis",
        height_px=340,
        wide=True,
    )
    return Section(
        id="targets",
        title="Time to target",
        intro="The first evaluated round, or the simulated second, at which the test accuracy reaches each target.",
        figures=[figure],
    )


def spending_section(study: Study, points: int) -> Section | None:
    """Accuracy against energy and airtime, for runs that recorded them."""
    figures = []
    for spent, title, unit in (("energy_j", "energy", "joules"), ("airtime_s", "airtime", "seconds")):
        curves = _read(study, against_total, spent, "test_accuracy", points)
        if not curves:
            continue
        figures.append(
            Figure(
                id=f"spent-{title}",
                title=f"Test accuracy against {title} ({unit})",
                caption=f"What the accuracy cost: the {title} of all rounds so far, in {unit}.",
                alt=f"Line chart of test accuracy against cumulated {title} in {unit}. " + _ends(curves),
                views={
                    "all": View(
                        traces=[line(series.index, curve) for series, curve in curves],
                        layout=axes(f"{title} so far, {unit}", y_format=".0%", y_hover=".2%"),
                        columns=(f"{title}, {unit}", "test accuracy"),
                    )
                },
            )
        )
    if not figures:
        return None
    return Section(
        id="cost", title="Cost", intro="The same accuracy, paid for in energy and time on the air.", figures=figures
    )


def side_by_side_section(study: Study, staleness: Sequence[Figure], points: int) -> Section | None:
    """Several runs: the accuracy of each in a panel of its own, on one scale, above its staleness."""
    if not study.several:
        return None
    panels = []
    for position, run in enumerate(study.runs):
        views = {}
        for axis, reader in READERS.items():
            curves = [
                (series, curve)
                for series, curve in _read(study, reader, "test_accuracy", points)
                if series.run == position
            ]
            layout = axes(X_TITLES[axis], y_format=".0%", y_hover=".2%", y_range=(0, 1))
            views[axis] = View(
                traces=[line(series.index, curve) for series, curve in curves],
                layout=together(layout, *(level(target) for target in study.targets)),
                columns=(X_TITLES[axis], "test accuracy"),
            )
        if not views["rounds"].traces:
            continue
        panels.append(
            Figure(
                id=f"run-{position}",
                title=f"{run.name}: test accuracy",
                caption="All runs are drawn on the same scale.",
                alt=f"Line chart of test accuracy in the run {run.name}.",
                views=views,
                group="axis",
                height_px=260,
            )
        )
    return Section(
        id="side-by-side",
        title="Runs side by side",
        intro="One panel for each run, on the same scale: accuracy first, then how stale the contributions were.",
        figures=[*panels, *staleness],
        # The accuracies fill whole rows, so that each staleness stands below its own run.
        columns=3 if len(study.runs) % 3 == 0 else 2,
    )


def _curves(study: Study, points: int, name: str, title: str, caption: str, *, wide: bool = False) -> Figure | None:
    views = {}
    ends = ""
    accuracy = name == "test_accuracy"
    for axis, reader in READERS.items():
        curves = _read(study, reader, name, points)
        if not curves:
            return None
        ends = ends or _ends(curves, accuracy=accuracy)
        layout = axes(X_TITLES[axis], y_format=".0%" if accuracy else "", y_hover=".2%" if accuracy else ".4f")
        if accuracy:
            layout = together(layout, *(level(target) for target in study.targets))
        views[axis] = View(
            traces=[line(series.index, curve) for series, curve in curves],
            layout=layout,
            columns=(X_TITLES[axis], title.lower()),
        )
    return Figure(
        id=name.replace("_", "-"),
        title=title,
        caption=caption,
        alt=f"Line chart of {title.lower()} against rounds or simulated seconds. {ends}",
        views=views,
        group="axis",
        height_px=400 if wide else 300,
        wide=wide,
    )


def _read(study: Study, reader: Callable[..., Curve | None], *asked: str | int) -> list[tuple[Series, Curve]]:
    read = ((series, reader(series.metrics, *asked)) for series in drawn(study))
    return [(series, curve) for series, curve in read if curve is not None]


def _grouped(layout: Layout) -> Layout:
    layout["xaxis"]["type"] = "category"
    return layout | {"barmode": "group", "bargap": 0.25, "scattermode": "group", "scattergap": 0.25}


def _bars(series: Series, targets: Sequence[float], key: str) -> list[Trace]:
    """The bars with their whiskers, and the numbers above them."""
    times = [series.summary[key].get(target_key(target), {}) for target in targets]
    middle = [number(time.get("median")) for time in times]
    above = [_distance(time.get("q75"), mid) for time, mid in zip(times, middle, strict=True)]
    below = [_distance(mid, time.get("q25")) for time, mid in zip(times, middle, strict=True)]
    shared = {"series": series.index, "offsetgroup": series.index, "x": [target_percent(target) for target in targets]}
    bars = {
        "type": "bar",
        "y": numbers([np.nan if mid is None else mid for mid in middle]),
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": numbers(above),
            "arrayminus": numbers(below),
            "color": "$muted",
            "thickness": 1.2,
            "width": 3,
        },
    }
    written = {
        "type": "scatter",
        "mode": "text",
        "y": numbers([0.0 if mid is None else mid + up for mid, up in zip(middle, above, strict=True)]),
        "text": ["✕" if mid is None else quantity(mid) for mid in middle],
        "textposition": "top center",
        "cliponaxis": False,
        "hoverinfo": "skip",
    }
    return [shared | bars, shared | written]


def target_key(target: float) -> str:
    """The summary's key for a target: the shortest text of the number, `0.5`."""
    return f"{target:g}"


def _distance(high: object, low: object) -> float:
    top, bottom = number(high), number(low)
    return 0.0 if top is None or bottom is None else max(top - bottom, 0.0)


def _targets_in_words(study: Study) -> str:
    target = study.targets[-1]
    said = []
    for series in drawn(study):
        time = series.summary.get("seconds_to", {}).get(target_key(target), {})
        median = number(time.get("median"))
        said.append(f"{series.name} {'never' if median is None else quantity(median) + ' s'}")
    return f"To {target_percent(target)}: {', '.join(said)}."


def _ends(curves: Sequence[tuple[Series, Curve]], *, accuracy: bool = True) -> str:
    ends = (
        f"{series.name} {percent(curve.middle[-1]) if accuracy else f'{curve.middle[-1]:.3g}'}"
        for series, curve in curves
    )
    return f"At the end: {', '.join(ends)}."
