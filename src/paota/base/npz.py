"""NumPy's `.npz`: a zip of `.npy` members. Read here by hand, because `np.load` takes memory before it checks sizes.

No pickle is ever loaded: only plain numeric arrays are read, whatever the file says.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .bounded import Readable, check_claim, open_regular, read_array, reason, short
from .errors import UserError

NPY_MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000
MAX_AXES = 32

# What zipfile and zlib raise on damaged files.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    RuntimeError,
)

# Only the packing of np.savez and np.savez_compressed: bzip2 and lzma members are unpacked by zipfile without a bound.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

_DESCR = re.compile(r"""['"]descr['"]\s*:\s*['"]([<>|=]?(?:[uif][1248]|b1))['"]""")
_ORDER = re.compile(r"""['"]fortran_order['"]\s*:\s*(True|False)""")
_SHAPE = re.compile(r"""['"]shape['"]\s*:\s*\(([0-9L,\s]*)\)""")  # Python 2 wrote lengths as 3L
_LENGTH = re.compile(r"[0-9]{1,18}")


def read_arrays(
    path: Path, keys: Sequence[str] | None = None, optional: Sequence[str] = ()
) -> dict[str, npt.NDArray[Any]]:
    """The arrays named `keys` of an `.npz` and those of `optional` that it holds, or all of them."""
    file, file_bytes = open_regular(path)
    with file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _read_members(archive, path, keys, optional, file_bytes=file_bytes)
        except _DAMAGE as error:
            raise UserError(f"{path}: cannot be read as .npz ({reason(error)})") from None


def _read_members(
    archive: zipfile.ZipFile, path: Path, keys: Sequence[str] | None, optional: Sequence[str], *, file_bytes: int
) -> dict[str, npt.NDArray[Any]]:
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    missing = [key for key in keys or () if key not in members]
    if missing:
        found = ", ".join(sorted(members)) or "nothing"
        raise UserError(f"{path}: lacks {', '.join(missing)} (it holds {short(found)})")
    chosen = members if keys is None else {key: members[key] for key in (*keys, *optional) if key in members}
    for key, info in chosen.items():
        _check_member(f"{path}: {key}", info, file_bytes=file_bytes)
    # All together, too: each might be just below the limit.
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


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, source: str) -> npt.NDArray[Any]:
    """zipfile hands out at most the declared `file_size` bytes and compares the checksum at the last of them."""
    with archive.open(info) as stream:
        dtype, fortran_order, shape, header_bytes = read_npy_header(stream, source)
        claimed_bytes, held_bytes = math.prod(shape) * dtype.itemsize, info.file_size - header_bytes
        if claimed_bytes > held_bytes:
            raise UserError(f"{source}: its header claims shape {shape}, more than the {held_bytes} bytes it holds")
        if claimed_bytes < held_bytes:
            raise UserError(f"{source}: has {held_bytes - claimed_bytes} bytes left over after shape {shape}")
        array = read_array(stream, source, shape=shape[::-1] if fortran_order else shape, dtype=dtype)
        stream.read(1)  # an empty array reads nothing above, and its checksum is compared only here
    return array.T if fortran_order else array


def read_npy_header(stream: Readable, source: str) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """(dtype, fortran order, shape, bytes read). The header is a Python dict as text: it is matched, not evaluated."""
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
    except TypeError:  # say, a float of one byte
        raise UserError(f"{source}: holds the unknown type '{descr[1]}'") from None
    return dtype, order[1] == "True", tuple(map(int, lengths)), len(start) + len(length_bytes) + length
