"""Figures of Theorem 1: the measured gap beside every form of the bound, and the terms of G."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from ...pages.export import available, export
from ...pages.figure import OWN_LEGEND, Figure, Trace, View, axes, line_chart, numbers, scatter
from ...pages.page import Section

TERMS = {
    "a": "(a) heterogeneity",
    "b": "(b) staleness, drift",
    "c": "(c) mini-batch noise",
    "d": "(d) staleness, weights",
    "e": "(e) channel noise",
}
FORMS = {"printed": "dash", "corrected": "solid", "dependent": "dot"}


def bound_figures(columns: Mapping[str, ArrayLike]) -> list[Figure]:
    """Return the figure of gap and bounds against rounds, and that of the mean of each term of G.

    Forms that are not finite are left out.

    Args:
        columns: The table of `Analysis.table`: round, gap, FORM_bound and FORM_a to FORM_e of each form, [R+1] each.
    """
    table = {name: np.asarray(values, dtype=float) for name, values in columns.items()}
    curves = {"measured gap": ("gap", "$text", "solid")} | {
        f"Theorem 1, {form}": (f"{form}_bound", "$accent", dash) for form, dash in FORMS.items()
    }
    lines: list[Trace] = []
    for name, (column, colour, dash) in curves.items():
        values = table.get(column, np.array(np.nan))
        if np.isfinite(values).all():
            positive = np.where(values > 0, values, np.nan)
            look = {"color": colour, "dash": dash}
            lines.append(scatter("lines", table["round"], positive, name=name, line=look, hoverinfo="all"))
    figures = [
        line_chart(
            {"all": (lines, axes("round", log=True, y_hover=".3g") | OWN_LEGEND)},
            id="bound",
            title="F(wʳ) − F(w*)",
            caption="The measured gap, and the largest gap that each form of the theorem allows.",
            alt="the measured gap and the forms of the bound of Theorem 1 against rounds.",
        )
    ]
    # Row r holds the G that led to model r, so row 0 has none.
    means = {form: [float(np.mean(table[f"{form}_{term}"][1:])) for term in TERMS] for form in ("printed", "corrected")}
    if np.isfinite(means["corrected"]).all():
        figures.append(_terms(means))
    return figures


def draw(columns: Mapping[str, ArrayLike], folder: Path) -> None:
    """Write bound.png and bound.pdf to `folder`, if matplotlib is installed."""
    if available():
        section = Section(id="bound", title="Theorem 1", intro="", figures=bound_figures(columns))
        export(section, (), folder)


def _terms(means: Mapping[str, list[float]]) -> Figure:
    bars: list[Trace] = [
        {"type": "bar", "name": form, "x": [*TERMS.values()], "y": numbers(means[form]), "marker": {"color": colour}}
        for form, colour in (("printed", "$rule"), ("corrected", "$accent"))
    ]
    layout = axes("term of G", log=True, y_hover=".3g", category=True) | OWN_LEGEND | {"barmode": "group"}
    return Figure(
        id="bound-terms",
        title="Mean over the rounds of each term of Gʳ",
        caption="The largest term limits how tight the bound is.",
        alt="Bar chart of the mean of each of the five terms of the bound, printed and corrected.",
        views={"all": View(traces=bars, layout=layout, columns=("term", "mean over the rounds"))},
    )
