"""What a person sees in the terminal while something is computed, and at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any, Self

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..callbacks.base import Callback, Round, Start
from ..runs.pool import Update
from ..runs.results import Result, Trajectory


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        shown = task.speed and task.fields["unit"]
        return Text(f"{task.speed:.1f} {task.fields['unit']}/s" if shown else "", style="dim")


class ProgressDisplay:
    """Rows of title, bar, count, speed, note and time left, redrawn while the `with` block runs."""

    def __init__(self, stream: IO[str]) -> None:
        self._bars = Progress(
            TextColumn("{task.fields[title]}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            _Speed(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=Console(file=stream, highlight=False),
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def _add(self, title: str, total: float, *, count: str, note: str = "", unit: str = "") -> TaskID:
        """A row; with a `unit` its speed is shown. The clock of its speed starts with the first `_update`."""
        return self._bars.add_task("", total=total, start=False, title=title, count=count, note=note, unit=unit)

    def _update(self, row: TaskID, completed: float, *, count: str, note: str) -> None:
        self._bars.start_task(row)
        self._bars.update(row, completed=completed, count=count, note=note)

    def _warn(self, text: str) -> None:
        """A line that stays, above the rows."""
        self._bars.console.print(text, style="red", markup=False)


class RunDisplay(ProgressDisplay, Callback):
    """One run: a row an algorithm, in rounds over all seeds, with the newest accuracy. Compiling is announced."""

    def start(self, run: Start) -> None:
        self._totals: dict[str, int] = {}
        for unit in run.units:
            self._totals[unit.label] = self._totals.get(unit.label, 0) + unit.rounds
        self._done: dict[str, dict[int, int]] = {label: {} for label in self._totals}  # rounds by seed
        width = max(map(len, self._totals))
        self._rows = {
            label: self._add(label.ljust(width), total, count=f"0/{total}", note="waiting", unit="rounds")
            for label, total in self._totals.items()
        }
        self._bars.start()

    def compile(self, label: str, seconds: float | None) -> None:
        self._bars.update(
            self._rows[label], note="compiling ..." if seconds is None else f"compiled in {seconds:.1f} s"
        )

    def round(self, round: Round) -> None:
        if not round.round:
            return
        self._done[round.label][round.seed] = round.round
        done = sum(self._done[round.label].values())
        note = f"seed {round.seed}" + (f"  accuracy {round.test_accuracy:.1%}" if round.judged else "")
        self._update(self._rows[round.label], done, count=f"{done}/{self._totals[round.label]}", note=note)

    def finish(self, trajectory: Trajectory) -> None:
        t = trajectory
        if t.diverged_round is not None:
            self._warn(f"{t.label}: seed {t.seed} diverged in round {t.diverged_round}; the others go on")

    def end(self, result: Result | None) -> None:
        self._bars.stop()


class TasksDisplay(ProgressDisplay):
    """Many tasks: one row over all of them, with those under way; failures are told as they happen.

    Args:
        title: of the row.
        noun: what a task is called, in the plural.
        names: of the tasks, by key.
        work: how much there is to do for each of them, by key (default: equally much).
    """

    def __init__(
        self, title: str, noun: str, names: Mapping[str, str], stream: IO[str], work: Mapping[str, float] | None = None
    ) -> None:
        super().__init__(stream)
        self._noun, self._names, self._work = noun, names, work or dict.fromkeys(names, 1.0)
        self._share: dict[str, float] = {}
        self._ended: set[str] = set()
        self._row = self._add(title, sum(self._work.values()), count=self._count)

    def __call__(self, update: Update) -> None:
        if update.kind == "failed":
            self._warn(f"{self._names[update.key]}: failed: {update.reason}")
        if update.kind != "advanced":
            self._ended.add(update.key)
        self._share[update.key] = update.share if update.kind == "advanced" else 1.0
        done = sum(self._work[key] * share for key, share in self._share.items())
        under_way = [self._names[key] for key in self._share if key not in self._ended]
        self._update(self._row, done, count=self._count, note="; ".join(under_way[:3]))

    @property
    def _count(self) -> str:
        return f"{len(self._ended)}/{len(self._names)} {self._noun}"


def show_summary(result: Result) -> None:
    """Accuracy at the end, after equal rounds and at equal simulated time; rounds and seconds to each target."""
    summary = result.summary
    seeds = len(summary["seeds"])
    rows = summary["algorithms"]
    title = escape(summary["name"]) + (f", median of {seeds} seeds" if seeds > 1 else "")
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))
    table.add_column("", no_wrap=True)
    accuracies = {
        "final_accuracy": "at the\nend",
        "accuracy_at_equal_rounds": f"after\n{summary['equal_rounds']} rounds",
        "accuracy_at_equal_time": f"after\n{summary['equal_time_s']:.0f} s",
    }
    if all(row["accuracy_at_equal_rounds"] == row["final_accuracy"] for row in rows.values()):
        del accuracies["final_accuracy"]
    for heading in accuracies.values():
        table.add_column(heading, justify="right")
    for target in summary["targets"]:
        table.add_column(f"{target:.0%} after\nrounds/s", justify="right", no_wrap=True)
    for label, row in rows.items():
        cells = [_percent(row[key]["median"]) for key in accuracies]
        for target in summary["targets"]:
            key = f"{target:g}"
            cells.append(_reached(row["rounds_to"][key], row["seconds_to"][key], seeds))
        table.add_row(escape(label) + (" [red](diverged)[/red]" if row["diverged"] else ""), *cells)
    console = Console()
    console.print(table)
    speeds = "  ".join(f"{escape(label)} {row['rounds_per_second']:.0f}" for label, row in rows.items())
    console.print(f"[dim]rounds a second of computation: {speeds}[/dim]", soft_wrap=True)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _reached(rounds: dict[str, Any], seconds: dict[str, Any], seeds: int) -> str:
    if not math.isfinite(rounds["median"]):
        return f"{rounds['reached']} of {seeds}" if rounds["reached"] else "never"
    return f"{rounds['median']:.0f}/{seconds['median']:.0f}"
