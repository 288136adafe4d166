"""The figures of the paper, the noise sweep, the ablations and Theorem 1, as sections of a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...base.formatting import SHARE_TICKS
from ...pages.curves import Curve
from ...pages.export import available, export
from ...pages.figure import (
    Figure,
    Style,
    Trace,
    View,
    axes,
    level,
    line,
    line_chart,
    numbers,
    together,
    whiskers,
)
from ...pages.page import Section
from ...pages.timeline import stretch_of, timeline_figure
from ...results.measures import Floats, newest, quartiles
from ..bound.figure import bound_figures
from .catalogue import LOUD_DBM, QUIET_DBM
from .cells import Stored
from .evidence import NAMES, Curves, Evidence
from .gather import METHOD_LABELS, Cells, accuracy_of, final, values_of

LOOKS = {"paota": (0, "solid"), "paota-update": (2, "dashdot"), "local-sgd": (6, "dash"), "cotaf": (1, "dot")}
STYLES = [Style(name=NAMES[name], colour=LOOKS[name][0], dash=LOOKS[name][1]) for name in METHOD_LABELS]
GRID_POINTS = 200
SHOWN_DEVICES, SHOWN_ROUNDS = 10, 5  # of the work-flow
SEEDS_CAPTION = "Whiskers: the middle half of the seeds."
Swept = Mapping[str, tuple[list[float], Floats]]  # method -> values, quartiles [values, 3]


def draw_all(cells: Cells, evidence: Evidence, folder: Path) -> list[Section]:
    """Return a section for each figure with data. With matplotlib, also write each as PNG and PDF to `folder`."""
    sections = [gap(evidence), accuracy(evidence)]
    if evidence.noise:
        sections.append(_noise(evidence))
    if {"omega", "beta", "beta-update"} <= set(cells):
        sections += [_ablations(cells), _learning_rate(cells)]
    if any(name.startswith("bound-") for name in cells):
        sections.append(_bound(cells))
    sections.append(workflow(cells["quiet"]))
    if not available():
        return sections
    for section in sections:
        export(section, STYLES, folder)
    return [replace(section, download=f"{folder.name}/{section.id}.pdf") for section in sections]


def gap(evidence: Evidence) -> Section:
    """Return Fig. 3: E[F(w^r)] - F(w*) against rounds, at both noise levels."""
    panels = []
    for setting, name, n0 in ((evidence.quiet, "quiet", QUIET_DBM), (evidence.loud, "loud", LOUD_DBM)):
        sources = {m: setting if m in setting else evidence.quiet for m in METHOD_LABELS}  # Local SGD has no channel
        curves = {m: _mean(np.arange(s[m].objective.shape[1]), evidence.gap(s, m)) for m, s in sources.items()}
        layout = axes("round", log=True, y_hover=".3g")
        panels.append(
            line_chart(
                {"all": (_lines(curves, positive=True), layout)},
                id=f"gap-{name}",
                title=f"E[F(wʳ)] − F(w*) at N₀ = {n0:g} dBm/Hz",
                caption="Local SGD uses no channel, so it is the same at both noise levels.",
                alt=f"the gap to the best objective against rounds at {n0:g} dBm/Hz.",
            )
        )
    return Section(
        id="fig3-gap",
        title="Fig. 3: convergence",
        intro="E[F(w^r)] - F(w*), mean over the seeds and the middle half of them. F(w*) is the best value that "
        "centralised training found for the same weighted objective; a table below says how finished that search was.",
        figures=panels,
    )


def accuracy(evidence: Evidence) -> Section:
    """Return Fig. 4: test accuracy against simulated time and against rounds."""
    end_s = float(np.nanmax(evidence.quiet["paota"].time_s))
    by_second = {m: _mean(*_on_grid(evidence.quiet[m], end_s)) for m in METHOD_LABELS}
    by_round = {m: _mean(np.arange(c.accuracy.shape[1]), c.accuracy) for m, c in evidence.quiet.items()}
    figure = line_chart(
        {
            axis: (_lines(curves), together(axes(title, y_format=SHARE_TICKS, y_hover=".2%"), level(0.8)))
            for axis, title, curves in (("seconds", "simulated seconds", by_second), ("rounds", "round", by_round))
        },
        id="accuracy",
        title="Test accuracy",
        caption="The dotted line is 80 %. Choose seconds or rounds at the top of the page.",
        alt="test accuracy against simulated seconds or rounds.",
        group="axis",
        height_px=400,
        wide=True,
    )
    return Section(
        id="fig4-accuracy",
        title="Fig. 4: test accuracy",
        intro="At N0 = -174 dBm/Hz, against simulated time and against rounds; mean over the seeds and the middle half.",
        figures=[figure],
    )


def _on_grid(curves: Curves, end_s: float) -> tuple[Floats, Floats]:
    """Return common times, and the accuracy of every seed's newest model at each of them."""
    grid = np.linspace(0, end_s, GRID_POINTS)
    return grid, np.array([newest(curves.accuracy, curves.time_s, time_s) for time_s in grid]).T


