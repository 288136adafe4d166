"""What a person sees while cells are computed: one bar for all rounds, and the cells that are under way."""

from __future__ import annotations

import time
from types import TracebackType
from typing import IO, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .cells import Cell


class Display:
    """Progress over all cells, in rounds; cells that were found on disk count as done from the start."""

    def __init__(self, stream: IO[str] | None = None, *, quiet: bool = False) -> None:
        console = Console(file=stream, quiet=quiet)
        self.console = console
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=30), TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}"),
            console=console,
        )  # fmt: skip
        self._under_way: dict[str, int] = {}
        self._finished = 0
        self._task: Any = None

    def __enter__(self) -> Display:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._bar.stop()

    def begin(self, todo: list[Cell], found: int) -> None:
        self._work = {cell.name: cell.work for cell in todo}
        self._started = time.perf_counter()
        self._task = self._bar.add_task("reproducing", total=sum(self._work.values()), note="")
        self._bar.start()
        if found:
            self.console.print(f"{found} cells are there already, {len(todo)} to compute")

    def tell(self, name: str, rounds: int) -> None:
        self._under_way[name] = min(rounds, self._work[name])
        self._refresh()

    def done(self, cell: Cell, seconds: float) -> None:
        self._under_way.pop(cell.name, None)
        self._finished += self._work[cell.name]
        self._refresh()

    def note_only(self, name: str, rounds: int) -> None:
        """For work that is not part of the bar."""

    def _refresh(self) -> None:
        names = ", ".join(sorted(self._under_way)[:3])
        self._bar.update(self._task, completed=self._finished + sum(self._under_way.values()), note=escape(names))
