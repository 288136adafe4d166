"""Cells on disk: computed once, saved whole, found again if nothing about them has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..runs import files
from ..runs.results import Result
from .cells import Cell

KEPT = ("time_s", "ready", "test_accuracy", "train_loss", "noise_std", "over_budget")
DEVICES = ("round", "device", "staleness", "start_s", "finish_s", "power", "weight")


@dataclass(frozen=True)
class Stored:
    """What a cell gave: arrays by name, and plain facts."""

    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any]

    @property
    def labels(self) -> list[str]:
        return list(self.facts["labels"])

    def of(self, label: str, column: str) -> NDArray[np.float64]:
        """[seeds, rounds + 1]; a shorter run ends in NaN."""
        return np.asarray(self.arrays[f"{self.labels.index(label)}/{column}"], dtype=np.float64)


def path_of(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.name}.npz"


def find(folder: Path, cell: Cell) -> Stored | None:
    """The stored cell, or None if there is none, if it cannot be read, or if it came from other settings."""
    path = path_of(folder, cell)
    if not path.is_file():
        return None
    try:
        arrays = files.read_npz(path)
        facts = json.loads(arrays.pop("facts").astype(np.uint8).tobytes())
    except (UserError, KeyError, ValueError):
        return None
    return Stored(arrays, facts) if facts.get("digest") == cell.digest else None


def keep(folder: Path, cell: Cell, arrays: Mapping[str, NDArray[Any]], facts: Mapping[str, Any]) -> None:
    text = json.dumps(files.jsonable({**facts, "digest": cell.digest, "name": cell.name}))
    files.write_npz(path_of(folder, cell), {**arrays, "facts": np.frombuffer(text.encode(), np.uint8)})


def pack(result: Result) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The columns that figures need, and who took part when with the first seed of the first algorithm."""
    arrays: dict[str, NDArray[Any]] = {}
    for i, label in enumerate(result.labels):
        for column in KEPT:
            arrays[f"{i}/{column}"] = result.array(label, column).astype(np.float32)
    first = result.trajectories[0].devices
    arrays |= {f"devices/{column}": np.asarray(first[column]) for column in DEVICES}
    diverged = {label: sum(t.diverged_round is not None for t in result.of(label)) for label in result.labels}
    compute_s = sum(t.compute_s for t in result.trajectories)
    return arrays, {"labels": result.labels, "seeds": result.seeds, "diverged": diverged, "compute_s": compute_s}
