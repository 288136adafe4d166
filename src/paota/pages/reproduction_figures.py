"""The figures in the style of the paper. Each function draws one and saves it as PNG and PDF."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reproduce.catalogue import Scale
from ..reproduce.evidence import Curves, Evidence
from ..reproduce.gather import METHOD_LABELS, Cells, final, seconds_to, values_of
from ..runs.measures import Floats, quartiles
from .reproduction_style import LOOKS, NAMES, available, line, look, new_figure, rules, save

BAND = 0.15  # opacity of the middle half of the seeds


def draw_all(cells: Cells, evidence: Evidence, scale: Scale, folder: Path) -> list[str]:
    """All figures, by name; none without matplotlib."""
    if not available():
        return []
    from .reproduction_pictures import system, workflow

    made: dict[str, Callable[[], Any]] = {
        "fig1-system": lambda: system(cells["quiet"], devices=_devices(scale)),
        "fig2-workflow": lambda: workflow(cells["quiet"]),
        "fig3-gap": lambda: gap(evidence),
        "fig4-accuracy": lambda: accuracy(evidence),
    }
    if evidence.noise:
        made["noise"] = lambda: noise(evidence)
    if {"omega", "beta", "beta-update"} <= set(cells):
        made |= {"ablations": lambda: ablations(cells), "eta": lambda: eta(cells)}
    if any(name.startswith("bound-") for name in cells):
        made["bound"] = lambda: bound(cells)
    with rules():
        for name, draw in made.items():
            save(draw(), folder, name)
    return list(made)


def _devices(scale: Scale) -> int:
    return int(scale.base.get("data", {}).get("devices", 100))


def gap(evidence: Evidence) -> Any:
    """Fig. 3: E[F(w^r)] - F(w*) against rounds, both noise levels."""
    figure, axes = new_figure(2, height=2.6)
    for axis, setting, n0 in zip(axes, (evidence.quiet, evidence.loud), (-174, -74), strict=True):
        for method in METHOD_LABELS:
            source = setting if method in setting else evidence.quiet  # Local SGD knows no noise
            _curve(axis, np.arange(source[method].objective.shape[1]), evidence.gap(source, method), method)
        axis.set(xlabel="round", yscale="log", title=f"$N_0 = {n0}$ dBm/Hz")
    axes[0].set_ylabel(r"$E[F(w^r)] - F(w^*)$")
    axes[0].legend()
    return figure


def accuracy(evidence: Evidence) -> Any:
    """Fig. 4: test accuracy against rounds and against simulated time."""
    figure, axes = new_figure(2, height=2.6)
    end_s = float(np.nanmax(evidence.quiet["paota"].time_s))
    for method in METHOD_LABELS:
        curves = evidence.quiet[method]
        _curve(axes[0], np.arange(curves.accuracy.shape[1]), curves.accuracy, method)
        _curve(axes[1], *_on_grid(curves, end_s), method)
    for axis, label in zip(axes, ("round", "simulated time in s"), strict=True):
        axis.set(xlabel=label)
        axis.axhline(0.8, color="0.6", linewidth=0.6)
    axes[0].set_ylabel("test accuracy")
    axes[1].legend(loc="lower right")
    return figure


def _on_grid(curves: Curves, end_s: float) -> tuple[Floats, Floats]:
    """Accuracy of every seed at common times: the newest model's, as a device would see it."""
    grid = np.linspace(0, end_s, 200)
    rows = []
    for accuracy, time_s in zip(curves.accuracy, curves.time_s, strict=True):
        known = ~np.isnan(time_s)
        rows.append(accuracy[known][np.searchsorted(time_s[known], grid, side="right") - 1])
    return grid, np.array(rows)


def _curve(axis: Any, x: NDArray[Any], values: Floats, method: str) -> None:
    """Mean over seeds and the band of their middle half."""
    axis.plot(x, np.nanmean(values, axis=0), label=NAMES[method], **line(method))
    low, high = np.nanquantile(values, [0.25, 0.75], axis=0)
    axis.fill_between(x, low, high, color=LOOKS[method]["color"], alpha=BAND, linewidth=0)


def noise(evidence: Evidence) -> Any:
    """The sweep that the paper should have shown: final accuracy against N0, with and without path loss."""
    figure, axes = new_figure(2, height=3.0)
    for axis, far in zip(axes, (False, True), strict=True):
        for name, sweep in evidence.noise.items():
            if sweep.path_loss != far:
                continue
            x, y = sweep.levels_dbm[1:], np.median(sweep.accuracy, axis=1)[1:]
            within_budget = "physical" in name or "fading" in name
            hollow = {} if within_budget else {"markerfacecolor": "white"}
            style = {**look(name), "linestyle": "-" if within_budget else ":", **hollow}
            axis.plot(x, y, label=sweep.title, **style)
        for n0 in (-174, -74):
            axis.axvline(n0, color="0.7", linewidth=0.6, zorder=0)
        axis.set(
            xlabel=r"$N_0$ in dBm/Hz",
            ylim=(0, 1),
            title="log-distance path loss, 200 m" if far else "no path loss (the paper)",
        )
    axes[0].set_ylabel("final test accuracy")
    axes[0].legend(loc="lower left", fontsize=6)
    return figure


