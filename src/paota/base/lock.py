"""One process at a time in a folder: two that go on with the same run would write over each other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from .errors import UserError


@contextlib.contextmanager
def only_one(folder: str | Path, *, patient: bool = False) -> Iterator[None]:
    """Hold `folder` for this process; a second one is refused in a sentence. However the process ends, it lets go.

    Whoever holds it finds no half-written files in it: those of a process that was killed are removed first.

    Args:
        folder: that exists.
        patient: wait until the other one is done, instead.
    """
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if patient else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(f"another process is at work in '{folder}': wait for it, or stop it") from None
    except OSError:  # a file system without locks
        pass
    try:
        for part in Path(folder).rglob(".*.part"):  # as `files.atomic` names them
            with contextlib.suppress(OSError):  # not ours, or on a disk that can only be read
                part.unlink()
        yield
    finally:
        os.close(descriptor)
