"""Checkpoints: the state of every unit (one algorithm, one seed) on disk, written atomically at intervals.

An unfinished run folder holds `checkpoints/0.npz`, `1.npz`, ...: for each unit the ring buffer of global models, the
position in the timeline and the log so far. Draws are addressed by counters, so this is enough to resume with identical
bits. Updates in flight are not saved: they are recomputed from the version from which their device started.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..base import files
from ..base.bounded import digest as file_digest
from ..base.errors import UserError
from ..base.types import Settings, Table
from ..experiment.experiment import Experiment

FORMAT = 2
Arrays = files.Columns  # arrays by name


@dataclass(frozen=True)
class Saved:
    """The state of one unit.

    Args:
        state: leaves of the engine's state.
        log: columns of the log.
        done: number of aggregations so far.
        compute_s: seconds of computing so far.
    """

    state: list[np.ndarray]
    log: Arrays
    done: int
    compute_s: float


@dataclass
class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: of the files; it is made when the first one is written.
        identity: facts that identify the run; a checkpoint with other facts is refused.
        every_s: seconds between two checkpoints of a unit.
    """

    folder: Path
    identity: Settings
    every_s: float = 10.0
    _begun: float = field(default_factory=time.monotonic)
    _last: dict[int, float] = field(default_factory=dict)

    def due(self, unit: int) -> bool:
        """Return whether the last checkpoint of a unit is older than `every_s`."""
        return time.monotonic() - self._last.get(unit, self._begun) >= self.every_s

    def save(self, unit: int, saved: Saved) -> None:
        """Write the checkpoint of a unit; it replaces an earlier one."""
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write '{self.folder}': {error.strerror}") from None
        arrays: Arrays = {f"state.{i}": np.asarray(leaf) for i, leaf in enumerate(saved.state)}
        arrays |= {f"log.{name}": column for name, column in saved.log.items()}
        facts = {"unit": unit, "done": saved.done, "compute_s": saved.compute_s, **self.identity}
        write(self.folder / f"{unit}.npz", facts, arrays)
        self._last[unit] = time.monotonic()

    def load(self, unit: int) -> Saved | None:
        """Return the saved state of a unit, or None if there is none. Refuse a checkpoint of another run."""
        file = self.folder / f"{unit}.npz"
        if not file.exists():
            return None
        facts, arrays = read(file)
        try:
            done, compute_s = int(facts.pop("done")), float(facts.pop("compute_s"))
            if facts.pop("unit") != unit:
                raise ValueError("it belongs to another unit")
        except (KeyError, ValueError, TypeError) as error:
            raise not_ours(file, error) from None
        for name, now, then in differences(files.jsonable(self.identity), facts):
            raise UserError(f"'{file}' belongs to another run: {name} was {then} and is {now}")
        log = {name.removeprefix("log."): a for name, a in arrays.items() if name.startswith("log.")}
        return Saved(numbered(arrays, "state"), log, done, compute_s)


def write(path: Path, facts: Settings, arrays: Mapping[str, np.ndarray]) -> None:
    """Write JSON facts, numeric arrays and a checksum of them all to one file, atomically."""
    header = np.frombuffer(json.dumps(files.jsonable(facts)).encode(), np.uint8)
    content = {**arrays, "header": header}
    files.write_npz(path, {**content, "digest": np.frombuffer(digest(content).encode(), np.uint8)})


def read(path: Path) -> tuple[Table, Arrays]:
    """Return the facts and arrays of a file that `write` made; refuse any other and any damaged file."""
    arrays = files.read_npz(path)
    try:
        expected = arrays.pop("digest").tobytes().decode()
        if expected != digest(arrays):
            raise UserError(
                f"'{path}' is damaged: its content does not match its checksum; remove it to redo that part"
            )
        facts = dict(json.loads(arrays.pop("header").tobytes()))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise not_ours(path, error) from None
    return facts, arrays


def not_ours(path: Path, error: Exception) -> UserError:
    """Return the error for a file of another kind; `error` says why."""
    return UserError(f"'{path}' is not a checkpoint that paota wrote ({error})")


def numbered(arrays: Arrays, name: str) -> list[np.ndarray]:
    """Return `name.0`, `name.1`, ... as a list."""
    return [arrays[f"{name}.{i}"] for i in range(sum(key.startswith(f"{name}.") for key in arrays))]


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def differences(now: object, then: object, name: str = "") -> Iterator[tuple[str, object, object]]:
    """Yield (dotted name, value now, value then) for each difference between two nested tables."""
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        for key in sorted({*now, *then}):
            inner = f"{name}.{key}" if name else str(key)
            yield from differences(now.get(key, "absent"), then.get(key, "absent"), inner)
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for i, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from differences(one, other, f"{name}[{i}]")
    elif now != then:
        yield name, now, then


def fingerprints(experiment: Experiment) -> dict[str, str]:
    """Return a hash of every data file, trace and plug-in that the experiment names, by path.

    A path does not identify its content, so a run also remembers these hashes. The hash of a folder covers its files.
    """
    return {str(path): _file_hash(path) for path in sorted(set(_paths(experiment.to_dict())))}


def _paths(value: object) -> Iterator[Path]:
    """Yield every text in a table that is an absolute path of a file or folder; `file.py:name` names the file."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _paths(inner)
    elif isinstance(value, str):
        for text in (value, value.rpartition(":")[0]):
            path = Path(text)
            try:
                if path.is_absolute() and path.exists():
                    yield path
            except (OSError, ValueError):  # too long for a path, or with a NUL character
                continue


def _file_hash(path: Path) -> str:
    total = hashlib.blake2b(digest_size=16)
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            total.update(file_digest(file, "blake2b"))
            total.update(file.name.encode() if path.is_dir() else b"")
    return total.hexdigest()
