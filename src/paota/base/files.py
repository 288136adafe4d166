"""Files, written as a whole or not at all, and read only if they are ordinary and of bounded size.

A file is written under a temporary name beside the target, then renamed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeGuard

import numpy as np

from .bounded import read_arrays, read_regular
from .errors import UserError
from .types import Json, NumPyArray, Settings

if TYPE_CHECKING:
    import pandas

MAX_JSON_BYTES, MAX_TABLE_BYTES = 2**26, 2**30  # largest files that are read
Columns = dict[str, NumPyArray]  # a table, column by column


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary stream whose content appears at `path` as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.unlink(missing_ok=True)  # never written through: it may be a link or a pipe
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def filled(template: Path, words: Mapping[str, str]) -> str:
    """Return the text of a template file, with the value of each of the `words` for @WORD@."""
    text = template.read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, as a whole or not at all."""
    with atomic(path) as stream:
        stream.write(text.encode("utf-8"))


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, converted by `jsonable`."""
    write_text(path, json.dumps(jsonable(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Json:
    """Return the value in a JSON file."""
    content = read_regular(path, most=MAX_JSON_BYTES)
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"'{path}' is not a JSON file that paota wrote ({error})") from None


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def texts_in(value: Json) -> Iterator[str]:
    """Yield every text in a value of a JSON file, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from texts_in(item)


def jsonable(value: object) -> Json:
    """Convert a value to plain JSON types; NaN and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, np.generic):
        return jsonable(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_csv(path: Path, columns: Columns) -> None:
    """Write a table as CSV; a missing number is an empty cell, and no text is a formula (`cell_of`)."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        writer.writerow(map(cell_of, row))
    write_text(path, text.getvalue())


def cell_of(value: object) -> object:
    """Return the CSV cell of a value: empty for NaN, with an apostrophe before a text that is a formula in a spreadsheet."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if isinstance(value, float) and math.isnan(value) else value


def text_of(cell: str) -> str:
    """Return the text from which `cell_of` made a cell."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


def read_csv(path: Path, types: Mapping[str, type]) -> Columns:
    """Read a table that `write_csv` wrote; columns without an entry in `types` are numbers."""
    content = read_regular(path, most=MAX_TABLE_BYTES)
    try:
        header, *rows = csv.reader(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline=""))
        columns: Columns = {}
        for name, cells in zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True):
            kind = types.get(name, float)
            values = [
                math.nan if kind is float and cell == "" else text_of(cell) if kind is str else kind(cell)
                for cell in cells
            ]
            columns[name] = np.array(values, dtype=object if kind is str else kind)
        return columns
    except (ValueError, csv.Error, OverflowError) as error:
        raise UserError(f"'{path}' is not a table that paota wrote ({error})") from None


def to_pandas(columns: Columns) -> pandas.DataFrame:
    """Return a table as a pandas DataFrame."""
    try:
        import pandas  # optional
    except ImportError:
        raise UserError("to_pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns)


def write_npz(path: Path, arrays: Mapping[str, NumPyArray]) -> None:
    """Write numeric arrays by name, uncompressed; `read_npz` reads them."""
    whole = io.BytesIO()  # np.savez into a file raises a second error on a full disk
    np.savez(whole, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    with atomic(path) as stream:
        stream.write(whole.getbuffer())


def read_npz(path: Path) -> dict[str, NumPyArray]:
    """Return the arrays of an .npz file: plain numeric ones only, checked before memory is allocated."""
    return read_arrays(path)


def to_toml(table: Settings) -> str:
    """Return TOML for the table of an experiment: values, sections, and lists of tables with sections inside."""
    return "\n".join(_toml_lines(table, "")).strip() + "\n"


def _toml_lines(table: Settings, prefix: str) -> Iterator[str]:
    for key, value in table.items():
        if not isinstance(value, Mapping) and not _is_table_list(value):
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in table.items():
        name = prefix + _toml_key(key)
        if isinstance(value, Mapping):
            yield f"\n[{name}]"
            yield from _toml_lines(value, f"{name}.")
        elif _is_table_list(value):
            for item in value:
                yield f"\n[[{name}]]"
                yield from _toml_lines(item, f"{name}.")


def _is_table_list(value: object) -> TypeGuard[Sequence[Settings]]:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _toml_key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if bare else _toml_text(key)


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return _toml_text(str(value))


def _toml_text(text: str) -> str:
    """Return a TOML string: JSON's escapes are valid in TOML, but TOML has no surrogates and needs DEL escaped."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