def ablations(cells: Cells) -> Any:
    figure, axes = new_figure(3, 2, width=7.0, height=2.2)
    panels = axes.ravel()
    _against(panels[0], cells, "period", r"period $\Delta T$ in s (equal time)")
    _against(panels[1], cells, "classes", "classes per device")
    _against(panels[2], cells, "devices", "devices $K$")
    _labels(panels[3], cells["omega"], r"$\Omega$", logarithmic=True)
    _bars(panels[4], {"paota": cells["beta"], "paota-update": cells["beta-update"]})
    _period_seconds(panels[5], cells)
    panels[0].set_ylabel("final accuracy")
    panels[3].set_ylabel("final accuracy")
    panels[1].legend(fontsize=6)
    return figure


def _against(axis: Any, cells: Cells, kind: str, label: str) -> None:
    found = values_of(cells, kind)
    for method in found[0][2].labels:
        triples = np.array([quartiles(final(cell, method)) for _, _, cell in found])
        _points(axis, [value for _, value, _ in found], triples, method)
    axis.set(xlabel=label)


def _points(axis: Any, x: Any, triples: Floats, method: str) -> None:
    low, middle, high = triples.T
    axis.errorbar(
        x, middle, yerr=[middle - low, high - middle], label=NAMES[method], capsize=1.5, elinewidth=0.6, **look(method)
    )


def _labels(axis: Any, cell: Any, label: str, *, logarithmic: bool = False) -> None:
    triples = np.array([quartiles(final(cell, name)) for name in cell.labels])
    _points(axis, [float(name) for name in cell.labels], triples, "paota")
    axis.set(xlabel=label, xscale="log" if logarithmic else "linear")


def _bars(axis: Any, by_method: Mapping[str, Any]) -> None:
    """The power methods side by side."""
    for shift, (method, cell) in zip((-0.2, 0.2), by_method.items(), strict=True):
        triples = np.array([quartiles(final(cell, name)) for name in cell.labels])
        low, middle, high = triples.T
        axis.bar(
            np.arange(len(middle)) + shift, middle, width=0.36, yerr=[middle - low, high - middle],
            color=LOOKS[method]["color"], error_kw={"elinewidth": 0.6, "capsize": 1.5},
        )  # fmt: skip
    names = next(iter(by_method.values())).labels
    axis.set_xticks(range(len(names)), [{"exact": "optimised"}.get(name, name) for name in names], rotation=20)
    axis.set(xlabel=r"$\beta$", ylim=(max(0.0, axis.get_ylim()[1] - 0.5), None))


def _period_seconds(axis: Any, cells: Cells) -> None:
    found = values_of(cells, "period")
    for method in found[0][2].labels:
        triples = np.array([quartiles(seconds_to(cell, method, 0.7)) for _, _, cell in found])
        triples[~np.isfinite(triples)] = np.nan
        _points(axis, [value for _, value, _ in found], triples, method)
    axis.set(xlabel=r"period $\Delta T$ in s", ylabel="seconds to 70 %")


def eta(cells: Cells) -> Any:
    """One learning rate for all: what if it were another one?"""
    figure, axis = new_figure(1, height=2.5)
    for method in METHOD_LABELS:
        cell = cells[f"eta-{method}"]
        triples = np.array([quartiles(final(cell, name)) for name in cell.labels])
        _points(axis, [float(name) for name in cell.labels], triples, method)
    axis.axvline(0.1, color="0.7", linewidth=0.6, zorder=0)
    axis.set(xscale="log", xlabel=r"learning rate $\eta$ (all figures use 0.1)", ylabel="final accuracy")
    axis.legend()
    return figure


def bound(cells: Cells) -> Any:
    """Theorem 1 beside the measured gap, for a learning rate at which Lemma 1 holds."""
    figure, axis = new_figure(1, height=2.5)
    arrays = cells["bound-0.001"].arrays
    rounds = arrays["round"]
    axis.plot(rounds, arrays["gap"], color="black", label="measured gap")
    for form, dash in (("printed", "--"), ("corrected", "-")):
        values = np.asarray(arrays[f"{form}_bound"], dtype=float)
        if np.isfinite(values).all():
            axis.plot(rounds, values, dash, color="#0072b2", label=f"Theorem 1, {form}")
    axis.set(xlabel="round", ylabel=r"$F(w^r) - F(w^*)$", yscale="log", title=r"$\eta = 0.001$")
    axis.legend()
    return figure
