"""Reading of corrupt or malicious files: sizes are checked before memory is allocated, and unpacking is bounded.

NumPy's `.npz`, a zip of `.npy` members, is read here without `np.load`, which allocates memory before it checks sizes. No
pickle is ever loaded: only plain numeric arrays are read, whatever the file says.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import numpy as np
import numpy.typing as npt

from .errors import UserError
from .types import NumPyArray

MAX_UNCOMPRESSED_BYTES = 8 * 2**30
"""Largest unpacked size of a file. Raise it for larger data: `paota.base.bounded.MAX_... = ...`."""

MAX_EXPANSION = 200
"""A packed file that claims to grow by more than this factor, and beyond `SMALL_BYTES`, counts as a bomb."""

SMALL_BYTES = 64 * 2**20

STEP_BYTES = 2**20

GZIP_MAGIC = b"\x1f\x8b"
NPY_MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000
MAX_AXES = 32

# What zipfile and zlib raise on damaged files.
_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError, RuntimeError)

# Only the packing of np.savez and np.savez_compressed: bzip2 and lzma members are unpacked by zipfile without a bound.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([<>|=]?(?:[uif][1248]|c8|c16|b1))['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([0-9L,\s]*)\)""")  # Python 2 wrote lengths as 3L
_LENGTH = re.compile(r"[0-9]{1,18}")


class Readable(Protocol):
    """A stream to unpack from: gzip's and zip's readers, and plain files."""

    def read(self, size: int, /) -> bytes: ...


def open_regular(path: Path) -> tuple[BinaryIO, int]:
    """Open an ordinary file for reading, and return it with its size. Pipes and devices are refused: they may never end."""
    try:
        if stat.S_ISREG(path.stat().st_mode):  # others are not even opened, which may have effects on a device
            # Without O_NONBLOCK, a pipe that has replaced the file in the meantime would block.
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
    """Return the content of an ordinary file at the time of opening.

    Args:
        path: of the file.
        most: largest accepted size in bytes.
        start: first byte to return.
        length: number of bytes to return; None: to the end.
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
    """Return the hash of an ordinary file; of a file above `MAX_UNCOMPRESSED_BYTES`, only the size is hashed."""
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
    """The content of a file as a stream; `packed_bytes` is the size of the file if it is packed, else None."""

    stream: Readable
    file_bytes: int
    packed_bytes: int | None


@contextmanager
def unpacked(path: Path) -> Iterator[Unpacked]:
    """Open an ordinary file, through gzip if it is packed. Damage found while reading raises a `UserError`."""
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
    """Refuse a claimed size above the limit, or an absurd one for the number of packed bytes."""
    if claimed_bytes > MAX_UNCOMPRESSED_BYTES:
        raise UserError(f"{source}: claims {claimed_bytes} bytes, and the most allowed is {MAX_UNCOMPRESSED_BYTES}")
    if packed_bytes is not None and claimed_bytes > max(SMALL_BYTES, MAX_EXPANSION * packed_bytes):
        raise UserError(
            f"{source}: claims to grow from {packed_bytes} to {claimed_bytes} bytes, like a decompression bomb; "
            "if the file is sound, unpack it first"
        )


def read_array(stream: Readable, source: str, *, shape: tuple[int, ...], dtype: npt.DTypeLike) -> NumPyArray:
    """Fill an array from a stream in steps; too few bytes are refused. The caller has checked the shape."""
    try:
        array = np.empty(shape, dtype)  # the system provides memory pages only when they are filled
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
    """Return the cause of an error, for the end of a sentence."""
    return short(getattr(error, "strerror", None) or str(error) or type(error).__name__)


def short(text: str) -> str:
    """Return a text for messages: one line, not too long, printable (files may contain any character)."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return clean if len(clean) <= 200 else clean[:200] + "..."


def read_arrays(path: Path, keys: Sequence[str] | None = None, optional: Sequence[str] = ()) -> dict[str, NumPyArray]:
    """Return the arrays `keys` of an `.npz` file, and those of `optional` that it has; with `keys` None, all arrays."""
    file, file_bytes = open_regular(path)
    with file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_members(archive, path, keys, optional, file_bytes=file_bytes)
        except _DAMAGE as error:
            raise UserError(f"{path}: cannot be read as .npz ({reason(error)})") from None


def _read_members(
    archive: zipfile.ZipFile, path: Path, keys: Sequence[str] | None, optional: Sequence[str], *, file_bytes: int
) -> dict[str, NumPyArray]:
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    missing = [key for key in keys or () if key not in members]
    if missing:
        found = ", ".join(sorted(members)) or "nothing"
        raise UserError(f"{path}: lacks {', '.join(missing)} (it holds {short(found)})")
    chosen = members if keys is None else {key: members[key] for key in (*keys, *optional) if key in members}
    for key, info in chosen.items():
        _check_member(f"{path}: {key}", info, file_bytes=file_bytes)
    # Check the sum, too: each size may be just below the limit.
    check_claim(f"{path}: all arrays together", claimed_bytes=sum(info.file_size for info in chosen.values()))
    return {key: _read_member(archive, info, f"{path}: {key}") for key, info in chosen.items()}


def _check_member(source: str, info: zipfile.ZipInfo, *, file_bytes: int) -> None:
    if info.flag_bits & 1:
        raise UserError(f"{source}: is encrypted")
    if info.compress_type not in _PACKINGS:
        raise UserError(f"{source}: is packed in a way that np.savez never uses")
    if info.compress_size > file_bytes:
        raise UserError(f"{source}: claims {info.compress_size} packed bytes, more than the whole file")
    packed_bytes = info.compress_size if info.compress_type == zipfile.ZIP_DEFLATED else None
    check_claim(source, claimed_bytes=info.file_size, packed_bytes=packed_bytes)
    if packed_bytes is None and info.file_size != info.compress_size:
        raise UserError(f"{source}: claims {info.file_size} bytes but stores {info.compress_size}")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: str) -> NumPyArray:
    """Read one array. zipfile returns at most the declared `file_size` bytes, and compares the checksum at the end."""
    with archive.open(info) as stream:
        dtype, fortran_order, shape, header_bytes = read_npy_header(stream, source)
        claimed_bytes, held_bytes = math.prod(shape) * dtype.itemsize, info.file_size - header_bytes
        if claimed_bytes > held_bytes:
            raise UserError(f"{source}: its header claims shape {shape}, more than the {held_bytes} bytes it holds")
        if claimed_bytes < held_bytes:
            raise UserError(f"{source}: has {held_bytes - claimed_bytes} bytes left over after shape {shape}")
        array = read_array(stream, source, shape=shape[::-1] if fortran_order else shape, dtype=dtype)
        stream.read(1)  # compares the checksum of an empty array
    return array.T if fortran_order else array


def read_npy_header(stream: Readable, source: str) -> tuple[np.dtype[np.generic], bool, tuple[int, ...], int]:
    """Return (dtype, fortran order, shape, bytes read). The header, a Python dict as text, is matched, not evaluated."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != NPY_MAGIC or start[6] not in (1, 2, 3):
        raise UserError(f"{source}: is not a NumPy array")
    length_format = "<H" if start[6] == 1 else "<I"
    length_bytes = stream.read(struct.calcsize(length_format))
    if len(length_bytes) < struct.calcsize(length_format):
        raise UserError(f"{source}: is truncated inside its array header")
    (length,) = struct.unpack(length_format, length_bytes)
    if length > MAX_HEADER_BYTES:
        raise UserError(f"{source}: has an array header of {length} bytes, and the most allowed is {MAX_HEADER_BYTES}")
    header = stream.read(length)
    if len(header) < length:
        raise UserError(f"{source}: is truncated inside its array header")
    text = header.decode("latin-1")
    descr, order, shape = _DESCR.search(text), _ORDER.search(text), _SHAPE.search(text)
    if not (descr and order and shape):
        raise UserError(f"{source}: is not a plain array of numbers (objects and records are not loaded)")
    lengths = [text.strip().removesuffix("L") for text in shape[1].split(",") if text.strip()]
    if len(lengths) > MAX_AXES or not all(_LENGTH.fullmatch(text) for text in lengths):
        raise UserError(f"{source}: has an array header with an impossible shape ({ascii(shape[1][:40])[1:-1]})")
    try:
        dtype = np.dtype(descr[1])
    except TypeError:  # such as a float of one byte
        raise UserError(f"{source}: holds the unknown type '{descr[1]}'") from None
    return dtype, order[1] == "True", tuple(map(int, lengths)), len(start) + len(length_bytes) + length
