"""How a figure looks: a conference paper's column, readable in grey, one colour and one dash for each method."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

COLUMN_INCHES = 3.5
# Okabe and Ito's colour-blind-safe colours; the dash says the same thing a second time.
LOOKS: dict[str, dict[str, Any]] = {
    "paota": {"color": "#0072b2", "linestyle": "-", "marker": "o"},
    "paota-update": {"color": "#009e73", "linestyle": "-.", "marker": "^"},
    "local-sgd": {"color": "#333333", "linestyle": "--", "marker": "s"},
    "cotaf": {"color": "#d55e00", "linestyle": ":", "marker": "D"},
}
NAMES = {"paota": "PAOTA", "paota-update": "PAOTA (update)", "local-sgd": "Local SGD", "cotaf": "COTAF"}
RULES: dict[Any, Any] = {
    "font.size": 8,
    "font.family": "DejaVu Serif",
    "mathtext.fontset": "dejavuserif",
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "paota",  # the same data, the same bytes
}


def available() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def rules() -> Any:
    """A context in which everything is drawn in our style, and nobody else's settings are touched."""
    import matplotlib

    return matplotlib.rc_context(RULES)


def new_figure(columns: int = 1, rows: int = 1, *, width: float | None = None, height: float = 2.5) -> Any:
    """(figure, axes); `height` is that of one row, in inches. Call it, and draw, inside `rules()`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width or COLUMN_INCHES * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns)


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """name.png and name.pdf; each appears whole or not at all, and without a date inside."""
    from ..runs.files import atomic

    made = []
    with rules():
        for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Producer": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
            path = folder / f"{name}.{kind}"
            with atomic(path) as stream:
                stream.write(buffer.getvalue())
            made.append(path)
    return made


def look(label: str, position: int = 0) -> dict[str, Any]:
    """Colour, dash and marker of a method, whatever follows its name in the label."""
    known = next((LOOKS[name] for name in sorted(LOOKS, key=len, reverse=True) if label.startswith(name)), None)
    return known or {"color": f"C{position % 10}", "linestyle": "-", "marker": "o"}


def line(label: str) -> dict[str, Any]:
    """The look of a curve with too many points for markers."""
    return {key: value for key, value in look(label).items() if key != "marker"}
