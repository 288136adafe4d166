"""The figures of the paper and of the sweeps that it should have shown, as sections of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from ...results.measures import Floats, quartiles
from ..bound.figure import bound_figures
from .catalogue import Scale
from .evidence import Curves, Evidence
from .gather import METHOD_LABELS, Cells, final, seconds_to, values_of
from .pictures import system, workflow

NAMES = {"paota": "PAOTA", "paota-update": "PAOTA (update)", "local-sgd": "Local SGD", "cotaf": "COTAF"}
LOOKS = {"paota": (0, "solid"), "paota-update": (2, "dashdot"), "local-sgd": (6, "dash"), "cotaf": (1, "dot")}
STYLES = [Style(name=NAMES[name], colour=LOOKS[name][0], dash=LOOKS[name][1]) for name in METHOD_LABELS]
GRID_POINTS = 200


def draw_all(cells: Cells, evidence: Evidence, scale: Scale, folder: Path) -> list[Section]:
    """A section for each figure that there are data for; also as PNG and PDF in `folder`, if matplotlib is installed."""
    sections = [gap(evidence), accuracy(evidence)]
    if evidence.noise:
        sections.append(_noise(evidence))
    if {"omega", "beta", "beta-update"} <= set(cells):
        sections += [_ablations(cells), _learning_rate(cells)]
    if any(name.startswith("bound-") for name in cells):
        sections.append(_bound(cells))
    sections += [system(cells["quiet"], _devices(scale)), workflow(cells["quiet"])]
    if available():
        for section in sections:
            export(section, STYLES, folder)
    return sections


def _devices(scale: Scale) -> int:
    return int(scale.base.get("data", {}).get("devices", 100))


def gap(evidence: Evidence) -> Section:
    """Fig. 3: E[F(w^r)] - F(w*) against rounds, at both noise levels."""
    panels = []
    for setting, name, n0 in ((evidence.quiet, "quiet", -174), (evidence.loud, "loud", -74)):
        sources = {m: setting if m in setting else evidence.quiet for m in METHOD_LABELS}  # Local SGD knows no noise
        curves = {m: _mean(np.arange(s[m].objective.shape[1]), evidence.gap(s, m)) for m, s in sources.items()}
        layout = axes("round", log=True, y_hover=".3g")
        panels.append(
            line_chart(
                {"all": ([line(_series(m), curve, positive=True) for m, curve in curves.items()], layout)},
                id=f"gap-{name}",
                title=f"E[F(wʳ)] − F(w*) at N₀ = {n0} dBm/Hz",
                caption="Local SGD uses no channel, so it is the same at both noise levels.",
                alt=f"the gap to the best objective against rounds at {n0} dBm/Hz. {_ends(curves)}",
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
    """Fig. 4: test accuracy against simulated time and against rounds."""
    end_s = float(np.nanmax(evidence.quiet["paota"].time_s))
    by_second = {m: _mean(*_on_grid(evidence.quiet[m], end_s)) for m in METHOD_LABELS}
    by_round = {m: _mean(np.arange(c.accuracy.shape[1]), c.accuracy) for m, c in evidence.quiet.items()}
    figure = line_chart(
        {
            axis: (
                [line(_series(m), curve) for m, curve in curves.items()],
                together(axes(title, y_format=SHARE_TICKS, y_hover=".2%"), level(0.8)),
            )
            for axis, title, curves in (("seconds", "simulated seconds", by_second), ("rounds", "round", by_round))
        },
        id="accuracy",
        title="Test accuracy",
        caption="The dotted line is 80 %. Choose seconds or rounds at the top of the page.",
        alt=f"test accuracy against simulated seconds or rounds. {_ends(by_second)}",
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
    """Accuracy of every seed at common times: the newest model's, as a device would see it."""
    grid = np.linspace(0, end_s, GRID_POINTS)
    rows = []
    for accuracy, time_s in zip(curves.accuracy, curves.time_s, strict=True):
        known = ~np.isnan(time_s)
        rows.append(accuracy[known][np.searchsorted(time_s[known], grid, side="right") - 1])
    return grid, np.array(rows)


def _mean(x: np.ndarray, values: Floats) -> Curve:
    """Mean over the seeds [seeds, points] and the band of their middle half."""
    low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
    return Curve(x=x, middle=np.nanmean(values, axis=0), low=low, high=high)


