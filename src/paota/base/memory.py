"""What cannot fit is refused in a sentence, before memory is taken: a process that runs out of it cannot say anything."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import UserError

GIB = 2**30


def require(needed_bytes: float, what: str, remedy: str) -> None:
    """Refuse `what` if it needs more memory than there is.

    Args:
        needed_bytes: no more than it will really take, so that nothing is refused that would fit.
        what: the subject of the sentence, such as "training.batch_size = 7".
        remedy: what to change.
    """
    free = available_bytes()
    if free is not None and needed_bytes > free:
        raise UserError(
            f"{what} needs at least {needed_bytes / GIB:,.1f} GiB of memory, and {free / GIB:,.1f} GiB are there: {remedy}"
        )


def available_bytes() -> int | None:
    """What this process may still take, from the machine or the control group it is in; None where nobody says."""
    known = [size for size in (_of_machine(), _of_group()) if size is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("MemAvailable:", "SwapFree:")))
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _of_group() -> int | None:
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        files = Path("/sys/fs/cgroup/memory.stat").read_text().split("\nfile ")[-1].split()[0]
        return None if limit == "max" else int(limit) - used + int(files)
    except (OSError, ValueError, IndexError):
        return None
