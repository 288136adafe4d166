"""From stored cells to the arrays that claims, tables and figures speak of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...results.measures import Floats
from .catalogue import METHODS, Scale, level_label, levels_of, noise_series
from .evidence import Curves, Evidence, NoiseCurve, Radiated, Setting
from .store import Stored

Cells = Mapping[str, Stored]
METHOD_LABELS = tuple(str(m.get("label", m["name"])) for m in METHODS)


def gather(cells: Cells, scale: Scale) -> Evidence:
    """Everything that the claims need, from the cells of the paper's own figures and, where it was run, the noise sweep."""
    targets = scale.base.get("targets", (0.5, 0.6, 0.7, 0.8))
    quiet, loud = setting_of(cells["quiet"]), setting_of(cells["loud"])
    searched = np.min(cells["optimum-crossed"].arrays["values"], axis=1)
    return Evidence(
        quiet=quiet,
        loud=loud,
        six=setting_of(cells["six"]),
        optimum=lowest_seen(searched, [*quiet.values(), *loud.values()]),
        noise=noise_of(cells, scale),
        targets=tuple(targets),
    )


def lowest_seen(searched: Floats, runs: Sequence[Curves]) -> Floats:
    """F(w*) of each seed: the best that any search found, unless some run went lower still."""
    lowest: Floats = np.minimum.reduce([searched, *(np.nanmin(curves.objective, axis=1) for curves in runs)])
    return lowest


def setting_of(cell: Stored) -> Setting:
    """The curves of all methods of a cell, by label."""
    return {label: curves_of(cell, label) for label in cell.labels}


def curves_of(cell: Stored, label: str) -> Curves:
    """The curves of one method in a cell whose runs look at the whole objective."""
    return replace(accuracy_of(cell, label), objective=cell.of(label, "train_loss"))


def accuracy_of(cell: Stored, label: str) -> Curves:
    """The curves of one method without its objective: sweeps only know the loss of the batches."""
    return Curves(
        accuracy=cell.of(label, "test_accuracy"),
        time_s=cell.of(label, "time_s"),
        diverged=cell.diverged(label),
        radiated=radiated_by(cell, [label]),
    )


def radiated_by(cell: Stored, labels: Sequence[str]) -> Radiated | None:
    """What the transmissions of these labels of a cell cost, taken together; None if they do not use the air."""
    watts, over = (
        np.concatenate([cell.of(label, column).ravel() for label in labels])
        for column in ("transmit_power_w_mean", "over_budget")
    )
    if np.isnan(watts).all():
        return None
    return Radiated(median_w=float(np.nanmedian(watts)), over_budget=float(np.nanmean(over)))


def noise_of(cells: Cells, scale: Scale) -> dict[str, NoiseCurve]:
    """One curve for each series of the noise sweep that was run."""
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
            radiated=radiated_by(cell, labels),  # at the levels that decide, too
        )
    return made


def final(cell: Stored, label: str) -> Floats:
    """Final accuracy of each seed, [seeds]."""
    return accuracy_of(cell, label).final_accuracy()


def seconds_to(cell: Stored, label: str, target: float) -> Floats:
    """Simulated seconds to a test accuracy, [seeds]; infinite for never."""
    return accuracy_of(cell, label).seconds_to(target)


def values_of(cells: Cells, kind: str) -> list[tuple[str, float, Stored]]:
    """The cells named `KIND=VALUE`, by value."""
    found = [(name, float(name.partition("=")[2]), cell) for name, cell in cells.items() if name.startswith(f"{kind}=")]
    return sorted(found, key=lambda item: item[1])
