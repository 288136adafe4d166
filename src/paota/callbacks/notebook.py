"""A progress bar in a notebook cell, drawn again in place; IPython is all it needs."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any

from .base import Callback, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory

REDRAW_S = 0.2


class NotebookBar(Callback):
    """A row an algorithm: rounds over all seeds, the newest score, what is being compiled.

    `paota.run` shows one by itself in a notebook, unless it is given another.
    """

    def start(self, run: Start) -> None:
        from ..base.formatting import Score

        self._title, self._drawn, self._handle, self._score = run.title, 0.0, None, Score(run.score)
        self._totals: dict[str, int] = {}
        for unit in run.units:
            self._totals[unit.label] = self._totals.get(unit.label, 0) + unit.rounds
        self._done: dict[str, dict[int, int]] = {label: {} for label in self._totals}
        self._note = dict.fromkeys(self._totals, "waiting")
        self._draw()

    def compile(self, label: str, seconds: float | None) -> None:
        self._note[label] = "compiling …" if seconds is None else f"compiled in {seconds:.1f} s"
        self._draw()

    def round(self, round: Round) -> None:
        self._done[round.label][round.seed] = round.round
        if round.evaluated:
            self._note[round.label] = f"{self._score.name} {self._score.compact(round.test_accuracy, 1)}"
        if time.monotonic() - self._drawn > REDRAW_S:
            self._draw()

    def finish(self, trajectory: Trajectory) -> None:
        label, last = trajectory.label, trajectory.metrics["round"][-1]
        if trajectory.diverged_round is not None:
            self._note[label] = f"seed {trajectory.seed} diverged in round {last}"
        elif trajectory.stopped_round is not None:
            self._note[label] += f", stopped in round {last}"
        self._draw()

    def end(self, result: Result | None) -> None:
        self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display

        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = display(HTML(self.html()), display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(HTML(self.html()))

    def html(self) -> str:
        """What the cell shows: one bar an algorithm, in the notebook's own colours."""
        rows = []
        for label, total in self._totals.items():
            done = sum(self._done[label].values())
            rows.append(
                f"<tr><td style='text-align:left'>{html.escape(label)}</td>"
                f"<td><progress max='{total}' value='{done}' style='width:14em'></progress></td>"
                f"<td>{done}/{total} rounds</td><td style='text-align:left'>{html.escape(self._note[label])}</td></tr>"
            )
        return f"<table aria-label='Progress of {html.escape(self._title, quote=True)}'>{''.join(rows)}</table>"


def in_notebook() -> bool:
    """Whether this code runs in a notebook's kernel, which can show and replace HTML."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