def _mean(x: np.ndarray, values: Floats) -> Curve:
    """Return the mean over the seeds [seeds, points] and the band of their middle half."""
    low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
    return Curve(x=x, middle=np.nanmean(values, axis=0), low=low, high=high)


def _lines(curves: Mapping[str, Curve], *, positive: bool = False) -> list[Trace]:
    return [line(_series(method), curve, positive=positive) for method, curve in curves.items()]


def _series(label: str) -> int:
    """Return the place in the legend of the method that a label begins with."""
    return METHOD_LABELS.index(max((name for name in METHOD_LABELS if label.startswith(name)), key=len))


def _noise(evidence: Evidence) -> Section:
    panels = []
    for far, title in ((False, "No path loss (the paper)"), (True, "Log-distance path loss, 200 m")):
        traces = []
        for name, sweep in evidence.noise.items():
            if sweep.path_loss != far:
                continue
            kept = "physical" in name or "fading" in name  # within the power budget
            look = {"dash": "solid" if kept else "dot", "marker": {"symbol": "circle" if kept else "circle-open"}}
            # The first level means no noise.
            curve = Curve(x=np.array(sweep.levels_dbm[1:]), middle=np.median(sweep.accuracy[1:], axis=1))
            traces.append(line(_series(name), curve) | {"mode": "lines+markers", "name": sweep.title} | look)
        lowest = min((trace["x"][0] for trace in traces), default=-math.inf)
        marks = [level(n0, vertical=True) for n0 in (QUIET_DBM, LOUD_DBM) if n0 >= lowest]
        layout = axes("N₀ in dBm/Hz", y_format=SHARE_TICKS, y_hover=".1%", y_range=(0, 1))
        below = {"showlegend": True, "legend": {"orientation": "h", "y": -0.22, "x": 0}}
        panels.append(
            line_chart(
                {"all": (traces, together(layout | below, *marks))},
                id=f"noise-{'far' if far else 'near'}",
                title=title,
                caption="Final test accuracy, median over the seeds. Hollow and dotted: without the power budget; full: "
                "within it.",
                alt=f"final test accuracy against the noise density. {title}.",
                height_px=460,
            )
        )
    return Section(
        id="noise",
        title="The noise sweep",
        intro="Final accuracy against the noise density. Dotted vertical lines: the paper's two levels. As printed, the "
        "amplitude is capped at 15 at any power; the physical cap keeps to 15 W.",
        figures=panels,
    )


def _ablations(cells: Cells) -> Section:
    def against(kind: str, measure: Callable[[Stored, str], Floats] = final) -> Swept:
        found = values_of(cells, kind)
        values = [value for _, value, _ in found]
        return {m: (values, np.array([quartiles(measure(cell, m)) for *_, cell in found])) for m in found[0][2].labels}

    def seconds(cell: Stored, label: str) -> Floats:
        return accuracy_of(cell, label).seconds_to(0.7)

    score, reach = "Final accuracy", "Simulated seconds to 70 %"
    panels = [
        _swept("period", score, "Period ΔT in s, at equal time", against("period")),
        _swept("classes", score, "Classes per device", against("classes")),
        _swept("devices", score, "Devices K", against("devices")),
        _swept("omega", score, "Ω", {"paota": _labelled(cells["omega"])}, x_log=True),
        [_power_methods({"paota": cells["beta"], "paota-update": cells["beta-update"]})],
        _swept("period-seconds", reach, "Period ΔT in s", against("period", seconds)),
    ]
    return Section(
        id="ablations",
        title="Ablations",
        intro="Median over the seeds with the middle half. The period is compared at equal simulated time, the rest after "
        "equal rounds. Optimised, staleness, similarity and uniform are ways to choose the power.",
        figures=[figure for panel in panels for figure in panel],
    )


