"""Gathers the arrays of claims, tables and figures from stored cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...results.measures import Floats
from .catalogue import METHODS, Scale, level_label, levels_of, noise_series
from .cells import Stored
from .evidence import Curves, Evidence, NoiseCurve, Radiated, Setting

Cells = Mapping[str, Stored]
METHOD_LABELS = tuple(str(m.get("label", m["name"])) for m in METHODS)


def gather(cells: Cells, scale: Scale) -> Evidence:
    """Return the evidence of all claims, from the cells of the paper's own figures and of the noise sweep, if any."""
    quiet, loud, six = (_setting_of(cells[name]) for name in ("quiet", "loud", "six"))
    searched = np.min(cells["optimum-crossed"].arrays["values"], axis=1)
    return Evidence(
        quiet=quiet,
        loud=loud,
        six=six,
        optimum=lowest_seen(searched, [*quiet.values(), *loud.values()]),
        noise=_noise_of(cells, scale),
    )


def lowest_seen(searched: Floats, runs: Sequence[Curves]) -> Floats:
    """Return F(w*) of each seed, [seeds]: the best value of any search, unless a run went lower."""
    lowest: Floats = np.minimum.reduce([searched, *(np.nanmin(curves.objective, axis=1) for curves in runs)])
    return lowest


def _setting_of(cell: Stored) -> Setting:
    """Return the curves of all methods of a cell whose runs evaluate the whole objective, by label."""
    return {label: replace(accuracy_of(cell, label), objective=cell.of(label, "train_loss")) for label in cell.labels}


def accuracy_of(cell: Stored, label: str) -> Curves:
    """Return the curves of one method without its objective: sweeps only know the loss of the mini-batches."""
    return Curves(
        accuracy=cell.of(label, "test_accuracy"),
        time_s=cell.of(label, "time_s"),
        diverged=cell.diverged(label),
        radiated=radiated_by(cell, [label]),
    )


def final(cell: Stored, label: str) -> Floats:
    """Return the final accuracy of each seed, [seeds]."""
    return accuracy_of(cell, label).final_accuracy()


def radiated_by(cell: Stored, labels: Sequence[str]) -> Radiated | None:
    """Return the power of the transmissions of these labels together; None if they do not use the air."""
    watts, over = (
        np.concatenate([cell.of(label, column).ravel() for label in labels])
        for column in ("transmit_power_w_mean", "over_budget")
    )
    if np.isnan(watts).all():
        return None
    return Radiated(median_w=float(np.nanmedian(watts)), over_budget=float(np.nanmean(over)))


def _noise_of(cells: Cells, scale: Scale) -> dict[str, NoiseCurve]:
    """Return one curve for each series of the noise sweep that was run."""
    made = {}
    for series in noise_series():
        if f"noise-{series.name}" not in cells:
            continue
        cell, levels = cells[f"noise-{series.name}"], levels_of(series, scale)
        labels = [level_label(series, n0) for n0 in levels]
        made[series.name] = NoiseCurve(
            title=series.title,
            levels_dbm=levels,
            accuracy=np.array([final(cell, label) for label in labels]),
            path_loss=series.path_loss,
            radiated=radiated_by(cell, labels),  # over all levels, also those that decide
        )
    return made


def values_of(cells: Cells, kind: str) -> list[tuple[str, float, Stored]]:
    """Return the cells named `KIND=VALUE`, sorted by value."""
    found = [(name, float(name.partition("=")[2]), cell) for name, cell in cells.items() if name.startswith(f"{kind}=")]
    return sorted(found, key=lambda item: item[1])
