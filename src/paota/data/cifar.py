"""CIFAR-10 (Krizhevsky, 2009) in its binary distribution: records of one label and 3 x 32 x 32 pixels, plane by plane.

The tar archive is read as a stream of members: nothing is extracted to disk, and every size is checked first. The standard
library's reader is not used: it loads a long name or an extended header of any claimed size into memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from paota.base import bounded
from paota.base.bounded import Readable, Unpacked, check_claim, open_regular, read_array, reason, unpacked
from paota.base.errors import UserError
from paota.data.dataset import Dataset

ARCHIVE, FOLDER = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"
PICKLED = ("cifar-10-python.tar.gz", "cifar-10-batches-py")
TRAIN_FILES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_FILE = "test_batch.bin"
FILES = (*TRAIN_FILES, TEST_FILE)

CLASSES = 10
PLANES = (3, 32, 32)  # red, green, blue
RECORD_BYTES = 1 + 3 * 32 * 32

BLOCK_BYTES = 512  # of a tar archive
REGULAR = (b"0", b"\0")
NAME, SIZE, CHECKSUM, KIND = slice(0, 100), slice(124, 136), slice(148, 156), slice(156, 157)

PLACE = "PAOTA_DATA"
"""Environment variable with the folder of data sets that are not shipped."""

HOW_TO_GET = (
    f"download {ARCHIVE} (https://www.cs.toronto.edu/~kriz/{ARCHIVE}), put it into a folder, "
    f"and name that folder in the environment variable {PLACE} or the file itself as data.dataset"
)


def load() -> Dataset:
    """Return CIFAR-10 from the folder in the environment variable PAOTA_DATA."""
    place = os.environ.get(PLACE)
    if not place:
        raise UserError(f"the dataset 'cifar10' is not shipped: {HOW_TO_GET}")
    try:
        found = locate(Path(place).expanduser())
    except (OSError, RuntimeError) as error:
        raise UserError(f"{PLACE}: '{place}' cannot be read ({reason(error)})") from None
    if found is None:
        raise UserError(f"the dataset 'cifar10' is not in {place} ({PLACE}): {HOW_TO_GET}")
    return load_from(found)


def locate(path: Path) -> Path | None:
    """Return the archive or the folder of batches at `path` or in the folder `path`; None if there is neither."""
    if any((path / name).exists() for name in FILES):
        return path
    for name in (FOLDER, ARCHIVE):
        if (path / name).exists():
            return path / name
    if path.name in PICKLED or any((path / name).exists() for name in (*PICKLED, "data_batch_1")):
        raise _pickled(path)
    return None


def load_from(path: Path) -> Dataset:
    """Return CIFAR-10 from its binary archive or its unpacked folder; pixels are uint8 [N, 32, 32, 3]."""
    batches = _read_folder(path) if path.is_dir() else _read_archive(path)
    missing = [name for name in FILES if name not in batches]
    if missing:
        raise UserError(f"{path}: lacks {', '.join(missing)} of CIFAR-10's binary version: {HOW_TO_GET}")
    # All files of CIFAR-10 have the same length. This detects a file that was cut between two records.
    lengths = {name: len(batches[name]) for name in FILES}
    odd = next((name for name in FILES if lengths[name] != max(lengths.values())), None)
    if odd is not None:
        raise UserError(
            f"{path}: {odd} holds {lengths[odd]} images where others hold {max(lengths.values())}: cut short?"
        )
    x_train, y_train = _images([batches[name] for name in TRAIN_FILES])
    x_test, y_test = _images([batches[TEST_FILE]])
    return Dataset(name="cifar10", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, num_classes=CLASSES)


def _read_folder(folder: Path) -> dict[str, npt.NDArray[np.uint8]]:
    batches = {}
    for name in FILES:
        if (folder / name).exists():
            file, size = open_regular(folder / name)
            with file:
                batches[name] = _records(file, size, str(folder / name))
    return batches


def _read_archive(path: Path) -> dict[str, npt.NDArray[np.uint8]]:
    batches = {}
    with unpacked(path) as content:
        for member in _members(content, str(path)):
            name = PurePosixPath(member.name)
            if PICKLED[1] in name.parts:
                raise _pickled(path)
            if name.name in FILES:
                batches[name.name] = _records(member, member.size, f"{path}: {name.name}")
    return batches


def _records(stream: Readable, size: int, source: str) -> npt.NDArray[np.uint8]:
    """Return the records of a file, [N, 3073], with checked labels in the first column."""
    if size == 0 or size % RECORD_BYTES:
        raise UserError(
            f"{source}: holds {size} bytes, not whole records of {RECORD_BYTES} (a label and 3 x 32 x 32 pixels): "
            "it is cut short, or not of CIFAR-10"
        )
    check_claim(source, claimed_bytes=size)
    rows = read_array(stream, source, shape=(size // RECORD_BYTES, RECORD_BYTES), dtype=np.uint8)
    wrong = np.flatnonzero(rows[:, 0] >= CLASSES)
    if len(wrong):
        raise UserError(
            f"{source}: record {wrong[0]} has the label {rows[wrong[0], 0]}, and labels are 0 to {CLASSES - 1}"
        )
    return rows


def _images(batches: list[npt.NDArray[np.uint8]]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Return (pixels [N, 32, 32, 3], labels [N])."""
    pixels = [np.moveaxis(rows[:, 1:].reshape(-1, *PLANES), 1, -1) for rows in batches]
    labels = np.concatenate([rows[:, 0] for rows in batches]).astype(np.int32)
    return np.ascontiguousarray(np.concatenate(pixels)), labels


