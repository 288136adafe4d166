"""What the files say that an experiment names: a path is no identity, what stands behind it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.bounded import digest
from ..experiment.experiment import Experiment


def fingerprints(experiment: Experiment) -> dict[str, str]:
    """A hash of every data file, trace and plug-in that the experiment names, by path; of a folder, over its files."""
    return {str(path): _hash(path) for path in sorted(set(_paths(experiment.to_dict())))}


def _paths(value: Any) -> Iterator[Path]:
    """Every text in a table that is the whole path of something there; `file.py:name` is meant as the file."""
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
            except (OSError, ValueError):  # too long for a path, or with a NUL in it: no file
                continue


def _hash(path: Path) -> str:
    total = hashlib.blake2b(digest_size=16)
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            total.update(digest(file, "blake2b"))
            total.update(file.name.encode() if path.is_dir() else b"")
    return total.hexdigest()
