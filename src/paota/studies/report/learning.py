"""How well the model does, against simulated seconds and against rounds, and how soon it reaches each target."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.formatting import Score, quantity, sentences
from ...pages.curves import Curve, against_round, against_time, against_total, number
from ...pages.figure import (
    Figure,
    Layout,
    Trace,
    View,
    axes,
    level,
    line,
    line_chart,
    log_ticks,
    numbers,
    together,
    whiskers,
)
from ...pages.page import Section
from .findings import reach
from .study import Entry, Study

X_TITLES = {"seconds": "simulated seconds", "rounds": "round"}
# The first is what the page opens on: waiting is what the methods differ in.
READERS = {"seconds": against_time, "rounds": against_round}


def learning_section(study: Study, points: int) -> Section:
    """Test score, test loss and training loss."""
    figures = [
        _curves(study, points, "test_accuracy", f"Test {study.score.name}", _score_caption(study)),
        _curves(study, points, "test_loss", "Test loss", "Mean loss on the test set; lower is better."),
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
    layout = axes(f"test {study.score.name} to reach", y_format=",", from_zero=True, category=True) | grouped
    views = {
        axis: View(
            traces=[
                trace
                for entry in study.drawn
                if isinstance(entry.summary.get(key), dict)
                for trace in _bars(entry, study, key)
            ],
            layout=layout,
            columns=("target", title),
        )
        for axis, key, title in (("seconds", "seconds_to", "simulated seconds"), ("rounds", "rounds_to", "rounds"))
    }
    if not study.targets or not any(view.traces for view in views.values()):
        return Section(id="targets", title="Time to target", intro="This run set no targets.")
    figure = Figure(
        id="targets",
        title="Simulated seconds or rounds to each target",
        caption="Median over the seeds; the whiskers span the middle half of them. A cross in place of a bar: "
        f"too few seeds reached that {study.score.name} for a median, or none."
        if any(len(entry.seeds) > 1 for entry in study.entries)
        else f"A cross in place of a bar: that {study.score.name} was never reached.",
        alt="Bar chart of the time to each target. " + _targets_in_words(study),
        views=views,
        group="axis",
        height_px=340,
        wide=True,
    )
    return Section(
        id="targets",
        title="Time to target",
        intro=f"The simulated second, or the first evaluated round, at which the test {study.score.name} reaches each "
        "target.",
        figures=[figure],
    )


def spending_section(study: Study, points: int) -> Section | None:
    """The score against energy and airtime, for runs that recorded them.

    Methods may differ by powers of ten in what they spend, so the axis is logarithmic.
    """
    figures = []
    score = study.score
    for spent, title, unit in (("energy_j", "energy", "joules"), ("airtime_s", "airtime", "seconds")):
        curves = [
            (entry, curve.at(curve.x > 0))
            for entry, curve in _read(study.drawn, against_total, spent, "test_accuracy", points)
            if (curve.x > 0).any()
        ]
        if curves:
            ticks, exact = score.formats
            layout = axes(f"{title} so far, {unit}", y_format=ticks, y_hover=exact, x_log=True)
            seen = np.concatenate([curve.x for _, curve in curves])
            layout["xaxis"] |= log_ticks(seen.min(), seen.max())
            figures.append(
                line_chart(
                    {"all": (_lines(curves), layout)},
                    id=f"spent-{title}",
                    title=f"Test {score.name} against {title} ({unit})",
                    y_name=f"test {score.name}",
                    caption=f"What the {score.name} cost: the {title} of all rounds so far, in {unit}, on a "
                    "logarithmic axis.",
                    alt=f"test {score.name} against cumulated {title} in {unit}. {_ends(curves, score)}",
                )
            )
    if not figures:
        return None
    intro = f"The same {score.name}, paid for in energy and time on the air."
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
                        axis: (
                            _lines(found),
                            _with_targets(study, X_TITLES[axis], y_range=(0, 1) if study.score.is_share else None),
                        )
                        for axis, found in curves.items()
                    },
                    id=f"run-{position}",
                    title=f"{run.name}: test {study.score.name}",
                    y_name=f"test {study.score.name}",
                    caption="All runs are drawn on the same scale.",
                    alt=f"test {study.score.name} in the run {run.name}.",
                    group="axis",
                    height_px=260,
                )
            )
    return Section(
        id="side-by-side",
        title="Runs side by side",
        intro="One panel for each run, on the same scale: the score first, then how stale the contributions were.",
        figures=[*panels, *staleness],
        # The scores fill whole rows, so that each staleness stands below its own run.
        columns=3 if len(study.runs) % 3 == 0 else 2,
    )


def _score_caption(study: Study) -> str:
    what = (
        "Share of the test samples that the global model labels correctly."
        if study.score.name == "accuracy"
        else "The model's own score, its mean over the test samples; higher is better."
    )
    return f"{what} Dotted lines mark the targets." if study.targets else what


def _curves(study: Study, points: int, name: str, title: str, caption: str) -> Figure | None:
    score = study.score if name == "test_accuracy" else None
    curves = {axis: _read(study.drawn, reader, name, points) for axis, reader in READERS.items()}
    if not curves["rounds"]:
        return None
    return line_chart(
        {
            axis: (
                _lines(found),
                _with_targets(study, X_TITLES[axis]) if score else axes(X_TITLES[axis], y_hover=".4f"),
            )
            for axis, found in curves.items()
        },
        id=name.replace("_", "-"),
        title=title,
        caption=caption,
        alt=f"{title.lower()} against simulated seconds or rounds. {_ends(curves['rounds'], score)}",
        group="axis",
        height_px=400 if score else 300,
        wide=score is not None,
    )


def _with_targets(study: Study, x_title: str, y_range: Sequence[float] | None = None) -> Layout:
    ticks, exact = study.score.formats
    layout = axes(x_title, y_format=ticks, y_hover=exact, y_range=y_range)
    return together(layout, *(level(at, f"target {study.score.target(at)}", side="left") for at in study.targets))


def _read(
    entries: Sequence[Entry], reader: Callable[..., Curve | None], *asked: str | int
) -> list[tuple[Entry, Curve]]:
    read = ((entry, reader(entry.metrics, *asked)) for entry in entries)
    return [(entry, curve) for entry, curve in read if curve is not None]


def _lines(curves: Sequence[tuple[Entry, Curve]]) -> list[Trace]:
    return [line(entry.index, curve) for entry, curve in curves]


def _bars(entry: Entry, study: Study, key: str) -> list[Trace]:
    """The bars with their whiskers, and the numbers above them."""
    times = [reach(entry, key, target) for target in study.targets]
    low, middle, high = (
        np.array([np.nan if (value := number(time.get(part))) is None else value for time in times])
        for part in ("q25", "median", "q75")
    )
    shared = {
        "series": entry.index,
        "offsetgroup": entry.index,
        "x": [study.score.target(target) for target in study.targets],
    }
    spread = {"error_y": whiskers(low, middle, high)} if len(entry.seeds) > 1 else {}
    bars = {"type": "bar", "y": numbers(middle)} | spread
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
    return f"To {study.score.target(target)}: {', '.join(said)}."


def _ends(curves: Sequence[tuple[Entry, Curve]], score: Score | None) -> str:
    ends = (
        f"{entry.name} {score.show(curve.middle[-1]) if score else f'{curve.middle[-1]:.3g}'}"
        for entry, curve in curves
    )
    return f"At the end: {', '.join(ends)}."
