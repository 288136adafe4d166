"""Nothing lost: the state of every unit of work (one algorithm, one seed) on disk, atomically, on a time budget.

A run folder that is not finished holds `checkpoints/0.npz`, `1.npz`, ...: for each unit the ring buffer of global models,
the position in the timeline and everything logged so far. Draws are addressed by counters, so this is all that it takes to
go on bit for bit. Updates in flight need no saving: they are recomputed from the version that their device started from.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base import files
from ..base.errors import UserError

FORMAT = 2
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Saved:
    """One unit as it was: arrays of the state, columns of the log, how many events are done, seconds computed."""

    state: list[NDArray[Any]]
    log: Arrays
    done: int
    compute_s: float


@dataclass
class Checkpoints:
    """The checkpoints of one run. `identity` says which run: a checkpoint of any other is refused."""

    folder: Path
    identity: Mapping[str, Any]
    every_s: float = 10.0
    _begun: float = field(default_factory=time.monotonic)
    _last: dict[int, float] = field(default_factory=dict)

    def due(self, unit: int) -> bool:
        """Whether a unit's last checkpoint is older than `every_s`."""
        return time.monotonic() - self._last.get(unit, self._begun) >= self.every_s

    def save(self, unit: int, saved: Saved) -> None:
        """Write one unit; an earlier checkpoint of it is replaced."""
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
        """What was saved of a unit, or None if it has not been begun. Refuses whatever does not belong to this run."""
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


def write(path: Path, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """One file with plain facts and numeric arrays, and a checksum of them all; it appears whole or not at all."""
    header = np.frombuffer(json.dumps(files.jsonable(facts)).encode(), np.uint8)
    whole = {**arrays, "header": header}
    files.write_npz(path, {**whole, "digest": np.frombuffer(digest(whole).encode(), np.uint8)})


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """The facts and arrays of a file that `write` made; anything else, or a damaged one, is refused."""
    arrays = files.read_npz(path)
    try:
        said = arrays.pop("digest").tobytes().decode()
        if said != digest(arrays):
            raise UserError(
                f"'{path}' is damaged: its content does not match its checksum; remove it to redo that part"
            )
        facts = dict(json.loads(arrays.pop("header").tobytes()))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise not_ours(path, error) from None
    return facts, arrays


def not_ours(path: Path, error: Exception) -> UserError:
    """The sentence for a file that is something else; `error` says why."""
    return UserError(f"'{path}' is not a checkpoint that paota wrote ({error})")


def numbered(arrays: Arrays, name: str) -> list[NDArray[Any]]:
    """`name.0`, `name.1`, ... as a list."""
    return [arrays[f"{name}.{i}"] for i in range(sum(key.startswith(f"{name}.") for key in arrays))]


def digest(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def differences(now: Any, then: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, value now, value then) wherever two nested tables differ."""
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        for key in sorted({*now, *then}):
            inner = f"{name}.{key}" if name else str(key)
            yield from differences(now.get(key, "absent"), then.get(key, "absent"), inner)
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for i, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from differences(one, other, f"{name}[{i}]")
    elif now != then:
        yield name, now, then
