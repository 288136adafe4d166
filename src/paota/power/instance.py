"""Instances from files: JSON or CSV text in, arguments of `paota.power.solve` out. Anything broken is a UserError."""

from __future__ import annotations

import csv
import io
import json
from pathlib import PurePath
from typing import Any, BinaryIO

import numpy as np

from ..base.errors import UserError, unknown_name
from .checks import Flags, Vector

MAX_BYTES = 256 * 2**20
"""The largest instance file that is read: room for several million devices."""

DEVICE_KEYS = ("p_max", "staleness", "similarity", "rho", "theta", "lo", "hi", "ready")
SCALAR_KEYS = (
    "omega",
    "smoothness",
    "epsilon2",
    "num_devices",
    "num_parameters",
    "noise_power_w",
    "bandwidth_hz",
    "n0_dbm_per_hz",
)
_FLAG_WORDS = {"1": True, "0": False, "true": True, "false": False, "yes": True, "no": False}


def read_bounded(stream: BinaryIO, source: str) -> bytes:
    """All bytes of a stream, unless they are more than an instance can sensibly be."""
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UserError(f"{source} is larger than {MAX_BYTES // 2**20} MiB, the most that an instance may have")
    return data


def parse(data: bytes, source: str) -> dict[str, Any]:
    """The arguments that a JSON or CSV text holds; the name decides which, or else the first character."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{source} is not UTF-8 text") from None
    if not text.strip():
        raise UserError(f"{source} is empty")
    suffix = PurePath(source).suffix.lower()
    if suffix == ".json" or (suffix != ".csv" and text.lstrip()[0] in "{["):
        return _parse_json(text, source)
    return _parse_csv(text, source)


def _parse_json(text: str, source: str) -> dict[str, Any]:
    def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            names = [name for name, _ in pairs]
            raise UserError(f"{source}: the key '{next(n for n in names if names.count(n) > 1)}' is given twice")
        return table

    try:
        table = json.loads(text, object_pairs_hook=without_repeats)
    except RecursionError:
        raise UserError(f"{source} is nested too deeply to be an instance") from None
    except ValueError as error:
        raise UserError(f"{source} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise UserError(f'{source} must hold one JSON object such as {{"p_max": [15, 15], ...}}')
    arguments: dict[str, Any] = {}
    for key, value in table.items():
        if key in DEVICE_KEYS:
            arguments[key] = _device_values(key, value, source)
        elif key in SCALAR_KEYS:
            arguments[key] = _number(key, value, source)
        else:
            raise _unknown("key", key, source)
    return arguments


def _device_values(key: str, value: Any, source: str) -> Any:
    """A number (or flag) for all devices, or an array with one for each."""
    allowed = (bool, int, float) if key == "ready" else (int, float)
    what = "true or false" if key == "ready" else "numbers"
    values = value if isinstance(value, list) else [value]
    if not values:
        raise UserError(f"{source}: {key} is empty: give at least one device")
    if not set(map(type, values)) <= set(allowed):  # type(), because True is an int to isinstance
        index = next(k for k, element in enumerate(values) if type(element) not in allowed)
        place = f"{key}[{index}]" if isinstance(value, list) else key
        raise UserError(f"{source}: {key} must hold {what}, but {place} is {_shown(values[index])}")
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        raise UserError(f"{source}: {key} holds a number too large for a float64") from None
    return array if isinstance(value, list) else array[0]


def _number(key: str, value: Any, source: str) -> int | float:
    if type(value) not in (int, float):
        raise UserError(f"{source}: {key} must be one number, not {_shown(value)}")
    number: int | float = value
    return number


def _parse_csv(text: str, source: str) -> dict[str, Any]:
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        lines = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise UserError(f"{source} is not valid CSV: {error}") from None
    if not lines:
        raise UserError(f"{source} is empty")
    header = [name.strip() for name in lines[0][1]]
    for name in header:
        if name in SCALAR_KEYS:
            raise UserError(f"{source}: {name} is one value for the whole instance: give it as {flag_of(name)}")
        if name not in DEVICE_KEYS:
            raise _unknown("column", name, source)
        if header.count(name) > 1:
            raise UserError(f"{source}: the column '{name}' is given twice")
    if len(lines) == 1:
        raise UserError(f"{source} has a header but no devices")
    for number, row in lines[1:]:
        if len(row) != len(header):
            raise UserError(f"{source}: line {number} has {len(row)} values, but there are {len(header)} columns")
    columns = zip(*(row for _, row in lines[1:]), strict=True)
    return {name: _column(name, cells, source) for name, cells in zip(header, columns, strict=True)}


def _column(name: str, cells: tuple[str, ...], source: str) -> Vector | Flags:
    """The numbers or flags of one CSV column."""
    if name == "ready":
        words = [cell.strip().lower() for cell in cells]
        wrong = next((k for k, word in enumerate(words) if word not in _FLAG_WORDS), None)
        if wrong is not None:
            raise UserError(f"{source}: ready[{wrong}] must be 1 or 0, not {_shown(cells[wrong])}")
        return np.array([_FLAG_WORDS[word] for word in words])
    numbers = np.empty(len(cells))
    for k, cell in enumerate(cells):
        try:
            numbers[k] = float(cell) if "_" not in cell else float("")  # Python alone would read 1_5 as 15
        except ValueError:
            raise UserError(f"{source}: {name}[{k}] must be a number, not {_shown(cell)}") from None
    return numbers


def flag_of(key: str) -> str:
    """The command-line flag of a key: noise_power_w -> --noise-power-w."""
    return "--" + key.replace("_", "-")


def _unknown(kind: str, name: str, source: str) -> UserError:
    shown = name if len(name) <= 40 else name[:37] + "..."
    return UserError(f"{source}: {unknown_name(kind, shown, DEVICE_KEYS + SCALAR_KEYS)}")


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'table'}"
    if value is None:
        return "null"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
