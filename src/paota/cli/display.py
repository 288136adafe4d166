"""What a person sees in the terminal while an experiment runs, and at its end."""

from __future__ import annotations

import math
from types import TracebackType
from typing import IO, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ..runs.results import Result, Trajectory
from ..simulate import Plan


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} rounds/s" if task.speed else "", style="dim")


class LiveProgress:
    """One bar an algorithm: rounds over all seeds, speed, newest accuracy, time left. Compiling is announced."""

    def __init__(self, plan: Plan, stream: IO[str]) -> None:
        self._bars = Progress(
            TextColumn("{task.fields[title]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            _Speed(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=Console(file=stream),
            transient=False,
        )
        self._tasks: dict[str, Any] = {}
        self._done: dict[str, dict[int, int]] = {}  # rounds by label and seed
        width = max(len(c.label) for c in plan.experiment.contestants)
        for contestant in plan.experiment.contestants:
            total = sum(len(plan.timelines[contestant.label, seed]) for seed in plan.seeds)
            title = escape(contestant.label.ljust(width))
            self._tasks[contestant.label] = self._bars.add_task(
                "", total=total, title=title, note="waiting", start=False
            )
            self._done[contestant.label] = {}

    def __enter__(self) -> LiveProgress:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def compiling(self, label: str) -> None:
        self._bars.update(self._tasks[label], note="compiling ...")

    def compiled(self, label: str, seconds: float) -> None:
        self._bars.start_task(self._tasks[label])
        self._bars.update(self._tasks[label], note=f"compiled in {seconds:.1f} s")

    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None:
        task = self._tasks[label]
        self._bars.start_task(task)
        self._done[label][seed] = round
        note = "" if math.isnan(accuracy) else f"accuracy {accuracy:.1%}"
        self._bars.update(task, completed=sum(self._done[label].values()), note=f"seed {seed}  {note}")

    def finished(self, trajectory: Trajectory) -> None:
        label = trajectory.label
        if trajectory.diverged_round is not None:
            note = f"seed {trajectory.seed} diverged in round {trajectory.diverged_round}"
            self._bars.console.print(f"[red]{escape(label)}: {note}; the others go on[/red]")
        self._done[label][trajectory.seed] = len(trajectory.metrics["round"]) - 1


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
