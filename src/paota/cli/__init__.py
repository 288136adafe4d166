"""The command line. Nothing is imported before somebody answers for it: Ctrl-C gets its sentence from the start."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..base.system import EXIT_CODE, leave


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    0; 1 if something failed, 2 for a mistake of the user's, 3 if a run diverged, 130 after Ctrl-C.
    """
    try:
        from . import commands

        return commands.run(argv)
    except KeyboardInterrupt:
        print("paota: interrupted", file=sys.stderr)
        return EXIT_CODE


def command() -> NoReturn:
    """The program `paota`. It does not wait for a computation that was left behind, which nothing can break off."""
    signal.signal(signal.SIGINT, leave)
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    threads = sys.modules.get("paota.simulate.threads")
    if code == EXIT_CODE or (threads is not None and threads.any_running()):
        os._exit(code)
    sys.exit(code)
