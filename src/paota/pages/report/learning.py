"""How well the model does, against simulated seconds and against rounds, and how soon it reaches each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..curves import Curve, against_round, against_time, against_total, number
from ..figure import Figure, Layout, Trace, View, axes, level, line, line_chart, numbers, together, whiskers
from ..page import Section
from ..words import percent, quantity, sentences, target_percent
from .findings import reach
from .study import Entry, Study

X_TITLES = {"seconds": "simulated seconds", "rounds": "round"}
# The first is what the page opens on: waiting is what the methods differ in.
READERS = {"seconds": against_time, "rounds": against_round}


def learning_section(study: Study, points: int) -> Section:
    """Test accuracy, test loss and training loss."""
    figures = [
        _curves(
            study,
            points,
            "test_accuracy",
            "Test accuracy",
            "Share of the test images that the global model labels correctly. Dotted lines mark the targets.",
        ),
        _curves(study, points, "test_loss", "Test loss", "Mean cross-entropy on the test set; lower is better."),
        _curves(
            study, points, "train_loss", "Training loss", "Loss on the devices' own training data; lower is better."
        ),
    ]
    spread = any(len(entry.seeds) > 1 for entry in study.entries)
    return Section(
        id="learning",
        title="Learning",
        intro=sentences(
            [
                "The line is the median over the seeds, the band holds the middle half of them." if spread else "",
                "Counted in rounds a synchronous method looks better than it is, because its rounds wait for the "
                "slowest device; counted in simulated seconds every method pays for its waiting.",
                "Drag across a figure to look closer, double-click to go back.",
            ]
        ),
        figures=[figure for figure in figures if figure],
    )


def target_section(study: Study) -> Section:
    """Bars of the simulated seconds or rounds to each target."""
    grouped = {"barmode": "group", "bargap": 0.25, "scattermode": "group", "scattergap": 0.25}
    layout = axes("test accuracy to reach", y_format=",", from_zero=True, category=True) | grouped
    views = {
        axis: View(
            traces=[
                trace
                for entry in study.drawn
                if isinstance(entry.summary.get(key), dict)
                for trace in _bars(entry, study.targets, key)
            ],
            layout=layout,
            columns=("target", title),
        )
        for axis, key, title in (("seconds", "seconds_to", "simulated seconds"), ("rounds", "rounds_to", "rounds"))
    }
    if not study.targets or not any(view.traces for view in views.values()):
        return Section(id="targets", title="Time to target", intro="This run set no accuracy targets.")
    figure = Figure(
        id="targets",
        title="Simulated seconds or rounds to each target",
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
        intro="The simulated second, or the first evaluated round, at which the test accuracy reaches each target.",
        figures=[figure],
    )


def spending_section(study: Study, points: int) -> Section | None:
    """Accuracy against energy and airtime, for runs that recorded them."""
    figures = []
    for spent, title, unit in (("energy_j", "energy", "joules"), ("airtime_s", "airtime", "seconds")):
        curves = _read(study.drawn, against_total, spent, "test_accuracy", points)
        if curves:
            figures.append(
                line_chart(
                    {"all": (_lines(curves), axes(f"{title} so far, {unit}", y_format=".0%", y_hover=".2%"))},
                    id=f"spent-{title}",
                    title=f"Test accuracy against {title} ({unit})",
                    y_name="test accuracy",
                    caption=f"What the accuracy cost: the {title} of all rounds so far, in {unit}.",
                    alt=f"test accuracy against cumulated {title} in {unit}. {_ends(curves)}",
                )
            )
    if not figures:
        return None
    intro = "The same accuracy, paid for in energy and time on the air."
    return Section(id="cost", title="Cost", intro=intro, figures=figures)


def side_by_side_section(study: Study, staleness: Sequence[Figure], points: int) -> Section | None:
    """Several runs: the accuracy of each in a panel of its own, on one scale, above its staleness."""
    if not study.several:
        return None
    panels = []
    for position, run in enumerate(study.runs):
        own = [entry for entry in study.drawn if entry.run == position]
        curves = {axis: _read(own, reader, "test_accuracy", points) for axis, reader in READERS.items()}
        if curves["rounds"]:
            panels.append(
                line_chart(
                    {
                        axis: (_lines(found), _with_targets(study, X_TITLES[axis], y_range=(0, 1)))
                        for axis, found in curves.items()
                    },
                    id=f"run-{position}",
                    title=f"{run.name}: test accuracy",
                    y_name="test accuracy",
                    caption="All runs are drawn on the same scale.",
                    alt=f"test accuracy in the run {run.name}.",
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


def _curves(study: Study, points: int, name: str, title: str, caption: str) -> Figure | None:
    accuracy = name == "test_accuracy"
    curves = {axis: _read(study.drawn, reader, name, points) for axis, reader in READERS.items()}
    if not curves["rounds"]:
        return None
    return line_chart(
        {
            axis: (
                _lines(found),
                _with_targets(study, X_TITLES[axis]) if accuracy else axes(X_TITLES[axis], y_hover=".4f"),
            )
            for axis, found in curves.items()
        },
        id=name.replace("_", "-"),
        title=title,
        caption=caption,
        alt=f"{title.lower()} against simulated seconds or rounds. {_ends(curves['rounds'], accuracy=accuracy)}",
        group="axis",
        height_px=400 if accuracy else 300,
        wide=accuracy,
    )


def _with_targets(study: Study, x_title: str, y_range: Sequence[float] | None = None) -> Layout:
    layout = axes(x_title, y_format=".0%", y_hover=".2%", y_range=y_range)
    return together(layout, *(level(target) for target in study.targets))


def _read(
    entries: Sequence[Entry], reader: Callable[..., Curve | None], *asked: str | int
) -> list[tuple[Entry, Curve]]:
    read = ((entry, reader(entry.metrics, *asked)) for entry in entries)
    return [(entry, curve) for entry, curve in read if curve is not None]


def _lines(curves: Sequence[tuple[Entry, Curve]]) -> list[Trace]:
    return [line(entry.index, curve) for entry, curve in curves]


def _bars(entry: Entry, targets: Sequence[float], key: str) -> list[Trace]:
    """The bars with their whiskers, and the numbers above them."""
    times = [reach(entry, key, target) for target in targets]
    low, middle, high = (
        np.array([np.nan if (value := number(time.get(part))) is None else value for time in times])
        for part in ("q25", "median", "q75")
    )
    shared = {"series": entry.index, "offsetgroup": entry.index, "x": [target_percent(target) for target in targets]}
    bars = {"type": "bar", "y": numbers(middle), "error_y": whiskers(low, middle, high)}
    texts = ["✕" if np.isnan(value) else quantity(value) for value in middle]
    above = {"y": numbers(np.nan_to_num(np.fmax(middle, high))), "textposition": "top center", "cliponaxis": False}
    written = {"type": "scatter", "mode": "text", "text": texts, "hoverinfo": "skip"} | above
    return [shared | bars, shared | written]


def _targets_in_words(study: Study) -> str:
    target = study.targets[-1]
    said = []
    for entry in study.drawn:
        median = number(reach(entry, "seconds_to", target).get("median"))
        said.append(f"{entry.name} {'never' if median is None else quantity(median) + ' s'}")
    return f"To {target_percent(target)}: {', '.join(said)}."


def _ends(curves: Sequence[tuple[Entry, Curve]], *, accuracy: bool = True) -> str:
    ends = (
        f"{entry.name} {percent(curve.middle[-1]) if accuracy else f'{curve.middle[-1]:.3g}'}"
        for entry, curve in curves
    )
    return f"At the end: {', '.join(ends)}."
