"""Figures of the score and the losses, against simulated seconds, rounds, energy and airtime, and the time to targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.columns import metric
from ...base.formatting import quantity, sentences
from ...pages.curves import Curve, against_round, against_time, against_total, number
from ...pages.figure import Figure, Layout, Trace, View, axes, level, line, line_chart, numbers, together, whiskers
from ...pages.page import Section
from .findings import reach, reached_targets
from .study import Entry, Study

X_TITLES = {"seconds": "simulated seconds", "rounds": "round"}
# The page opens on the first axis, because the methods differ in their waiting.
READERS = {"seconds": against_time, "rounds": against_round}


def learning_section(study: Study, points: int) -> Section:
    """Return the section of test score, test loss and training loss."""
    meaning = (
        "Share of the test samples that the global model labels correctly."
        if study.score.name == "accuracy"
        else "The model's own score, its mean over the test samples; higher is better."
    )
    caption = f"{meaning} Dotted lines mark the targets." if study.targets else meaning
    figures = [
        _curves(study, points, "test_accuracy", f"Test {study.score.name}", caption),
        _curves(study, points, "test_loss", "Test loss", "Mean loss on the test set; lower is better."),
        _curves(study, points, "train_loss", "Training loss", "Loss on the devices' training data; lower is better."),
    ]
    spread = any(len(entry.seeds) > 1 for entry in study.entries)
    return Section(
        id="learning",
        title="Learning",
        intro=sentences(
            [
                "The line is the median over the seeds, the band spans their quartiles." if spread else "",
                "Against rounds a synchronous method looks better than it is, because its rounds wait for the slowest "
                "device. Against simulated seconds every method pays for its waiting.",
                "Drag across a figure to zoom in, double-click to zoom out.",
            ]
        ),
        figures=[figure for figure in figures if figure],
        unfolded=1,
    )


def target_section(study: Study) -> Section | None:
    """Return the section with bars of the time to each target that was reached, or None without one."""
    reached, score = reached_targets(study), study.score
    if not reached:
        return None
    grouped = {"barmode": "group", "bargap": 0.25, "scattermode": "group", "scattergap": 0.25}
    layout = axes(f"test {score.name} to reach", y_format=",", from_zero=True, category=True) | grouped
    figure = Figure(
        id="targets",
        title="Simulated seconds or rounds to each target",
        caption="Median over the seeds; the whiskers span the quartiles. A cross in place of a bar: too few seeds reached "
        f"that {score.name} for a median, or none."
        if any(len(entry.seeds) > 1 for entry in study.entries)
        else f"A cross in place of a bar: that {score.name} was not reached.",
        views={
            axis: View(
                traces=[trace for entry in study.drawn for trace in _bars(entry, study, key, reached)],
                layout=layout,
                columns=("target", title),
            )
            for axis, key, title in (("seconds", "seconds_to", "simulated seconds"), ("rounds", "rounds_to", "rounds"))
        },
        group="axis",
        height_px=340,
        wide=True,
    )
    intro = f"Simulated second or evaluated round at which the test {score.name} reaches each target."
    return Section(id="targets", title="Time to target", intro=intro, figures=[figure])


def _bars(entry: Entry, study: Study, key: str, targets: Sequence[float]) -> list[Trace]:
    """Return the bars with their whiskers, and the numbers above them."""
    times = [reach(entry, key, target) for target in targets]
    low, middle, high = (
        np.array([np.nan if (value := number(time.get(part))) is None else value for time in times])
        for part in ("q25", "median", "q75")
    )
    shared = {
        "series": entry.index,
        "offsetgroup": entry.index,
        "x": [study.score.target(target) for target in targets],
    }
    spread = {"error_y": whiskers(low, middle, high)} if len(entry.seeds) > 1 else {}
    bars = {"type": "bar", "y": numbers(middle)} | spread
    texts = ["✕" if np.isnan(value) else quantity(value) for value in middle]
    above = {"y": numbers(np.nan_to_num(np.fmax(middle, high))), "textposition": "top center", "cliponaxis": False}
    written = {"type": "scatter", "mode": "text", "text": texts, "hoverinfo": "skip"} | above
    return [shared | bars, shared | written]


def spending_section(study: Study, points: int) -> Section | None:
    """Return the section of the score against energy and airtime, for runs that recorded them.

    Methods may differ by powers of ten in their spending, so the axis is logarithmic.
    """
    figures = []
    score = study.score
    ticks, exact = score.formats
    for column in (metric("energy_j"), metric("airtime_s")):
        read = _read(study.drawn, against_total, column.name, "test_accuracy", points)
        curves = [(entry, curve.at(curve.x > 0)) for entry, curve in read if (curve.x > 0).any()]
        if curves:
            layout = axes(f"{column.title} so far", y_format=ticks, y_hover=exact, x_log=True)
            figures.append(
                line_chart(
                    {"all": (_lines(curves), layout)},
                    id=f"spent-{column.name.split('_')[0]}",
                    title=f"Test {score.name} against {column.title[:1].lower()}{column.title[1:]}",
                    y_name=f"test {score.name}",
                    caption="The sum over all rounds so far, on a logarithmic axis.",
                )
            )
    if not figures:
        return None
    return Section(id="cost", title="Cost", intro=f"The {score.name} against energy and airtime.", figures=figures)


def side_by_side_section(study: Study, points: int) -> Section | None:
    """Return the section of several runs, with the score of each in its own panel."""
    if not study.several:
        return None
    y_range = (0, 1) if study.score.is_share else None
    panels = []
    for position, run in enumerate(study.runs):
        own = [entry for entry in study.drawn if entry.run == position]
        curves = {axis: _read(own, reader, "test_accuracy", points) for axis, reader in READERS.items()}
        if curves["rounds"]:
            panels.append(
                line_chart(
                    {axis: (_lines(found), _score_layout(study, axis, y_range)) for axis, found in curves.items()},
                    id=f"run-{position}",
                    title=f"{run.name}: test {study.score.name}",
                    y_name=f"test {study.score.name}",
                    caption="",
                    group="axis",
                    height_px=260,
                )
            )
    return Section(
        id="side-by-side",
        title="Runs side by side",
        intro="One panel for each run, on the same scale.",
        figures=panels,
        columns=3 if len(study.runs) % 3 == 0 else 2,
    )


def _curves(study: Study, points: int, name: str, title: str, caption: str) -> Figure | None:
    score = name == "test_accuracy"
    curves = {axis: _read(study.drawn, reader, name, points) for axis, reader in READERS.items()}
    if not curves["rounds"]:
        return None
    return line_chart(
        {
            axis: (_lines(found), _score_layout(study, axis) if score else axes(X_TITLES[axis], y_hover=".4f"))
            for axis, found in curves.items()
        },
        id=name.replace("_", "-"),
        title=title,
        caption=caption,
        group="axis",
        height_px=400 if score else 300,
        wide=score,
    )


def _score_layout(study: Study, axis: str, y_range: Sequence[float] | None = None) -> Layout:
    """Return the axes of a score with a line at each target."""
    ticks, exact = study.score.formats
    layout = axes(X_TITLES[axis], y_format=ticks, y_hover=exact, y_range=y_range)
    return together(layout, *(level(at, f"target {study.score.target(at)}", side="left") for at in study.targets))


def _read(
    entries: Sequence[Entry], reader: Callable[..., Curve | None], *asked: str | int
) -> list[tuple[Entry, Curve]]:
    read = ((entry, reader(entry.metrics, *asked)) for entry in entries)
    return [(entry, curve) for entry, curve in read if curve is not None]


def _lines(curves: Sequence[tuple[Entry, Curve]]) -> list[Trace]:
    return [line(entry.index, curve) for entry, curve in curves]
