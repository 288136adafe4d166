"""The CSV files of fleets and of latency traces: read, checked to the last row, written."""

from __future__ import annotations

import csv
import functools
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..base.errors import UserError, unknown_name
from ..base.files import atomic
from ..base.types import Bools, Floats, Ints
from .fleet import RATES, Fleet, row_order

COLUMNS = ("device", "time_s", "available", *RATES)
ALIASES = {
    "time": "time_s", "timestamp": "time_s", "t": "time_s", "id": "device", "client": "device", "client_id": "device",
    "active": "available", "online": "available", "seconds": "latency_s", "latency": "latency_s", "flops": "gflop_per_s",
    "gflops": "gflop_per_s", "speed": "gflop_per_s", "down": "down_mbit_per_s", "up": "up_mbit_per_s",
    "download_mbps": "down_mbit_per_s", "upload_mbps": "up_mbit_per_s",
}  # fmt: skip
SWITCH = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "0.0": 0.0, "1.0": 1.0}
MAX_BYTES = 2**30
ROWS_AT_ONCE = 10_000


class _Column(NamedTuple):
    value: Floats
    missing: Bools  # empty cells


class _Table(NamedTuple):
    """The content of a file, row by row in its own order."""

    source: str  # the name of the file in messages
    names: list[str]  # of the devices
    device: Ints  # index into `names`, for each row
    columns: dict[str, _Column]
    line: Ints  # number of each row's line in the file

    def where(self, row: int | np.int64) -> str:
        """Return the place of a row, for messages."""
        return f"{self.source} line {self.line[row]}"


def read_fleet(path: str | Path) -> Fleet:
    """Return the fleet in a CSV file (docs/timing.md lists the columns).

    Args:
        path: of the file. An error in it raises a `UserError` that names the file and the line.
    """
    return _fleet_of(Path(path), _identity(Path(path), f"no such fleet file: '{path}'"))


def read_trace(path: str) -> list[Floats]:
    """Return the latencies in seconds of each device in a trace, in the order of its rows; devices sorted by name.

    Args:
        path: a CSV file with the columns `device` and `latency_s`; other columns are ignored.
    """
    if not path:
        raise UserError("latency 'trace' needs timing.trace_file, a CSV with the columns device and latency_s")
    return _trace_of(Path(path), _identity(Path(path), f"timing.trace_file: no such file '{path}'"))


def write_fleet(path: str | Path, fleet: Fleet) -> None:
    """Write a fleet as CSV. The file appears whole or not at all."""
    device = np.repeat(np.arange(len(fleet)), np.diff(fleet.offsets))
    with atomic(Path(path)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["device", "time_s", "available", *fleet.rates])
        numbers = [[f"{x:.10g}" for x in column.tolist()] for column in (fleet.time_s, *fleet.rates.values())]
        present = fleet.available.astype(int).tolist()
        names_of = [fleet.names[k] for k in device.tolist()]
        writer.writerows(zip(names_of, numbers[0], present, *numbers[1:], strict=True))
        text.flush()
        text.detach()  # `atomic` closes the stream


def _identity(file: Path, absent: str) -> tuple[str, int, int]:
    """Return what identifies the content of a file, for the caches; refuse a missing or oversized file."""
    if not file.is_file():
        raise UserError(absent)
    stat = file.stat()
    if stat.st_size > MAX_BYTES:
        raise UserError(f"'{file}' is larger than {MAX_BYTES >> 20} MiB")
    return str(file.resolve()), stat.st_mtime_ns, stat.st_size


@functools.lru_cache(maxsize=8)
def _fleet_of(file: Path, identity: tuple[str, int, int]) -> Fleet:
    """Assemble the fleet from the rows of its file, in any order."""
    source = f"'{file}'"
    table = _read_csv(file, source, functools.partial(_check_header, source), COLUMNS[1:])
    if "time_s" in table.columns:
        _check_values(table, "time_s")
        time_s = table.columns.pop("time_s").value
    else:
        time_s = np.zeros(len(table.device))
    by_name, order, offsets = row_order(table.names, table.device, time_s)
    device, time_s = table.device[order], time_s[order]
    twice = np.flatnonzero((np.diff(device) == 0) & (np.diff(time_s) == 0))
    if len(twice):
        again = max(order[twice[0]], order[twice[0] + 1])
        name = table.names[table.device[again]]
        raise UserError(f"{table.where(again)} has a second row for device '{name}' at the same time")
    filled = {name: _filled(table, name, order, offsets) for name in table.columns}
    available = filled.pop("available", np.ones(len(device))) > 0.5
    return Fleet(tuple(table.names[k] for k in by_name), offsets, time_s, available, filled)


@functools.lru_cache(maxsize=8)
def _trace_of(file: Path, identity: tuple[str, int, int]) -> list[Floats]:
    source = f"timing.trace_file: '{file}'"

    def check_header(names: list[str]) -> None:
        if not {"device", "latency_s"} <= set(names):
            raise UserError(f"{source} needs the columns device and latency_s in its first line")

    table = _read_csv(file, source, check_header, ("latency_s",))
    _check_values(table, "latency_s")
    _, order, offsets = row_order(table.names, table.device, np.zeros(len(table.device)))
    return np.split(table.columns["latency_s"].value[order], offsets[1:-1])