def _noise(evidence: Evidence) -> Section:
    panels = []
    for far, title in ((False, "No path loss (the paper)"), (True, "Log-distance path loss, 200 m")):
        traces = []
        for name, sweep in evidence.noise.items():
            if sweep.path_loss != far:
                continue
            middle = np.median(sweep.accuracy, axis=1)[1:]  # the first level means no noise
            kept = "physical" in name or "fading" in name  # within the power budget
            look = {"dash": "solid" if kept else "dot", "marker": {"symbol": "circle" if kept else "circle-open"}}
            curve = Curve(x=np.array(sweep.levels_dbm[1:]), middle=middle)
            traces.append(line(_series(name), curve) | {"mode": "lines+markers", "name": sweep.title} | look)
        lowest = min((trace["x"][0] for trace in traces), default=-math.inf)
        layout = axes("N₀ in dBm/Hz", y_format=SHARE_TICKS, y_hover=".1%", y_range=(0, 1))
        below = {"showlegend": True, "legend": {"orientation": "h", "y": -0.22, "x": 0}}
        panels.append(
            line_chart(
                {
                    "all": (
                        traces,
                        together(layout | below, *(level(n0, vertical=True) for n0 in (-174, -74) if n0 >= lowest)),
                    )
                },
                id=f"noise-{'far' if far else 'near'}",
                title=title,
                caption="Final test accuracy, median over the seeds. Hollow and dotted: any power that it takes; full: "
                "within the power budget.",
                alt=f"final test accuracy against the noise density. {title}.",
                height_px=460,
            )
        )
    return Section(
        id="noise",
        title="The noise sweep",
        intro="Final accuracy against the noise density. Dotted upright lines: the paper's two levels. As printed, an "
        "amplitude is capped at 15 whatever it costs; the physical cap keeps to 15 W.",
        figures=panels,
    )


def _ablations(cells: Cells) -> Section:
    beta = {"paota": cells["beta"], "paota-update": cells["beta-update"]}
    panels = [
        _swept("period", "Period ΔT in s, at equal time", _against(cells, "period", final)),
        _swept("classes", "Classes per device", _against(cells, "classes", final)),
        _swept("devices", "Devices K", _against(cells, "devices", final)),
        _swept("omega", "Ω", {"paota": _labelled(cells["omega"])}, x_log=True),
        _power_methods(beta),
        _swept(
            "period-seconds",
            "Period ΔT in s",
            _against(cells, "period", lambda cell, label: seconds_to(cell, label, 0.7)),
            quantity="Simulated seconds to 70 %",
            share=False,
        ),
    ]
    return Section(
        id="ablations",
        title="Ablations",
        intro="Median over the seeds with the middle half. The period is judged at equal simulated time, the rest after "
        "equal rounds. Optimised, staleness, similarity and uniform are ways to choose the power.",
        figures=[panel for panel in panels if panel],
    )


def _learning_rate(cells: Cells) -> Section:
    found = {method: _labelled(cells[f"eta-{method}"]) for method in METHOD_LABELS}
    figure = _swept("eta", "Learning rate η (all figures use 0.1)", found, x_log=True, mark=0.1, wide=True)
    return Section(
        id="eta",
        title="Sensitivity to the learning rate",
        intro="Nothing is tuned per method: one learning rate and one batch size for all.",
        figures=[figure] if figure else [],
    )


Swept = Mapping[str, tuple[list[float], Floats]]  # method -> values, quartiles [values, 3]


def _against(cells: Cells, kind: str, measure: Any) -> Swept:
    found = values_of(cells, kind)
    values = [value for _, value, _ in found]
    return {m: (values, np.array([quartiles(measure(cell, m)) for *_, cell in found])) for m in found[0][2].labels}


def _labelled(cell: Any) -> tuple[list[float], Floats]:
    return [float(name) for name in cell.labels], np.array([quartiles(final(cell, name)) for name in cell.labels])


def _swept(
    id: str, x_title: str, swept: Swept, *, quantity: str = "Final accuracy", share: bool = True, x_log: bool = False,
    mark: float | None = None, wide: bool = False,
) -> Figure | None:  # fmt: skip
    """A quantity against a setting, for each method, with whiskers; None if it was reached nowhere."""
    if not any(np.isfinite(triples).any() for _, triples in swept.values()):
        return None
    traces = []
    for method, (values, triples) in swept.items():
        low, middle, high = np.where(np.isfinite(triples), triples, np.nan).T
        curve = line(_series(method), Curve(x=np.array(values), middle=middle))
        traces.append(curve | {"mode": "lines+markers", "error_y": whiskers(low, middle, high)})
    layout = axes(x_title, x_log=x_log, y_format=SHARE_TICKS if share else ",", y_hover=".1%" if share else ",.4~g")
    values = sorted({value for values, _ in swept.values() for value in values})
    layout["xaxis"] |= {"tickvals": values, "ticktext": [f"{value:g}" for value in values]}
    if mark is not None:
        layout = together(layout, level(mark, vertical=True))
    return line_chart(
        {"all": (traces, layout)},
        id=id,
        title=f"{quantity}: {x_title}" if not wide else quantity,
        caption="Whiskers: the middle half of the seeds.",
        alt=f"{quantity.lower()} against {x_title}.",
        wide=wide,
    )


def _power_methods(by_method: Mapping[str, Any]) -> Figure:
    """The ways to choose the power side by side."""
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
        caption="Whiskers: the middle half of the seeds.",
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


def _series(label: str) -> int:
    """The method that a label begins with, as its place in the legend."""
    found = max((name for name in METHOD_LABELS if label.startswith(name)), key=len)
    return METHOD_LABELS.index(found)


def _ends(curves: Mapping[str, Curve]) -> str:
    return f"At the end: {', '.join(f'{NAMES[m]} {curve.middle[-1]:.3g}' for m, curve in curves.items())}."
