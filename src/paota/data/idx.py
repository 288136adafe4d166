"""IDX files, the format of MNIST and its successors: a four-byte magic, big-endian axis lengths, then the bytes."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paota.base.bounded import Unpacked, check_claim, read_array, reason, unpacked
from paota.base.errors import UserError
from paota.data.dataset import Dataset

UNSIGNED_BYTE = 0x08

IMAGE_AXES, LABEL_AXES = 3, 1

_FILES = {
    "x_train": ("train-images", IMAGE_AXES),
    "y_train": ("train-labels", LABEL_AXES),
    "x_test": ("t10k-images", IMAGE_AXES),
    "y_test": ("t10k-labels", LABEL_AXES),
}


def load_idx_folder(folder: Path) -> Dataset:
    """The dataset of a folder that holds the four standard files, packed or not."""
    paths = {key: find_idx_file(folder, stem, axes=axes) for key, (stem, axes) in _FILES.items()}
    arrays: dict[str, Any] = {key: read_idx(path, axes=_FILES[key][1]) for key, path in paths.items()}
    return Dataset.from_arrays(name=folder.resolve().name or str(folder), **arrays)


def find_idx_file(folder: Path, stem: str, *, axes: int) -> Path:
    """`train-images-idx3-ubyte`, the same with a dot before idx, or either with `.gz`; the first that exists."""
    names = [f"{stem}{joint}idx{axes}-ubyte{end}" for end in ("", ".gz") for joint in "-."]
    for name in names:
        try:
            if (folder / name).exists():
                return folder / name
        except OSError as error:
            raise UserError(f"{folder}: cannot be read ({reason(error)})") from None
    raise UserError(f"{folder}: holds no file {names[0]} (nor {names[2]})")


def read_idx(path: Path, *, axes: int) -> npt.NDArray[np.uint8]:
    """One IDX file of unsigned bytes with the given number of axes. Packed files are known by their first bytes."""
    with unpacked(path) as content:
        return _read(content, str(path), axes=axes)


def _read(content: Unpacked, source: str, *, axes: int) -> npt.NDArray[Any]:
    stream = content.stream
    header = stream.read(4 + 4 * axes)
    magic = bytes([0, 0, UNSIGNED_BYTE, axes])
    if header[:4] != magic:
        found = f"starts with {header[:4].hex()}, not {magic.hex()}" if header else "is empty"
        raise UserError(f"{source}: {found}, so it is not an IDX file of unsigned bytes with {axes} axes")
    if len(header) < 4 + 4 * axes:
        raise UserError(f"{source}: is truncated inside its header")
    shape = struct.unpack(f">{axes}I", header[4:])
    claimed_bytes = math.prod(shape)
    held_bytes = content.file_bytes - len(header)
    if content.packed_bytes is None and claimed_bytes > held_bytes:
        raise UserError(
            f"{source}: its header claims {_items(shape)}, more than the {held_bytes} data bytes in the file"
        )
    check_claim(source, claimed_bytes=claimed_bytes, packed_bytes=content.packed_bytes)
    array = read_array(stream, source, shape=shape, dtype=np.uint8)
    if stream.read(1):  # reading to the end also makes gzip compare its checksum
        raise UserError(f"{source}: has bytes left over after the {_items(shape)} that its header claims")
    return array


def _items(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} items" if len(shape) == 1 else f"{shape[0]} items of {' x '.join(map(str, shape[1:]))} bytes"