def _pickled(path: Path) -> UserError:
    return UserError(f"{path}: is the pickled version of CIFAR-10, and pickles are never loaded: {HOW_TO_GET}")


class _Member:
    """One ordinary file of an archive, as a stream."""

    def __init__(self, name: str, size: int, stream: Readable) -> None:
        self.name, self.size, self.left, self._stream = name, size, size, stream

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; empty at the end of the member or of a truncated archive."""
        piece = self._stream.read(min(size, self.left))
        self.left -= len(piece)
        return piece


def _members(content: Unpacked, source: str) -> Iterator[_Member]:
    """Yield the ordinary files of an archive in their order. A member can only be read until the next one is yielded.

    The whole archive is read, so that gzip compares its checksum.
    """
    claimed_bytes = 0
    while any(header := _header(content.stream, source)):
        size = _size(header, source)
        claimed_bytes += size
        check_claim(source, claimed_bytes=claimed_bytes, packed_bytes=content.packed_bytes)
        member = _Member(header[NAME].split(b"\0")[0].decode("latin-1"), size, content.stream)
        if header[KIND] in REGULAR:
            yield member
        _skip(content.stream, member.left + -size % BLOCK_BYTES, source)
    _drain(content.stream, source)


def _header(stream: Readable, source: str) -> bytes:
    header = _exactly(stream, BLOCK_BYTES)
    if len(header) < BLOCK_BYTES:
        raise UserError(f"{source}: is truncated, or no tar archive: the mark of its end is missing")
    return header


def _size(header: bytes, source: str) -> int:
    """Return the size of the member after a check of the header's checksum: the sum of its bytes, its own as spaces."""
    try:
        size, checksum = (int(header[field].strip(b" \0") or b"0", 8) for field in (SIZE, CHECKSUM))
    except ValueError:
        size = checksum = -1
    if size < 0 or checksum != sum(header) - sum(header[CHECKSUM]) + 8 * ord(" "):
        raise UserError(f"{source}: is damaged, or no tar archive: the checksum of a header is wrong")
    return size


def _exactly(stream: Readable, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end. A stream may return less than requested at once."""
    pieces = []
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _skip(stream: Readable, size: int, source: str) -> None:
    while size:
        piece = stream.read(min(bounded.STEP_BYTES, size))
        if not piece:
            raise UserError(f"{source}: is truncated, {size} bytes of a member are missing")
        size -= len(piece)


def _drain(stream: Readable, source: str) -> None:
    left_over = 0
    while piece := stream.read(bounded.STEP_BYTES):
        left_over += len(piece)
        if left_over > bounded.SMALL_BYTES:
            raise UserError(
                f"{source}: has more than {bounded.SMALL_BYTES} bytes left over after the end of its archive"
            )
