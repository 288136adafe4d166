"""Reading a run folder that somebody else writes, again and again, each time only what is new."""

from __future__ import annotations

import csv
import io
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..callbacks.stream import FILE as TABLE
from ..errors import UserError
from ..experiment import read_toml
from ..runs import files
from ..runs.files import Columns
from ..runs.folder import METRIC_TYPES, UNFINISHED, is_finished
from .stream import FILE, FORMAT


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run as its folder shows it now. `state` is what `live.json` holds, empty before the first."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any]
    metrics: Columns
    finished: bool
    silent_s: float  # since the folder last changed


class Follower:
    """One run folder. Lines that are still being written are left for the next look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begin_anew()
        self._state: dict[str, Any] = {}
        self._changed = time.monotonic()

    def look(self) -> Snapshot:
        """What there is now."""
        finished = is_finished(self.folder)
        state, news = self._read_state(), self._read_table()
        if news or state != self._state:
            self._state, self._changed = state, time.monotonic()
        settings = self._read_settings()
        return Snapshot(
            name=str(state.get("title") or settings.get("name", self.folder.name)),
            settings=settings, state=self._state, metrics=self._metrics(), finished=finished,
            silent_s=time.monotonic() - self._changed,
        )  # fmt: skip

    def _read_state(self) -> dict[str, Any]:
        try:
            found = files.read_json(self.folder / FILE)
        except UserError:
            return self._state  # not there yet, or removed since
        return found if isinstance(found, dict) and found.get("format") == FORMAT else {}

    def _read_settings(self) -> dict[str, Any]:
        """As the file has them: a page needs no plug-in."""
        try:
            return read_toml(self.folder / "experiment.toml")
        except UserError:
            return {}

    def _begin_anew(self) -> None:
        self._offset, self._header = 0, list[str]()
        self._cells: list[list[Any]] = []

    def _read_table(self) -> bool:
        """Take in whole new lines; whether there were any."""
        try:
            with (self.folder / TABLE).open("rb") as stream:
                if stream.seek(0, 2) < self._offset:  # begun anew: the run was resumed
                    self._begin_anew()
                stream.seek(self._offset)
                text = stream.read()
        except OSError:
            return False
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        rows = list(csv.reader(io.StringIO(whole.decode("utf-8", "replace"), newline="")))
        if rows and not self._header:
            self._header, *rows = rows
            self._cells = [[] for _ in self._header]
        for row in rows:
            if len(row) == len(self._header):
                for cells, name, cell in zip(self._cells, self._header, row, strict=True):
                    cells.append(files.text_of(cell) if METRIC_TYPES.get(name) is str else _number(cell))
        return bool(whole)

    def _metrics(self) -> Columns:
        return {
            name: np.array(cells, dtype=object if METRIC_TYPES.get(name) is str else float)
            for name, cells in zip(self._header, self._cells, strict=True)
        }


def is_run(folder: Path) -> bool:
    """Whether a run was begun, or has ended, in this folder."""
    return any((folder / name).is_file() for name in (FILE, UNFINISHED, "run.json"))


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan
