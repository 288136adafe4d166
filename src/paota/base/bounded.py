"""Reading files that may lie: sizes are checked before memory is taken, and unpacking goes in bounded steps."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import numpy as np
import numpy.typing as npt

from paota.base.errors import UserError

MAX_UNCOMPRESSED_BYTES = 8 * 2**30
"""The most bytes that one file may hold, unpacked. Raise it for larger data: `paota.base.bounded.MAX_... = ...`."""

MAX_EXPANSION = 200
"""A packed file that claims to grow by more than this factor, and beyond `SMALL_BYTES`, is taken for a bomb."""

SMALL_BYTES = 64 * 2**20

STEP_BYTES = 2**20

GZIP_MAGIC = b"\x1f\x8b"


class Readable(Protocol):
    """What unpacking needs of a stream (gzip's and zip's readers, plain files)."""

    def read(self, size: int, /) -> bytes: ...


def open_regular(path: Path) -> tuple[BinaryIO, int]:
    """Open an ordinary file for reading, with its size. A pipe or a device would hang or never end: refused."""
    try:
        if stat.S_ISREG(path.stat().st_mode):  # else not even opened: that may do something to a device
            # Without O_NONBLOCK, a pipe that has replaced the file by now would be waited for.
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
            file, status = os.fdopen(descriptor, "rb"), os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode):
                return file, status.st_size
            file.close()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    raise UserError(f"{path}: is not an ordinary file")


def read_regular(path: Path, *, most: int, start: int = 0, length: int | None = None) -> bytes:
    """The content of an ordinary file as it was when it was opened; one of more than `most` bytes is refused.

    `start` and `length` choose a part of it.
    """
    file, size = open_regular(path)
    with file:
        if size > most:
            raise UserError(f"{path}: is larger than {most >> 20} MiB")
        try:
            file.seek(start)
            return file.read(max(0, min(size - start, length or size)))
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def digest(path: Path, kind: str) -> bytes:
    """The hash of an ordinary file; one that is larger than any that is read counts by its size alone."""
    total = hashlib.new(kind)
    file, size = open_regular(path)
    with file:
        if size > MAX_UNCOMPRESSED_BYTES:
            total.update(str(size).encode())
            return total.digest()
        try:
            while piece := file.read(min(STEP_BYTES, size)):
                total.update(piece)
                size -= len(piece)
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    return total.digest()


@dataclass(frozen=True)
class Unpacked:
    """A file's content as a stream; `packed_bytes` is the size of the file if it is packed, else None."""

    stream: Readable
    file_bytes: int
    packed_bytes: int | None


@contextmanager
def unpacked(path: Path) -> Iterator[Unpacked]:
    """An ordinary file, through gzip if its first bytes say so. Damage that shows while it is read is one sentence."""
    file, file_bytes = open_regular(path)
    with file:
        packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        try:
            if not packed:
                yield Unpacked(file, file_bytes, None)
                return
            with gzip.GzipFile(fileobj=file) as stream:
                yield Unpacked(cast(Readable, stream), file_bytes, file_bytes)
        except EOFError:
            raise UserError(f"{path}: is truncated, its gzip stream ends early") from None
        except (OSError, zlib.error, struct.error) as error:
            raise UserError(f"{path}: cannot be read ({reason(error)})") from None


def check_claim(source: str, *, claimed_bytes: int, packed_bytes: int | None = None) -> None:
    """Refuse a claimed size that is beyond the limit, or absurd beside the packed bytes that should hold it."""
    if claimed_bytes > MAX_UNCOMPRESSED_BYTES:
        raise UserError(f"{source}: claims {claimed_bytes} bytes, and the most allowed is {MAX_UNCOMPRESSED_BYTES}")
    if packed_bytes is not None and claimed_bytes > max(SMALL_BYTES, MAX_EXPANSION * packed_bytes):
        raise UserError(
            f"{source}: claims to grow from {packed_bytes} to {claimed_bytes} bytes, like a decompression bomb; "
            "if it is sound, unpack it first"
        )


def read_array(stream: Readable, source: str, *, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Fill an array from a stream in steps. The caller has checked the shape; too few bytes are refused here."""
    try:
        array = np.empty(shape, dtype)  # the system hands out the pages only as they are filled
    except (MemoryError, ValueError):
        raise UserError(f"{source}: an array of shape {shape} does not fit in memory") from None
    target = array.reshape(-1).view(np.uint8).data
    filled = 0
    while filled < len(target):
        piece = stream.read(min(STEP_BYTES, len(target) - filled))
        if not piece:
            raise UserError(f"{source}: is truncated, {len(target) - filled} of {len(target)} data bytes are missing")
        target[filled : filled + len(piece)] = piece
        filled += len(piece)
    return array


def reason(error: Exception) -> str:
    """The cause alone, for the end of a sentence."""
    return short(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def short(text: str) -> str:
    """For messages: one line, of bearable length, without what a terminal cannot print (files may hold anything)."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= 200 else clean[:200] + "..."
