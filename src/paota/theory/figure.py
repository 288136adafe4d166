"""The picture of `paota bound`: measured gap and both bounds, and the terms of G beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .analysis import Analysis
from .theorem import FORMS

WORDS = {
    "a": "(a) heterogeneity",
    "b": "(b) staleness, drift",
    "c": "(c) mini-batch noise",
    "d": "(d) staleness, weights",
    "e": "(e) channel noise",
}


def draw(analysis: Analysis, folder: Path) -> None:
    """bound.png and bound.pdf in `folder`; nothing, if matplotlib is not installed."""
    from ..pages.reproduction_style import available, new_figure, rules, save

    if not available():
        return
    with rules():
        figure, (left, right) = new_figure(2, height=2.6)
        _bounds(analysis, left)
        _terms(analysis, right)
    save(figure, folder, "bound")


def _bounds(analysis: Analysis, left: Any) -> None:
    rounds = np.arange(len(analysis.gap))
    left.semilogy(rounds, analysis.gap, color="black", label="measured gap")
    for form, dash in zip(FORMS, ("--", "-"), strict=True):
        if np.isfinite(analysis.bounds[form]).all() and (analysis.bounds[form] > 0).all():
            left.semilogy(rounds, analysis.bounds[form], dash, color="C0", label=f"{form} bound")
    left.set(xlabel="round", ylabel=r"$F(w^r) - F(w^*)$")
    left.legend()


def _terms(analysis: Analysis, axes: Any) -> None:
    last = {form: [float(np.mean(v)) for v in analysis.terms[form]] for form in FORMS}
    if not np.isfinite(last["corrected"]).all():
        axes.text(
            0.5,
            0.5,
            "Theorem 1 does not apply:\n$2(\\eta M L)^2 \\geq 1$",
            ha="center",
            va="center",
            transform=axes.transAxes,
        )
        axes.set_axis_off()
        return
    places = np.arange(len(WORDS))
    for shift, form, colour in ((-0.2, "printed", "0.7"), (0.2, "corrected", "C0")):
        axes.barh(places + shift, last[form], height=0.36, color=colour, label=form)  # type: ignore[index]
    axes.set_yticks(places, list(WORDS.values()))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set(xlabel="mean over rounds of each term of $G^r$")
    axes.legend()