def _learning_rate(cells: Cells) -> Section:
    found = {method: _labelled(cells[f"eta-{method}"]) for method in METHOD_LABELS}
    figures = _swept("eta", "Final accuracy", "Learning rate η (all figures use 0.1)", found, x_log=True, mark=0.1)
    return Section(
        id="eta",
        title="Sensitivity to the learning rate",
        intro="Nothing is tuned per method: one learning rate and one batch size for all.",
        figures=[replace(figure, title="Final accuracy", wide=True) for figure in figures],
    )


def _labelled(cell: Stored) -> tuple[list[float], Floats]:
    return [float(name) for name in cell.labels], np.array([quartiles(final(cell, name)) for name in cell.labels])


def _swept(
    id: str, quantity: str, x_title: str, swept: Swept, *, x_log: bool = False, mark: float | None = None
) -> list[Figure]:
    """Return the figure of a quantity against a setting, with whiskers; none if no seed reached the quantity.

    Args:
        id: The name of the figure.
        quantity: The quantity, as in the title.
        x_title: The setting, as at the axis.
        swept: Values and quartiles of every method.
        x_log: Draw a logarithmic axis of the setting.
        mark: A value of the setting to mark by a line.
    """
    if not any(np.isfinite(triples).any() for _, triples in swept.values()):
        return []
    traces = []
    for method, (values, triples) in swept.items():
        low, middle, high = np.where(np.isfinite(triples), triples, np.nan).T
        curve = line(_series(method), Curve(x=np.array(values), middle=middle))
        traces.append(curve | {"mode": "lines+markers", "error_y": whiskers(low, middle, high)})
    share = "accuracy" in quantity
    layout = axes(x_title, x_log=x_log, y_format=SHARE_TICKS if share else ",", y_hover=".1%" if share else ",.4~g")
    values = sorted({value for values, _ in swept.values() for value in values})
    layout["xaxis"] |= {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
    if mark is not None:
        layout = together(layout, level(mark, vertical=True))
    title, alt = f"{quantity}: {x_title}", f"{quantity.lower()} against {x_title}."
    return [line_chart({"all": (traces, layout)}, id=id, title=title, caption=SEEDS_CAPTION, alt=alt)]


def _power_methods(by_method: Mapping[str, Stored]) -> Figure:
    """Return the ways to choose the power as bars beside each other."""
    bars: list[Trace] = []
    top = 0.0
    for method, cell in by_method.items():
        low, middle, high = np.array([quartiles(final(cell, name)) for name in cell.labels]).T
        names = [{"exact": "optimised"}.get(name, name) for name in cell.labels]
        top = max(top, float(high.max()))
        spread = whiskers(low, middle, high)
        bars.append({"type": "bar", "series": _series(method), "x": names, "y": numbers(middle), "error_y": spread})
    lowest = max(0.0, top - 0.5)  # differences are small: half of the scale shows them
    layout = axes("β", y_format=SHARE_TICKS, y_hover=".1%", y_range=(lowest, min(1.0, top + 0.02)), category=True)
    return Figure(
        id="beta",
        title="Final accuracy: β",
        caption=SEEDS_CAPTION,
        alt="Bar chart of the final accuracy for each way to choose the power.",
        views={"all": View(traces=bars, layout=layout | {"barmode": "group"}, columns=("method", "final accuracy"))},
    )


def _bound(cells: Cells) -> Section:
    return Section(
        id="bound",
        title="Theorem 1",
        intro="The bound, printed and corrected, beside the measured gap, with constants estimated from the run, at "
        "η = 0.001: a learning rate at which Lemma 1 holds.",
        figures=bound_figures(cells["bound-0.001"].arrays),
    )


def workflow(cell: Stored) -> Section:
    """Return Fig. 2: the trainings and transmissions of the first rounds of a run."""
    names = ("round", "device", "staleness", "start_s", "finish_s", "weight")
    records = {name: cell.arrays[f"devices/{name}"] for name in names}
    records["time_s"] = cell.of("paota", "time_s")[0][records["round"].astype(int)]
    records["version"] = records["round"] - 1 - records["staleness"]
    stretch = stretch_of(records, devices=SHOWN_DEVICES, events=SHOWN_ROUNDS)
    return Section(
        id="fig2-workflow",
        title="Fig. 2: the work-flow",
        intro="The first rounds of the same run. Fast devices do not wait for the slowest.",
        figures=[timeline_figure({"paota": ("PAOTA", stretch)}, id="workflow")] if stretch else [],
    )
