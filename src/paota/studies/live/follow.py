"""Repeated reading of a run folder that another process writes; each reading takes only what is new."""

from __future__ import annotations

import csv
import io
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...base import files
from ...base.bounded import read_regular
from ...base.errors import UserError
from ...base.files import Columns
from ...base.settings import LARGEST_FLOAT, LARGEST_WHOLE
from ...base.types import Table
from ...callbacks.stream import FILE as ROUNDS
from ...callbacks.stream import LIVE_FILE, check_state
from ...experiment.files import read_toml
from ...experiment.sections import check_outline
from ...results.folder import METRIC_TYPES, UNFINISHED, is_finished

MAX_TABLE_BYTES = 2**28
STEP_BYTES = 2**23  # parsed at once; cells take more memory than their text
NEEDED = ("label", "seed", "round")  # columns that every table must have


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A run as its folder shows it now.

    `state` is the content of `live.json`, empty before its first version; `problem` is a sentence if that file cannot
    be read.
    """

    name: str
    settings: Table = field(default_factory=dict)
    state: Table
    metrics: Columns
    finished: bool
    silent_s: float  # since the folder last changed
    problem: str = ""


class Follower:
    """A reader of one run folder. It leaves unfinished lines for the next reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._begin_anew()
        self._state: Table = {}
        self._problem = ""
        self._changed = time.monotonic()

    def look(self) -> Snapshot:
        """Return the present state of the folder."""
        finished = is_finished(self.folder)
        state, news = self._read_state(), self._read_table()
        if news or state != self._state:
            self._state, self._changed = state, time.monotonic()
        settings = self._read_settings()
        return Snapshot(
            name=str(state.get("title") or settings.get("name", self.folder.name)),
            settings=settings, state=self._state, metrics=self._metrics, finished=finished,
            silent_s=time.monotonic() - self._changed, problem=self._problem,
        )  # fmt: skip

    def _read_state(self) -> Table:
        file, self._problem = self.folder / LIVE_FILE, ""
        try:
            found = files.read_json(file)
            check_state(found)
        except (UserError, ValueError) as error:
            if not file.exists():
                return self._state  # not there yet, or removed since
            self._problem = str(error) if isinstance(error, UserError) else f"'{file}' is damaged: {error}"
            return {}
        state: Table = found
        return state

    def _read_settings(self) -> Table:
        """Return the table of the experiment file; a page needs none of its plug-ins."""
        try:
            table = read_toml(self.folder / "experiment.toml")
            check_outline(table)
            return table
        except UserError:
            return {}

    def _begin_anew(self) -> None:
        self._offset, self._header = 0, list[str]()
        self._metrics: Columns = {}

    def _read_table(self) -> bool:
        """Take in whole new lines; return whether there were any."""
        file, before = self.folder / ROUNDS, self._offset
        try:
            if file.stat().st_size < self._offset:  # a resumed run writes a new table
                self._begin_anew()
            while whole := self._next_lines(file):
                self._offset += len(whole)
                self._take_in(whole.decode("utf-8", "replace"))
        except (OSError, UserError, csv.Error):  # missing, or not written by a run
            pass
        return self._offset != before

    def _next_lines(self, file: Path) -> bytes:
        text = read_regular(file, most=MAX_TABLE_BYTES, start=self._offset, length=STEP_BYTES)
        return text[: text.rfind(b"\n") + 1]

    def _take_in(self, text: str) -> None:
        """Add whole lines to the table, without lines that have no seed or round."""
        rows = list(csv.reader(io.StringIO(text, newline="")))
        if not self._header:
            self._header, *rows = rows
        if not set(NEEDED) <= set(self._header):
            return
        cells = zip(*(row for row in rows if len(row) == len(self._header)), strict=True)
        new = {name: _column(name, column) for name, column in zip(self._header, cells, strict=False)}
        if new:
            placed = (abs(new["seed"]) <= LARGEST_WHOLE) & (abs(new["round"]) <= LARGEST_WHOLE)  # NaN is not
            for name, column in new.items():
                self._metrics[name] = np.concatenate([self._metrics.get(name, column[:0]), column[placed]])


def is_run(folder: Path) -> bool:
    """Return True if a run has started or ended in this folder."""
    return any((folder / name).is_file() for name in (LIVE_FILE, UNFINISHED, "run.json"))


def _column(name: str, cells: tuple[str, ...]) -> np.ndarray:
    if METRIC_TYPES.get(name) is str:
        return np.array([files.text_of(cell) for cell in cells], dtype=object)
    return np.array([_number(cell) for cell in cells], dtype=float)


def _number(cell: str) -> float:
    """Return the number in a cell, NaN for text that no run writes."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if abs(value) <= LARGEST_FLOAT else math.nan
