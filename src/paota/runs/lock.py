"""One process at a time in a folder: two that go on with the same run would write over each other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError


@contextlib.contextmanager
def only_one(folder: str | Path) -> Iterator[None]:
    """Hold `folder` for this process; a second one is refused in a sentence. However the process ends, it lets go."""
    try:
        import fcntl
    except ImportError:  # a system without such locks
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(f"another process is at work in '{folder}': wait for it, or stop it") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        os.close(descriptor)
