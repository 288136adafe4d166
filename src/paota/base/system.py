"""Services of the operating system: Ctrl-C, locks of folders, free memory.

Python turns Ctrl-C into an exception wherever the main thread is. In a callback of JAX's C++ that exception is dropped, or it
crashes the process. Handlers here therefore raise nothing: a command without anything to save ends at once, and a run
polls a flag.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from .errors import UserError

EXIT_CODE = 130  # after Ctrl-C
GIB = 2**30
_SHOW_CURSOR = "\x1b[?25h"  # progress bars hide the cursor


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """End the process at once with one sentence; a signal handler."""
    _say(f"{_SHOW_CURSOR if sys.stderr.isatty() else ''}paota: interrupted")
    os._exit(EXIT_CODE)


@contextmanager
def raise_on_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt`, for code that ends other processes then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_on_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; a second Ctrl-C calls the previous handler."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield lambda: False
        return
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            _say("\npaota: stopping (again to stop at once)")
        elif callable(before):
            before(number, frame)

    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _say(text: str) -> None:
    """Write to the terminal without Python's buffers: the signal may have interrupted code that writes to them."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())


@contextmanager
def only_one(folder: str | Path, *, patient: bool = False) -> Iterator[None]:
    """Lock a folder for this process until the block, or the process, ends. A second process gets a `UserError`.

    Partial files of a process that was killed are removed first.

    Args:
        folder: an existing folder.
        patient: wait for the other process instead.
    """
    try:
        import fcntl  # optional
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
        for part in Path(folder).rglob(".*.part"):  # names by `files.atomic`
            with suppress(OSError):  # a file of another user, or a read-only disk
                part.unlink()
        yield
    finally:
        os.close(descriptor)


def cores() -> int:
    """Return the CPU cores available to this process: those of the system, at most OMP_NUM_THREADS if it is set."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(given, int(wanted))) if wanted.isdecimal() else given


def require_memory(needed_bytes: float, what: str, remedy: str) -> None:
    """Refuse `what` if it needs more memory than is available: a process without memory cannot print a message.

    Args:
        needed_bytes: a lower bound, so that everything that fits is accepted.
        what: subject of the sentence, such as "training.batch_size = 7".
        remedy: the change that helps.
    """
    free = available_bytes()
    if free is not None and needed_bytes > free:
        raise UserError(
            f"{what} needs at least {needed_bytes / GIB:,.1f} GiB of memory, and {free / GIB:,.1f} GiB are free: {remedy}"
        )


def available_bytes() -> int | None:
    """Return the memory that the machine and the control group still allow this process; None if unknown."""
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
