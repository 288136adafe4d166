"""The files of a folder: a reader never sees half of one, and reads only ordinary files of bounded size.

They are written to a temporary name beside the target, then renamed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from .bounded import read_regular
from .errors import UserError
from .npz import read_arrays

MAX_JSON_BYTES, MAX_TABLE_BYTES = 2**26, 2**30  # that are read
Columns = dict[str, NDArray[Any]]  # a table, column by column


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A binary stream whose content appears at `path` all at once, or not at all."""
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
    """UTF-8, all at once."""
    with atomic(path) as stream:
        stream.write(text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """By the rules of `jsonable`."""
    write_text(path, json.dumps(jsonable(value), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The value in a JSON file; a file that cannot be read is refused by name."""
    content = read_regular(path, most=MAX_JSON_BYTES)
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UserError(f"'{path}' is not a JSON file that paota wrote ({error})") from None


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def jsonable(value: Any) -> Any:
    """Plain JSON types; NaN and infinity become null."""
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
    """Tidy CSV; a missing number is an empty cell, and no text a formula (`cell_of`)."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        writer.writerow(map(cell_of, row))
    write_text(path, text.getvalue())


def cell_of(value: Any) -> Any:
    """A value as it stands in a CSV file: NaN is empty, and a text that a spreadsheet would compute gets an apostrophe."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return "" if isinstance(value, float) and math.isnan(value) else value


def text_of(cell: str) -> str:
    """The text that `cell_of` has made a cell of."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


def read_csv(path: Path, types: Mapping[str, type]) -> Columns:
    """The inverse of `write_csv`; columns that `types` does not name are numbers."""
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


def to_pandas(columns: Columns) -> Any:
    """A table as a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise UserError("to_pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns)


def write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Numeric arrays by name, uncompressed; `read_npz` reads them."""
    whole = io.BytesIO()  # an archive that a full disk cuts short complains once more when it is collected
    np.savez(whole, **{name: np.asarray(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    with atomic(path) as stream:
        stream.write(whole.getbuffer())


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Plain numeric arrays only, checked before memory is taken: no pickles, no bombs."""
    return read_arrays(path)


def to_toml(table: Mapping[str, Any]) -> str:
    """TOML for the tables that an experiment is made of: values, sections, and lists of tables with sections inside."""
    return "\n".join(_toml_lines(table, "")).strip() + "\n"


def _toml_lines(table: Mapping[str, Any], prefix: str) -> Iterator[str]:
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


def _is_table_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _toml_key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if bare else _toml_text(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return _toml_text(str(value))


def _toml_text(text: str) -> str:
    """JSON's escapes are TOML's, but TOML has no surrogates and wants DEL escaped."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(clean, ensure_ascii=False).replace("\x7f", "\\u007f")
