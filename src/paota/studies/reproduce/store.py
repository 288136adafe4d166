"""Cells on disk, a folder each: computed once, found again if nothing about them has changed.

`cell.json`, written first, says which cell it is. A cell of runs is a run folder as `paota run` leaves it; the others hold
`arrays.npz`, and `facts.json`, written last.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import files
from ...base.errors import UserError
from ...results import folder as run_folder
from ...results.measures import Floats
from ...results.result import Result
from .cells import RUNS, Cell

CELL, ARRAYS, FACTS = "cell.json", "arrays.npz", "facts.json"


@dataclass(frozen=True)
class Stored:
    """What a cell gave: a result, or arrays by name and plain facts."""

    result: Result | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """Of the algorithms; none if the cell holds no runs."""
        return [] if self.result is None else self.result.labels

    def of(self, label: str, column: str) -> Floats:
        """One metric of one algorithm, [seeds, rounds + 1]; a shorter run ends in NaN."""
        assert self.result is not None
        return self.result.array(label, column)

    def diverged(self, label: str) -> NDArray[np.bool_]:
        """[seeds]."""
        assert self.result is not None
        return np.array([run.diverged_round is not None for run in self.result.of(label)])


def path_of(folder: Path, cell: Cell) -> Path:
    """The folder of a cell."""
    return folder / cell.name


def find(folder: Path, cell: Cell) -> Stored | None:
    """The stored cell, or None if there is none, if it cannot be read, or if it came from other settings."""
    path = path_of(folder, cell)
    try:
        if not _is_of(path, cell):
            return None
        if cell.kind != RUNS:
            return Stored(arrays=files.read_npz(path / ARRAYS), facts=files.read_json(path / FACTS))
        result = run_folder.load(path)
    except UserError:
        return None
    first = result.trajectories[0].devices  # for the pictures of who took part when
    return Stored(result, {f"devices/{name}": column for name, column in first.items()})


def prepare(folder: Path, cell: Cell) -> Path:
    """The folder of a cell that is to be computed: what was begun is kept, what is stale or damaged is removed."""
    path = path_of(folder, cell)
    try:
        begun = _is_of(path, cell) and not run_folder.is_finished(path)
    except UserError:
        begun = False
    if not begun:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        files.write_json(path / CELL, {"name": cell.name, "digest": cell.digest})
    return path


def keep(path: Path, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Finish the folder of a cell that holds no runs."""
    files.write_npz(path / ARRAYS, arrays)
    files.write_json(path / FACTS, facts)


def _is_of(path: Path, cell: Cell) -> bool:
    """Whether the folder was begun for this very cell."""
    found = files.read_json(path / CELL) if (path / CELL).is_file() else None
    return isinstance(found, dict) and found.get("digest") == cell.digest