def _check_header(source: str, names: list[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise UserError(f"{source}: {unknown_name('column', name, COLUMNS, ALIASES)}")
    if "device" not in names or len(names) == 1:
        raise UserError(f"{source} needs the column device and at least one of: {', '.join(COLUMNS[1:])}")
    if "available" in names and "time_s" not in names:
        raise UserError(f"{source} has the column available without times: it needs the column time_s")


def _read_csv(file: Path, source: str, check_header: Callable[[list[str]], None], wanted: Sequence[str]) -> _Table:
    """Read the column `device` and the `wanted` columns that the file has."""
    number: dict[str, int] = {}
    devices: list[Ints] = []
    lines: list[Ints] = []
    columns: dict[str, list[_Column]] = {}
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = [name.strip() for name in next(reader, [])]
            if len(set(header)) < len(header):
                raise UserError(f"{source} names a column twice: {', '.join(header)}")
            check_header(header)
            for line, rows in _chunks(source, reader, len(header)):
                cells = dict(zip(header, zip(*rows, strict=True), strict=True))
                names = cells["device"]
                if "" in names:
                    raise UserError(f"{source} line {line[names.index('')]} names no device")
                for name in dict.fromkeys(names):
                    number.setdefault(name, len(number))
                devices.append(np.array(list(map(number.__getitem__, names)), np.int64))
                lines.append(line)
                for name in set(header) & set(wanted):
                    columns.setdefault(name, []).append(_parsed(source, name, cells[name], line))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{source} is not a readable CSV file ({error})") from None
    if not devices:
        raise UserError(f"{source} has no rows")
    joined = {
        name: _Column(*map(np.concatenate, zip(*columns[name], strict=True))) for name in header if name in columns
    }
    return _Table(source, list(number), np.concatenate(devices), joined, np.concatenate(lines))


def _chunks(source: str, reader: Iterator[list[str]], width: int) -> Iterator[tuple[Ints, list[list[str]]]]:
    """Yield (line numbers, cells of these lines) of many lines at once; empty lines are skipped, but counted."""
    first = 2
    while chunk := list(itertools.islice(reader, ROWS_AT_ONCE)):
        lengths = np.array(list(map(len, chunk)))
        wrong = np.flatnonzero((lengths != width) & (lengths != 0))
        if len(wrong):
            where = f"{source} line {first + wrong[0]}"
            raise UserError(f"{where} has {lengths[wrong[0]]} cells, and the first line {width}")
        lines = first + np.flatnonzero(lengths)
        first += len(chunk)
        if len(lines):
            yield lines, [row for row in chunk if row]


def _parsed(source: str, name: str, cells: Sequence[str], line: Ints) -> _Column:
    """Convert the cells of a column to numbers; `line` [n] are their lines."""
    switch = name == "available"
    value: list[float] = []
    try:
        for cell in cells:
            value.append(0.0 if not cell else SWITCH[cell.strip().lower()] if switch else float(cell))
    except (ValueError, KeyError):
        wrong, wanted = len(value), "0, 1, true or false" if switch else "a number"
        raise UserError(f"{source} line {line[wrong]}: {name} must be {wanted}, not '{cells[wrong][:40]}'") from None
    return _Column(np.array(value), np.array([not cell for cell in cells]))


def _check_values(table: _Table, name: str, *, gaps: bool = False) -> None:
    """Refuse the first value that is not finite and above 0 (times: at least 0); with `gaps`, cells may be empty."""
    value, missing = table.columns[name]
    is_time = name == "time_s"
    good = np.isfinite(value) & ((value >= 0) if is_time else (value > 0))
    bad = np.flatnonzero(np.where(missing, not gaps, ~good))
    if len(bad):
        wanted = "a finite number of seconds, at least 0" if is_time else "a finite number above 0"
        shown = "nothing" if missing[bad[0]] else f"{value[bad[0]]:g}".replace("nan", "NaN")
        raise UserError(f"{table.where(bad[0])}: {name} must be {wanted}, not {shown}")


def _filled(table: _Table, name: str, order: Ints, offsets: Ints) -> Floats:
    """Return a column in the order of the fleet; an empty cell repeats the device's row before."""
    if name != "available":  # which `_parsed` has checked
        _check_values(table, name, gaps=True)
    column = table.columns[name]
    value, missing = column.value[order], column.missing[order]
    if not missing.any():
        return value
    known = np.maximum.accumulate(np.where(missing, -1, np.arange(len(value))))
    lost = np.flatnonzero(known < np.repeat(offsets[:-1], np.diff(offsets)))
    if len(lost):
        where = table.where(order[lost[0]])
        raise UserError(f"{where}: {name} is empty, and the device has no earlier row with a value")
    return value[known]
