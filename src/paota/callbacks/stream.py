"""A table that grows while a run goes on, for other programs to follow."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.files import cell_of
from .base import Callback, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result

FILE = "rounds.csv"


class CsvStream(Callback):
    """Writes a line into a CSV file for every round, whole and at once: `tail -f` shows them as they come.

    The columns are those of `metrics.csv`; a missing number is an empty cell. Units take turns, each in the order of
    its rounds. An existing file is begun anew.

    Args:
        path: of the file (default: `rounds.csv` in the run folder).
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._writer: Any = None

    def start(self, run: Start) -> None:
        if self._path is None and run.folder is None:
            raise UserError("this run keeps no folder: say which file the stream goes to, e.g. CsvStream('rounds.csv')")
        self._path, given = Path(self._path or (run.folder or Path()) / FILE), self._path is not None
        with self._refusing():
            if not given:
                self._path.unlink(missing_ok=True)  # never written through: it may be a link or a pipe
            self._file = self._path.open("w", encoding="utf-8", newline="", buffering=1)  # line by line
        self._writer, self._begun = csv.writer(self._file, lineterminator="\n"), False

    def round(self, round: Round) -> None:
        row = {"label": round.label, "algorithm": round.algorithm, "seed": round.seed, **round.metrics}
        with self._refusing():
            if not self._begun:
                self._writer.writerow(row)
            self._begun = True
            self._writer.writerow(map(cell_of, row.values()))

    def end(self, result: Result | None) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # told when it happened
                self._file.close()

    @contextlib.contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"cannot write '{self._path}': {error.strerror}") from None
