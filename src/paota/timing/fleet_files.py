"""Files of fleets, CSV or Parquet: read, checked to the last row, written."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError, install_command, unknown_name
from ..base.files import atomic
from .fleet import RATES, Fleet, Floats, Ints, row_order

COLUMNS = ("device", "time_s", "available", *RATES)
ALSO = {
    "time": "time_s", "timestamp": "time_s", "t": "time_s", "id": "device", "client": "device", "client_id": "device",
    "active": "available", "online": "available", "seconds": "latency_s", "latency": "latency_s", "flops": "gflop_per_s",
    "gflops": "gflop_per_s", "speed": "gflop_per_s", "down": "down_mbit_per_s", "up": "up_mbit_per_s",
    "download_mbps": "down_mbit_per_s", "upload_mbps": "up_mbit_per_s",
}  # fmt: skip
SWITCH = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "0.0": 0.0, "1.0": 1.0}
MAX_BYTES = 2**30
MAX_ROWS = 50_000_000
ROWS_AT_ONCE = 10_000


class _Column(NamedTuple):
    value: Floats
    missing: NDArray[np.bool_]  # an empty cell: as in the row before


_CACHE: dict[tuple[str, int, int], Fleet] = {}


def read_fleet(path: str | Path) -> Fleet:
    """The fleet in a CSV or Parquet file.

    Args:
        path: of the file; what is wrong with it is a `UserError` that names it, and the line.
    """
    file = Path(path)
    if not file.is_file():
        raise UserError(f"no such fleet file: '{path}'")
    stat = file.stat()
    if stat.st_size > MAX_BYTES:
        raise UserError(f"'{path}' is larger than {MAX_BYTES >> 20} MiB: too large for a fleet")
    key = (str(file.resolve()), stat.st_mtime_ns, stat.st_size)
    if key not in _CACHE:
        read = _read_parquet if _is_parquet(file) else _read_csv
        made = _assembled(file, read(file))
        while len(_CACHE) >= 8:
            del _CACHE[next(iter(_CACHE))]
        _CACHE[key] = made
    return _CACHE[key]


def write_fleet(path: str | Path, fleet: Fleet) -> None:
    """Write a fleet as Parquet where the name ends so, else as CSV; the file appears whole or not at all."""
    file = Path(path)
    device = np.repeat(np.arange(len(fleet)), np.diff(fleet.offsets))
    if file.suffix in (".parquet", ".pq"):
        arrow, parquet = _pyarrow()
        names = arrow.array(fleet.names).take(arrow.array(device))
        table = {"device": names, "time_s": fleet.time_s, "available": fleet.available, **fleet.rates}
        with atomic(file) as stream:
            parquet.write_table(arrow.table(table), stream)
        return
    with atomic(file) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["device", "time_s", "available", *fleet.rates])
        numbers = [[f"{x:.10g}" for x in column.tolist()] for column in (fleet.time_s, *fleet.rates.values())]
        present = fleet.available.astype(int).tolist()
        names_of = [fleet.names[k] for k in device.tolist()]
        writer.writerows(zip(names_of, numbers[0], present, *numbers[1:], strict=True))
        text.flush()
        text.detach()  # the stream is closed by whoever opened it


def _is_parquet(file: Path) -> bool:
    with file.open("rb") as stream:
        return file.suffix in (".parquet", ".pq") or stream.read(4) == b"PAR1"


def _check_columns(file: Path, names: list[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            error = unknown_name("column", name, COLUMNS, ALSO)
            raise UserError(f"'{file}': {error}")
    if len(set(names)) < len(names):
        raise UserError(f"'{file}' names a column twice: {', '.join(names)}")
    if "device" not in names or len(names) == 1:
        raise UserError(f"'{file}' needs the column device and at least one of: {', '.join(COLUMNS[1:])}")
    if "available" in names and "time_s" not in names:
        raise UserError(f"'{file}' says who is available, but not when: it needs the column time_s")


class _Rows(NamedTuple):
    """What a file holds, row by row as it stands there."""

    names: list[str]  # of the devices
    device: Ints  # which of them each row is of
    columns: dict[str, _Column]
    line: Ints  # where in the file


def _read_csv(file: Path) -> _Rows:
    number: dict[str, int] = {}
    parts: list[tuple[Ints, dict[str, _Column], Ints]] = []
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            header = [name.strip() for name in next(reader, [])]
            _check_columns(file, header)
            for lines, rows in _chunks(file, reader, len(header)):
                cells = dict(zip(header, zip(*rows, strict=True), strict=True))
                names = cells.pop("device")
                if "" in names:
                    raise UserError(f"'{file}' line {lines[names.index('')]} names no device")
                for name in dict.fromkeys(names):
                    number.setdefault(name, len(number))
                code = np.array(list(map(number.__getitem__, names)), np.int64)
                columns = {name: _parsed(file, name, column, lines) for name, column in cells.items()}
                parts.append((code, columns, lines))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"'{file}' is not a readable CSV file ({error})") from None
    if not parts:
        raise UserError(f"'{file}' holds no devices")
    joined = {
        name: _Column(*(np.concatenate(pieces) for pieces in zip(*(part[1][name] for part in parts), strict=True)))
        for name in parts[0][1]
    }
    device, line = (np.concatenate([part[i] for part in parts]) for i in (0, 2))  # type: ignore[misc]
    return _Rows(list(number), device, joined, line)


def _chunks(file: Path, reader: Any, width: int) -> Iterator[tuple[Ints, list[list[str]]]]:
    """(numbers of the lines, their cells); empty lines count, and stand for nothing."""
    first = 2
    while chunk := list(itertools.islice(reader, ROWS_AT_ONCE)):
        lengths = np.array(list(map(len, chunk)))
        wrong = np.flatnonzero((lengths != width) & (lengths != 0))
        if len(wrong):
            where = f"'{file}' line {first + wrong[0]}"
            raise UserError(f"{where} has {lengths[wrong[0]]} cells, and the first line {width}")
        lines = first + np.flatnonzero(lengths)
        first += len(chunk)
        if len(lines):
            yield lines, chunk if len(lines) == len(chunk) else [row for row in chunk if row]


def _parsed(file: Path, name: str, cells: tuple[str, ...], lines: Ints) -> _Column:
    """The numbers in a column of texts, which stand in these lines."""
    try:
        if name == "available":
            read = {cell: SWITCH[cell.strip().lower()] if cell else 0.0 for cell in set(cells)}
            value = list(map(read.__getitem__, cells))
        elif "" in cells:
            value = [float(cell) if cell else 0.0 for cell in cells]
        else:
            value = list(map(float, cells))
    except (ValueError, KeyError):
        wrong = next(i for i, cell in enumerate(cells) if cell and not _readable(name, cell))
        wanted = "0, 1, true or false" if name == "available" else "a number"
        raise UserError(f"'{file}' line {lines[wrong]}: {name} must be {wanted}, not '{cells[wrong][:40]}'") from None
    missing = np.array([not cell for cell in cells]) if "" in cells else np.zeros(len(cells), bool)
    return _Column(np.array(value), missing)


def _readable(name: str, cell: str) -> bool:
    if name == "available":
        return cell.strip().lower() in SWITCH
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(file: Path) -> _Rows:
    arrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(file) as opened:
            if opened.metadata.num_rows > MAX_ROWS:
                raise UserError(f"'{file}' has more than {MAX_ROWS:,} rows: too many for a fleet")
            _check_columns(file, list(opened.schema_arrow.names))
            table = opened.read().combine_chunks()
        if not len(table):
            raise UserError(f"'{file}' holds no devices")
        device = table["device"].cast(arrow.string())
        if device.null_count:
            raise UserError(f"'{file}' row {int(np.argmax(device.is_null().to_numpy())) + 1} names no device")
        coded = device.combine_chunks().dictionary_encode()
        columns = {}
        for name in table.column_names:
            if name == "device":
                continue
            column = table[name]
            if arrow.types.is_boolean(column.type):
                column = column.cast(arrow.uint8())
            missing = column.is_null().to_numpy()
            columns[name] = _Column(column.cast(arrow.float64()).fill_null(0.0).to_numpy(), missing)
        rows = np.arange(1, len(table) + 1)
        return _Rows(coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64), columns, rows)
    except (arrow.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())[:200]
        raise UserError(f"'{file}' is not a readable Parquet file ({text})") from None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(f"Parquet files need pyarrow: {install_command('parquet')}") from None
    return pyarrow, pyarrow.parquet


def _assembled(file: Path, rows: _Rows) -> Fleet:
    """The fleet of these rows, in whatever order they stand."""
    names, code, columns, line = rows
    word = "row" if _is_parquet(file) else "line"

    def where(row: Any) -> str:
        return f"'{file}' {word} {line[int(row)]}"

    time_s = _moments(columns.pop("time_s", None), len(code), where)
    by_name, order, offsets = row_order(names, code, time_s)
    device, time_s = code[order], time_s[order]
    twice = np.flatnonzero((np.diff(device) == 0) & (np.diff(time_s) == 0))
    if len(twice):
        again = max(order[twice[0]], order[twice[0] + 1])
        raise UserError(
            f"{where(again)} says something of device '{names[code[again]]}' for a time that has a row already"
        )
    filled = {}
    for name, (value, missing) in columns.items():
        _check_values(name, value, missing, where)
        filled[name] = _filled(name, value[order], missing[order], offsets, lambda row: where(order[row]))
    available = filled.pop("available", np.ones(len(code))) > 0.5
    return Fleet(tuple(names[k] for k in by_name), offsets, time_s, available, filled)


def _moments(column: _Column | None, rows: int, where: Callable[[Any], str]) -> Floats:
    if column is None:
        return np.zeros(rows)
    bad = np.flatnonzero(column.missing | ~np.isfinite(column.value) | (column.value < 0))
    if len(bad):
        shown = "nothing" if column.missing[bad[0]] else f"{column.value[bad[0]]:g}"
        raise UserError(f"{where(bad[0])}: time_s must be a finite number of seconds, at least 0, not {shown}")
    return column.value


def _check_values(name: str, value: Floats, missing: NDArray[np.bool_], where: Callable[[Any], str]) -> None:
    if name == "available":
        bad, wanted = ~missing & (value != 0) & (value != 1), "0 or 1"
    else:
        bad, wanted = ~missing & ~((value > 0) & np.isfinite(value)), "a finite number above 0"
    if bad.any():
        wrong = int(np.argmax(bad))
        shown = "NaN" if math.isnan(value[wrong]) else f"{value[wrong]:g}"
        raise UserError(f"{where(wrong)}: {name} must be {wanted}, not {shown}")


def _filled(
    name: str, value: Floats, missing: NDArray[np.bool_], offsets: Ints, where: Callable[[int], str]
) -> Floats:  # fmt: skip
    """With the value of the device's row before in every empty cell."""
    if not missing.any():
        return value
    known = np.maximum.accumulate(np.where(missing, -1, np.arange(len(value))))
    lost = np.flatnonzero(known < np.repeat(offsets[:-1], np.diff(offsets)))
    if len(lost):
        raise UserError(f"{where(int(lost[0]))}: {name} is empty, and its device has no row before that would say it")
    return value[known]
