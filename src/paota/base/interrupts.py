"""Ctrl-C, in a program that loads JAX.

Python turns it into an exception wherever the main thread happens to be. Inside a callback of JAX's C++ that exception is
dropped, and the wish with it, or it ends the process in a crash. So nothing is raised there: what has nothing to tidy up
leaves at once, and a run is asked to stop by a flag.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

EXIT_CODE = 130
_SHOW_CURSOR = "\x1b[?25h"  # progress bars hide it


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """A signal handler: one sentence, and the process is gone, wherever it is."""
    _say(f"{_SHOW_CURSOR if sys.stderr.isatty() else ''}paota: interrupted")
    os._exit(EXIT_CODE)


@contextmanager
def raise_on_ctrl_c() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, as usual: for those who end other processes then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_on_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Ctrl-C asks to stop within two seconds, and to save; a second one does at once what it did before."""
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
    """To the terminal, past Python's buffers: a handler may have interrupted somebody who is writing to them."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode())
