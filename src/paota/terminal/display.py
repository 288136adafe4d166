"""The progress display of the terminal."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import IO, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID
from rich.table import Column
from rich.text import Text

from ..base.formatting import Score
from ..callbacks.base import Callback, Round, Start
from ..results.result import Result, Trajectory

REDRAW_S = 0.1
PLAIN_EVERY_S = 5.0  # between two lines where the output is no terminal


class _Cell(ProgressColumn):
    """A column of text. It is cut off where the window is narrow, so that a row remains one line."""

    def __init__(self, text: Callable[[Task], str], style: str = "", max_width: int | None = None) -> None:
        super().__init__(Column(no_wrap=True, overflow="ellipsis", max_width=max_width))
        self._text, self._style = text, style

    def render(self, task: Task) -> Text:
        return Text(self._text(task), style=self._style)


def _speed(task: Task) -> str:
    return f"{task.speed:.1f} {task.fields['unit']}/s" if task.speed and task.fields["unit"] else ""


def _note(task: Task) -> str:
    """Return what a row is doing, with the seconds since it began."""
    since = task.fields["since"]
    return task.fields["note"] + ("" if since is None else f" {time.monotonic() - since:.0f} s")


def _left(task: Task) -> str:
    """Return the estimated time to the end."""
    return "" if task.finished or task.time_remaining is None else str(timedelta(seconds=task.time_remaining))


class ProgressDisplay:
    """Rows of title, bar, count, speed, note and time left, redrawn while the `with` block runs.

    Without a terminal, a plain line is printed every few seconds, and one at the end.

    Args:
        stream: where the rows are drawn, if it is a terminal.
        output: where the command writes its result. If it is no terminal, as in `paota run > log.txt`, it gets the lines.
    """

    def __init__(self, stream: IO[str], output: IO[str] | None = None) -> None:
        self._bars = Progress(
            _Cell(lambda task: task.fields["title"], max_width=20),
            BarColumn(bar_width=None, table_column=Column(max_width=24)),  # the one column that shrinks at once
            _Cell(lambda task: task.fields["count"]),
            _Cell(_speed, "dim"),
            _Cell(_note),
            _Cell(_left, "cyan"),
            console=Console(file=stream, highlight=False),
        )
        self._drawn = self._bars.console.is_terminal
        self._lines: Console | None = None if self._drawn else self._bars.console
        if output is not None and not output.isatty():
            self._lines = Console(file=output, highlight=False)
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()

    def _show(self) -> None:
        if self._lines is not None:
            threading.Thread(target=self._print_lines, name="paota display", daemon=True).start()
        if self._drawn:
            self._bars.start()

    def _hide(self) -> None:
        if self._drawn:
            self._bars.stop()
        if not self._over.is_set():
            self._over.set()
            self._print_line()

    def _print_lines(self) -> None:
        while not self._over.wait(PLAIN_EVERY_S):
            self._print_line()

    def _print_line(self) -> None:
        """Print all rows in one line."""
        rows = []
        for row in self._bars.tasks:
            left = _left(row) and f"{_left(row)} left"
            rows.append((row.fields["title"].strip(), row.fields["count"], _speed(row), _note(row), left))
        if self._lines is not None:
            self._lines.print(" | ".join(" ".join(filter(None, row)) for row in rows), markup=False, soft_wrap=True)

    def _add(self, title: str, total: float, *, count: str, note: str = "", unit: str = "") -> TaskID:
        """Add a row, with a speed if it has a `unit`. The clock of its speed starts with the first `_update`."""
        since = time.monotonic() if note else None
        return self._bars.add_task(
            "", total=total, start=False, title=title, count=count, note=note, unit=unit, since=since
        )

    def _update(self, row: TaskID, completed: float, *, count: str, note: str) -> None:
        self._bars.start_task(row)
        self._bars.update(row, completed=completed, count=count, note=note, since=None)

    def _warn(self, text: str) -> None:
        """Print a line that stays above the rows."""
        self._bars.console.print(text, style="red", markup=False, soft_wrap=True)


class RunDisplay(ProgressDisplay, Callback):
    """The progress of one run: a row per algorithm, in rounds over all seeds, with the newest score."""

    def start(self, run: Start) -> None:
        self._rounds = {(unit.label, unit.seed): unit.rounds for unit in run.units}
        self._totals: dict[str, int] = {}
        for unit in run.units:
            self._totals[unit.label] = self._totals.get(unit.label, 0) + unit.rounds
        self._done: dict[str, dict[int, int]] = {label: {} for label in self._totals}  # rounds by seed
        width = max(map(len, self._totals))
        self._rows = {
            label: self._add(label.ljust(width), total, count=f"0/{total}", note="waiting", unit="rounds")
            for label, total in self._totals.items()
        }
        self._newest = dict.fromkeys(self._totals, "")  # score
        self._score = Score(run.score)
        self._redrawn = dict.fromkeys(self._totals, -math.inf)
        self._show()

    def compile(self, label: str, seconds: float | None) -> None:
        if seconds is None:
            self._bars.update(self._rows[label], note="compiling", since=time.monotonic())
        else:
            self._bars.update(self._rows[label], note=f"compiled in {seconds:.1f} s", since=None)

    def round(self, round: Round) -> None:
        self._done[round.label][round.seed] = round.round
        if round.evaluated:
            self._newest[round.label] = f", {self._score.name} {self._score.compact(round.test_accuracy, 1)}"
        if round.round and (round.round == round.rounds or time.monotonic() - self._redrawn[round.label] > REDRAW_S):
            self._draw(round.label, round.seed)

    def _draw(self, label: str, seed: int) -> None:
        self._redrawn[label] = time.monotonic()
        done = sum(self._done[label].values())
        note = f"seed {seed}{self._newest[label]}"
        self._update(self._rows[label], done, count=f"{done}/{self._totals[label]}", note=note)

    def finish(self, trajectory: Trajectory) -> None:
        t = trajectory
        if t.diverged_round is not None:
            self._warn(f"{t.label}: seed {t.seed} diverged in round {t.diverged_round}; the others continue")
        if t.stopped_round is not None:  # the remaining rounds are not computed
            self._totals[t.label] -= self._rounds[t.label, t.seed] - t.stopped_round
            self._bars.update(self._rows[t.label], total=self._totals[t.label])
        self._draw(t.label, t.seed)

    def end(self, result: Result | None) -> None:
        self._hide()
