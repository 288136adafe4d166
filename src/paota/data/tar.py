"""Tar archives as a stream of members: nothing is extracted to disk, and no size is believed before it is checked.

Read by hand, because the standard library's reader takes a long name or an extended header of any claimed size into memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from paota.base.bounded import SMALL_BYTES, STEP_BYTES, Readable, Unpacked, check_claim
from paota.base.errors import UserError

BLOCK_BYTES = 512
REGULAR = (b"0", b"\0")
NAME, SIZE, CHECKSUM, KIND = slice(0, 100), slice(124, 136), slice(148, 156), slice(156, 157)


class Member:
    """One ordinary file of an archive; `read` ends where it ends."""

    def __init__(self, name: str, size: int, stream: Readable) -> None:
        self.name, self.size, self.left, self._stream = name, size, size, stream

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes, empty at the end of the member or of a truncated archive."""
        piece = self._stream.read(min(size, self.left))
        self.left -= len(piece)
        return piece


def members(content: Unpacked, source: str) -> Iterator[Member]:
    """The ordinary files of an archive in their order; each must be read, or left, before the next is asked for.

    The whole archive is read, so that gzip compares its checksum.
    """
    claimed_bytes = 0
    while any(header := _header(content.stream, source)):
        size = _size(header, source)
        claimed_bytes += size
        check_claim(source, claimed_bytes=claimed_bytes, packed_bytes=content.packed_bytes)
        member = Member(header[NAME].split(b"\0")[0].decode("latin-1"), size, content.stream)
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
    """The size of the member, after a look at the header's checksum: the sum of its bytes, its own as spaces."""
    try:
        size, checksum = (int(header[field].strip(b" \0") or b"0", 8) for field in (SIZE, CHECKSUM))
    except ValueError:
        size = checksum = -1
    if size < 0 or checksum != sum(header) - sum(header[CHECKSUM]) + 8 * ord(" "):
        raise UserError(f"{source}: is damaged, or no tar archive: the checksum of a header is wrong")
    return size


def _exactly(stream: Readable, size: int) -> bytes:
    """`size` bytes, or fewer at the end: a stream may hand out less than is asked for."""
    pieces = []
    while size and (piece := stream.read(size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _skip(stream: Readable, size: int, source: str) -> None:
    while size:
        piece = stream.read(min(STEP_BYTES, size))
        if not piece:
            raise UserError(f"{source}: is truncated, {size} bytes of a member are missing")
        size -= len(piece)


def _drain(stream: Readable, source: str) -> None:
    left_over = 0
    while piece := stream.read(STEP_BYTES):
        left_over += len(piece)
        if left_over > SMALL_BYTES:
            raise UserError(f"{source}: has more than {SMALL_BYTES} bytes left over after the end of its archive")
