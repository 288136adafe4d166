"""What a person sees in the terminal while something is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from ..runs.pool import Update
from ..runs.results import Trajectory
from ..simulate import Plan


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


class RunDisplay(ProgressDisplay):
    """One run: a row an algorithm, in rounds over all seeds, with the newest accuracy. Compiling is announced."""

    def __init__(self, plan: Plan, stream: IO[str]) -> None:
        super().__init__(stream)
        labels = [contestant.label for contestant in plan.experiment.contestants]
        self._totals = {label: sum(len(plan.timelines[label, seed]) for seed in plan.seeds) for label in labels}
        self._done: dict[str, dict[int, int]] = {label: {} for label in labels}  # rounds by seed
        width = max(map(len, labels))
        self._rows = {
            label: self._add(label.ljust(width), total, count=f"0/{total}", note="waiting", unit="rounds")
            for label, total in self._totals.items()
        }

    def compiling(self, label: str) -> None:
        self._bars.update(self._rows[label], note="compiling ...")

    def compiled(self, label: str, seconds: float) -> None:
        self._bars.update(self._rows[label], note=f"compiled in {seconds:.1f} s")

    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None:
        self._done[label][seed] = round
        done = sum(self._done[label].values())
        note = f"seed {seed}" + ("" if math.isnan(accuracy) else f"  accuracy {accuracy:.1%}")
        self._update(self._rows[label], done, count=f"{done}/{self._totals[label]}", note=note)

    def finished(self, trajectory: Trajectory) -> None:
        t = trajectory
        if t.diverged_round is not None:
            self._warn(f"{t.label}: seed {t.seed} diverged in round {t.diverged_round}; the others go on")
        self._done[t.label][t.seed] = len(t.metrics["round"]) - 1


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
