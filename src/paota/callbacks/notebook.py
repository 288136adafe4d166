"""A progress bar in a notebook cell, redrawn in place with IPython."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING

from ..base.formatting import Score
from .base import Progress, Round, Start, UnitProgress

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory

REDRAW_S = 0.2


class NotebookBar(Progress):
    """A table with one row per algorithm: rounds of all seeds, newest score, compilation.

    In a notebook, `paota.run` shows one by default, unless another one is given.
    """

    def start(self, run: Start) -> None:
        super().start(run)
        self._drawn, self._handle, self._note = 0.0, None, dict[str, str]()
        self._draw()

    def compile(self, label: str, seconds: float | None) -> None:
        super().compile(label, seconds)
        self._note[label] = "compiling …" if seconds is None else f"compiled in {seconds:.1f} s"
        self._draw()

    def round(self, round: Round) -> None:
        super().round(round)
        if round.evaluated:
            score = Score(self.run.score)
            self._note[round.label] = f"{score.name} {score.compact(round.test_accuracy, 1)}"
        if time.monotonic() - self._drawn > REDRAW_S:
            self._draw()

    def finish(self, trajectory: Trajectory) -> None:
        super().finish(trajectory)
        unit = self.units[trajectory.label, trajectory.seed]
        if unit.state != "finished":
            self._note[unit.label] = f"seed {unit.seed} {unit.state} in round {unit.done}"
        self._draw()

    def end(self, result: Result | None) -> None:
        self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display  # optional

        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = display(HTML(self.html()), display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(HTML(self.html()))

    def html(self) -> str:
        """Return the cell's content: one progress bar per algorithm, in the notebook's colours."""
        rows = []
        by_label: dict[str, list[UnitProgress]] = {}
        for unit in self.units.values():
            by_label.setdefault(unit.label, []).append(unit)
        for label, units in by_label.items():
            total, done = sum(unit.rounds for unit in units), sum(unit.done for unit in units)
            note = html.escape(self._note.get(label, "waiting"))
            rows.append(
                f"<tr><td style='text-align:left'>{html.escape(label)}</td>"
                f"<td><progress max='{total}' value='{done}' style='width:14em'></progress></td>"
                f"<td>{done}/{total} rounds</td><td style='text-align:left'>{note}</td></tr>"
            )
        return f"<table aria-label='Progress of {html.escape(self.run.title, quote=True)}'>{''.join(rows)}</table>"


def in_notebook() -> bool:
    """Return whether this code runs in a notebook's kernel, which can show and replace HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"
