"""IDX files, the format of MNIST and its successors: a four-byte magic, big-endian axis lengths, then the bytes.

EMNIST (Cohen et al., 2017) comes as several splits in one folder, with rows and columns of the images exchanged.
"""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from paota.base.bounded import Unpacked, check_claim, read_array, reason, unpacked
from paota.base.errors import UserError
from paota.base.types import NumPyArray
from paota.data.dataset import Dataset

UNSIGNED_BYTE = 0x08

IMAGE_AXES, LABEL_AXES = 3, 1

_EMNIST_FILE = re.compile(r"(emnist-[a-z]+)-(?:train|test)-(?:images|labels)[-.]idx[13]-ubyte(?:\.gz)?")


def load_idx_folder(folder: Path) -> Dataset:
    """Return the dataset in the four standard files of a folder, packed or not."""
    return Dataset.from_files(folder.resolve().name or str(folder), _read_files(folder, "train", "t10k"))


def _read_files(folder: Path, train: str, test: str) -> dict[str, npt.NDArray[np.uint8]]:
    """Return the images and labels of both parts, by the keys of `Dataset`; `train` and `test` begin the names of files."""
    kinds = {"x": ("images", IMAGE_AXES), "y": ("labels", LABEL_AXES)}
    files = {
        f"{key}_{part}": (find_idx_file(folder, f"{stem}-{kind}", axes=axes), axes)
        for part, stem in (("train", train), ("test", test))
        for key, (kind, axes) in kinds.items()
    }
    return {key: read_idx(path, axes=axes) for key, (path, axes) in files.items()}


def find_idx_file(folder: Path, stem: str, *, axes: int) -> Path:
    """Return the first existing file of: `train-images-idx3-ubyte`, with a dot before idx, or either with `.gz`."""
    names = [f"{stem}{joint}idx{axes}-ubyte{end}" for end in ("", ".gz") for joint in "-."]
    for name in names:
        try:
            if (folder / name).exists():
                return folder / name
        except OSError as error:
            raise UserError(f"{folder}: cannot be read ({reason(error)})") from None
    raise UserError(f"{folder}: holds no file {names[0]} (nor {names[2]})")


def read_idx(path: Path, *, axes: int) -> npt.NDArray[np.uint8]:
    """Return the array in an IDX file of unsigned bytes with this number of axes; gzip is recognised by its first bytes."""
    with unpacked(path) as content:
        return _read(content, str(path), axes=axes)


def _read(content: Unpacked, source: str, *, axes: int) -> NumPyArray:
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


def emnist_split_of(name: str) -> str | None:
    """Return "emnist-letters" for "emnist-letters-train-images-idx3-ubyte.gz", and None for other names."""
    match = _EMNIST_FILE.fullmatch(name)
    return match[1] if match else None


def load_emnist_folder(folder: Path, splits: list[str]) -> Dataset:
    """Return the data of the split in a folder, which must be the only one."""
    if len(splits) > 1:
        example = f"{splits[0]}-train-images-idx3-ubyte.gz"
        raise UserError(
            f"{folder}: holds several splits ({', '.join(splits)}): name a file of one of them, such as {folder / example}"
        )
    return load_emnist(folder, splits[0])


def load_emnist(folder: Path, split: str) -> Dataset:
    """Return one split with upright images and labels from 0 (those of `letters` start at 1)."""
    arrays = _read_files(folder, f"{split}-train", f"{split}-test")
    first = (
        1 if split == "emnist-letters" and min(arrays[key].min(initial=1) for key in ("y_train", "y_test")) == 1 else 0
    )
    upright = {
        key: array - first if key.startswith("y") else np.ascontiguousarray(array.transpose(0, 2, 1))
        for key, array in arrays.items()
    }
    return Dataset.from_files(split, upright)
