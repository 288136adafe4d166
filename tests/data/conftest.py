"""Makers of small data files, sound ones to start from; the tests break them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

STEMS = {
    "x_train": "train-images{}idx3-ubyte",
    "y_train": "train-labels{}idx1-ubyte",
    "x_test": "t10k-images{}idx3-ubyte",
    "y_test": "t10k-labels{}idx1-ubyte",
}


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture(scope="session")
def make_idx() -> Callable[[np.ndarray], bytes]:
    return idx_bytes


@pytest.fixture(scope="session")
def arrays() -> dict[str, np.ndarray]:
    """Six training and three test images of 4 x 5 pixels, classes 0, 1 and 2."""
    rng = np.random.default_rng(7)
    return {
        "x_train": rng.integers(256, size=(6, 4, 5), dtype=np.uint8),
        "y_train": np.array([0, 1, 2, 2, 1, 0], np.uint8),
        "x_test": rng.integers(256, size=(3, 4, 5), dtype=np.uint8),
        "y_test": np.array([2, 1, 0], np.uint8),
    }


@pytest.fixture(scope="session")
def write_folder(arrays: dict[str, np.ndarray]) -> Callable[..., Path]:
    """write(folder, packed=False, joint="-", x_train=..., ...): arrays are encoded, bytes are written as they are."""

    def write(folder: Path, *, packed: bool = False, joint: str = "-", **changed: np.ndarray | bytes) -> Path:
        folder.mkdir(exist_ok=True)
        for key, value in {**arrays, **changed}.items():
            content = value if isinstance(value, bytes) else idx_bytes(value)
            name = STEMS[key].format(joint) + (".gz" if packed else "")
            (folder / name).write_bytes(gzip.compress(content) if packed else content)
        return folder

    return write


@pytest.fixture(scope="session")
def npz_bytes(arrays: dict[str, np.ndarray]) -> Callable[..., bytes]:
    """npz_bytes(compressed=False, x_train=..., ...); a value of None leaves the key out."""

    def make(*, compressed: bool = False, **changed: np.ndarray | None) -> bytes:
        members = {key: value for key, value in {**arrays, **changed}.items() if value is not None}
        buffer = io.BytesIO()
        (np.savez_compressed if compressed else np.savez)(buffer, **members)
        return buffer.getvalue()

    return make


CIFAR_FILES = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]


@pytest.fixture(scope="session")
def cifar_files() -> dict[str, bytes]:
    """The six files of CIFAR-10's binary version, with three made-up images each."""
    rows = np.random.default_rng(3).integers(256, size=(6, 3, 3073), dtype=np.uint8)
    rows[:, :, 0] = np.arange(18).reshape(6, 3) % 10
    return {name: rows[i].tobytes() for i, name in enumerate(CIFAR_FILES)}


@pytest.fixture(scope="session")
def cifar_archive(cifar_files) -> Callable[..., bytes]:
    """cifar_archive(packed=True, folder="cifar-10-batches-bin", files=...): the archive, written by the standard library."""

    def make(*, packed: bool = True, folder: str = "cifar-10-batches-bin", files: dict | None = None) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz" if packed else "w") as archive:
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
            for name, content in {"readme.html": b"<html>", **(files or cifar_files)}.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    return make


@pytest.fixture
def peak_bytes() -> Callable[[], object]:
    """`with peak_bytes() as peak: ...; peak()` returns the peak memory of Python and NumPy in the block."""

    @contextmanager
    def measure() -> Iterator[Callable[[], int]]:
        tracemalloc.start()
        try:
            yield lambda: tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure
