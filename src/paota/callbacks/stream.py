"""Files that grow during a run: a CSV table of rounds for other programs, and the state for the live dashboard.

The run folder of an unfinished run holds both. `rounds.csv` gets one line per round. `live.json` is replaced about once per
second: the progress of every unit, running compilations and the speed. Both are removed at the end of the run, when
`metrics.csv` holds everything.
"""

from __future__ import annotations

import contextlib
import csv
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ..base import files
from ..base.errors import UserError
from ..base.settings import LARGEST_FLOAT, LARGEST_WHOLE
from ..base.types import Json, Table
from .base import Callback, Progress, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result

FILE = "rounds.csv"
LIVE_FILE = "live.json"
FORMAT = 1  # of live.json
WRITE_EVERY_S = 1.0
SPEED_OVER_S = 10.0
# The content of `live.json`: a float may be null, and the key `...` means any label.
SHAPE: Table = {
    "title": str, "score": str, "began": float, "ended": bool, "rounds_per_second": float,
    "units": [{"label": str, "algorithm": str, "seed": int, "rounds": int, "done": int, "state": str, "accuracy": float}],
    "compiling": {...: float},
}  # fmt: skip


class CsvStream(Callback):
    """A CSV file with one line per round, each written at once: `tail -f` shows them immediately.

    The columns are those of `metrics.csv`; a missing number is an empty cell. Lines of different units may alternate, those
    of one unit are in order. An existing file is overwritten.

    Args:
        path: of the file (default: `rounds.csv` in the run folder).
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def start(self, run: Start) -> None:
        if self._path is None and run.folder is None:
            raise UserError("this run keeps no folder: name the file of the stream, e.g. CsvStream('rounds.csv')")
        self._path, given = Path(self._path or (run.folder or Path()) / FILE), self._path is not None
        with self._refusing():
            if not given:
                self._path.unlink(missing_ok=True)  # it may be a link or a pipe, which must not be followed
            self._file = self._path.open("w", encoding="utf-8", newline="", buffering=1)  # line by line
        self._writer, self._begun = csv.writer(self._file, lineterminator="\n"), False

    def round(self, round: Round) -> None:
        row = {"label": round.label, "algorithm": round.algorithm, "seed": round.seed, **round.metrics}
        with self._refusing():
            if not self._begun:
                self._writer.writerow(row)
                self._header = list(row)  # a metric of the user's own that comes later is not in the stream
            self._begun = True
            self._writer.writerow(files.cell_of(row.get(name, "")) for name in self._header)

    def end(self, result: Result | None) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # already reported
                self._file.close()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot write '{self._path}': {error.strerror}") from None


class LiveStream(Progress):
    """The writer of both files in the run folder. If writing fails, the run continues without a live dashboard."""

    def __init__(self) -> None:
        self._table, self._failed = CsvStream(), False

    def start(self, run: Start) -> None:
        super().start(run)
        assert run.folder is not None
        self._file = run.folder / LIVE_FILE
        self._try(self._table.start, run)
        self._began, self._written = time.time(), 0.0
        self._pace: deque[tuple[float, int]] = deque()  # (time, rounds so far)
        self._write(ended=False)

    def compile(self, label: str, seconds: float | None) -> None:
        super().compile(label, seconds)
        self._write(ended=False)

    def round(self, round: Round) -> None:
        self._try(self._table.round, round)
        super().round(round)
        if time.monotonic() - self._written >= WRITE_EVERY_S:
            self._write(ended=False)

    def end(self, result: Result | None) -> None:
        self._table.end(result)
        self._write(ended=True)

    def _write(self, *, ended: bool) -> None:
        self._written = time.monotonic()
        content = {
            "format": FORMAT, "title": self.run.title, "score": self.run.score, "began": self._began, "ended": ended,
            "units": [vars(unit) for unit in self.units.values()], "compiling": self.compiling,
            "rounds_per_second": self._speed(),
        }  # fmt: skip
        self._try(files.write_json, self._file, content)

    def _try(self, write: Callable[..., None], *arguments: object) -> None:
        if self._failed:
            return
        try:
            write(*arguments)
        except UserError:
            self._failed = True

    def _speed(self) -> float | None:
        """Return the recent rounds per second of all units together."""
        now, done = time.monotonic(), sum(unit.done for unit in self.units.values())
        self._pace.append((now, done))
        while now - self._pace[0][0] > SPEED_OVER_S and len(self._pace) > 2:
            self._pace.popleft()
        then, before = self._pace[0]
        return (done - before) / (now - then) if now > then and done > before else None


def check_state(state: Json) -> None:
    """Raise a ValueError that names the first part of a `live.json` that `LiveStream` cannot have written."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"its format is not {FORMAT}")
    for name in SHAPE.keys() & state.keys():
        _check(state[name], SHAPE[name], name)


def _check(value: Json, shape: Json, where: str) -> None:
    """Raise a ValueError that names the first part of `value` with another shape."""
    parts: list[tuple[Json, Json]] = []
    if isinstance(shape, dict):
        right = type(value) is dict and (... in shape or shape.keys() <= value.keys())
        parts = [(key, shape.get(key, shape.get(...))) for key in (value if ... in shape else shape)] if right else []
    elif isinstance(shape, list):
        right = type(value) is list
        parts = [(i, shape[0]) for i in range(len(value))] if right else []
    elif shape is float:
        right = value is None or (type(value) in (int, float) and abs(value) <= LARGEST_FLOAT)
    else:
        right = type(value) is shape and (shape is not int or 0 <= value <= LARGEST_WHOLE)
    if not right:
        raise ValueError(f"{where:.80} is {value!r:.80}")
    for key, part in parts:
        _check(value[key], part, f"{where}.{key}")
