"""What the run tells about one device's data: the account of differential privacy, where updates were clipped."""

from __future__ import annotations

import numpy as np

from ...air.privacy import DELTA
from ...base.columns import metric
from ...pages.curves import column
from ...pages.page import Section, Table, TableCell, TableRow
from .quantity import quantity_figure
from .study import Entry, Study

# Prefix of the columns: whose noise hides a device.
NOISES = {
    "": "receiver's noise alone",
    "own_": "with the device's own",
    "all_": "with that of all who send",
}


def privacy_section(study: Study, points: int) -> Section | None:
    """The privacy loss of the device that lost most, by whose noise is counted; None where nothing was clipped."""
    accounted = [entry for entry in study.entries if np.isfinite(column(entry.metrics, "rho_max")).any()]
    if not accounted:
        return None
    shown = [prefix for prefix in NOISES if any(_known(entry, f"{prefix}rho_max") for entry in accounted)]
    figures = [
        quantity_figure(
            study,
            points,
            metric(f"{prefix}epsilon_max"),
        )
        for prefix in shown
    ]
    return Section(
        id="privacy",
        title="Privacy",
        intro="What the server, or whoever hears what it hears, can learn about one device's data at most. Updates were "
        "clipped, so that noise hides something. Devices are trusted to clip; amplitudes, norms and who takes part are "
        "taken as public.",
        tables=[_card(accounted, shown)],
        figures=[figure for figure in figures if figure],
    )


def _card(entries: list[Entry], prefixes: list[str]) -> Table:
    return Table(
        label="Privacy loss",
        heads=["Algorithm", *(head for _ in prefixes for head in ("rho", f"epsilon at {DELTA:g}"))],
        groups=[(NOISES[prefix], 2) for prefix in prefixes],
        rows=[
            TableRow(
                head=TableCell(text=entry.name),
                cells=[_cell(entry, f"{prefix}{name}_max") for prefix in prefixes for name in ("rho", "epsilon")],
                series=entry.index,
            )
            for entry in entries
        ],
    )


def _known(entry: Entry, name: str) -> bool:
    return bool(np.isfinite(column(entry.metrics, name)).any())


def _cell(entry: Entry, name: str) -> TableCell:
    """The largest of all seeds: a promise holds for every run."""
    values = column(entry.metrics, name)
    if not np.isfinite(values).any():
        return TableCell(text="–", muted=True)
    return TableCell(text=f"{np.nanmax(values):.3g}")
