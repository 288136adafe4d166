"""The progress display of many runs in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

from ..terminal.display import ProgressDisplay
from .pool import Update


class TasksDisplay(ProgressDisplay):
    """One row over many jobs, with the names of those in progress. Failures are printed as they happen.

    Args:
        title: of the row.
        noun: the name of the jobs, in the plural.
        names: the names of the jobs by key.
        stream, output: as for a `ProgressDisplay`.
        work: the amount of work of each job by key (default: equal amounts).
    """

    def __init__(
        self,
        title: str,
        noun: str,
        names: Mapping[str, str],
        stream: IO[str],
        *,
        work: Mapping[str, float] | None = None,
        output: IO[str] | None = None,
    ) -> None:
        super().__init__(stream, output)
        self._noun, self._names, self._work = noun, names, work or dict.fromkeys(names, 1.0)
        self._share: dict[str, float] = {}
        self._ended: set[str] = set()
        self._row = self._add(title, sum(self._work.values()), count=self._count, note="starting")

    def __call__(self, update: Update) -> None:
        if update.kind == "failed":
            self._warn(f"{self._names[update.key]}: failed: {update.reason}")
        if update.kind != "advanced":
            self._ended.add(update.key)
        self._share[update.key] = update.share if update.kind == "advanced" else 1.0
        done = sum(self._work[key] * share for key, share in self._share.items())
        in_progress = [self._names[key] for key in self._share if key not in self._ended]
        self._update(self._row, done, count=self._count, note="; ".join(in_progress[:3]))

    @property
    def _count(self) -> str:
        return f"{len(self._ended)}/{len(self._names)} {self._noun}"
