"""Tables in the terminal: the summary of a run, and any table in a narrow window."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..base.formatting import Score, brief, over_budget
from ..base.types import Settings
from ..results.result import Result

Column = tuple[str, Sequence[str | Text]]  # heading, and a cell a row


def print_table(console: Console, title: str, rows: Column, columns: Sequence[Column]) -> None:
    """Print a table, in several parts below each other where the window is too narrow for all columns.

    Args:
        console: the window.
        title: of the table.
        rows: the heading over the names of the rows, and these names. They stand at the left of every part.
        columns: the other columns.
    """
    parts = fitting(console.width - _width(rows), columns)
    for i, part in enumerate(parts):
        more = f" ({i + 1} of {len(parts)}: the window is narrow)" if len(parts) > 1 else ""
        table = Table(
            title=Text(title + more), title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1)
        )
        table.add_column(Text(rows[0]), overflow="fold")
        for heading, _ in part:
            table.add_column(Text(heading), justify="right", overflow="fold")
        for name, *cells in zip(rows[1], *(cells for _, cells in part), strict=True):
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in (name, *cells)))
        console.print(table)


def fitting(room: int, columns: Sequence[Column]) -> list[list[Column]]:
    """Return the columns in groups that need at most `room` characters each. A wider column stands alone."""
    parts: list[list[Column]] = []
    left = 0
    for column in columns:
        need = _width(column)
        if not parts or need > left:
            parts.append([])
            left = room
        parts[-1].append(column)
        left -= need
    return parts or [[]]


def _width(column: Column) -> int:
    """Return how many characters a column needs, with the space beside it."""
    heading, cells = column
    return 1 + max((cell_len(line) for text in (heading, *map(str, cells)) for line in text.splitlines()), default=0)


def show_summary(result: Result) -> None:
    """Print the score at the end, after equal rounds and at equal simulated time, and rounds and seconds to targets."""
    summary = result.summary
    seeds, rows, score = len(summary["seeds"]), summary["algorithms"], Score(summary["score"])
    title = f"{summary['name']}: test {score.name}" + (f", median of {seeds} seeds" if seeds > 1 else "")
    headings = {
        "final_accuracy": "at the\nend",
        "accuracy_at_equal_rounds": f"after\n{summary['equal_rounds']} rounds",
        "accuracy_at_equal_time": f"after\n{brief(summary['equal_time_s'])} s",
    }
    if all(row["accuracy_at_equal_rounds"] == row["final_accuracy"] for row in rows.values()):
        del headings["final_accuracy"]
    columns: list[Column] = [
        (heading, [_shown(row[key]["median"], score) for row in rows.values()]) for key, heading in headings.items()
    ]
    for target in summary["targets"]:
        cells = [_reached(row, f"{target:g}", seeds) for row in rows.values()]
        columns.append((f"{score.compact(target)} after\nrounds (s)", cells))
    names = [Text.assemble(label, (" (diverged)" if row["diverged"] else "", "red")) for label, row in rows.items()]
    console = Console(highlight=False, markup=False)
    print_table(console, title, ("", names), columns)
    for label, row in rows.items():
        ends = ", ".join(f"{end['round']} (seed {end['seed']})" for end in row["stopped"])
        if ends:
            console.print(f"{label} was stopped in round {ends}", soft_wrap=True)
    for label, row in rows.items():
        if row["over_budget"]:
            console.print(f"{label} {over_budget(row['over_budget'])}", style="yellow", soft_wrap=True)
    speeds = "  ".join(f"{label} {brief(row['rounds_per_second'])}" for label, row in rows.items())
    console.print(f"rounds computed per second: {speeds}", style="dim", soft_wrap=True)


def divergences(summary: Settings) -> list[str]:
    """Return a sentence for each algorithm that diverged, with its seeds and rounds."""
    sentences = []
    for label, row in summary["algorithms"].items():
        cases = [f"seed {case['seed']} in round {case['round']}" for case in row["diverged"]]
        if cases:
            sentences.append(f"{label} diverged, its model is no longer finite: {', '.join(cases)}")
    return sentences


def _shown(value: float | None, score: Score) -> str:
    return "-" if value is None else score.compact(value, 1)


def _reached(row: Settings, target: str, seeds: int) -> str:
    """Return median rounds and seconds, and how many seeds reached the target if not all did."""
    rounds, seconds = row["rounds_to"][target], row["seconds_to"][target]
    some = f"{rounds['reached']} of {seeds} seeds" if 0 < rounds["reached"] < seeds else ""
    if not math.isfinite(rounds["median"]):
        return some or "never"
    return f"{rounds['median']:.0f} ({brief(seconds['median'])})" + (f"\n{some}" if some else "")
