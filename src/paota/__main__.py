"""The program `paota`. Ctrl-C ends it in one sentence from the first moment on, also while Python still imports."""

from __future__ import annotations

import signal
from typing import NoReturn

from .interrupts import leave


def command() -> NoReturn:
    signal.signal(signal.SIGINT, leave)
    from .cli import command

    command()


if __name__ == "__main__":
    command()
