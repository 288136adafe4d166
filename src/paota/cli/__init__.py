"""The command line. Imports come after the handler of Ctrl-C, so that it gets its sentence from the start."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..base.system import EXIT_CODE, leave


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    The code is 0, 1 for a failure, 2 for a user's mistake, 3 if a run diverged, and 130 after Ctrl-C.
    """
    try:
        from . import commands  # start-up time

        return commands.run(argv)
    except KeyboardInterrupt:
        print("paota: interrupted", file=sys.stderr)
        return EXIT_CODE


def command() -> NoReturn:
    """Run the program `paota`. It does not wait for a computation that was left behind and cannot be stopped."""
    signal.signal(signal.SIGINT, leave)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123  the caller may have closed it
    sys.stderr = sys.stderr or sys.stdout
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    threads = sys.modules.get("paota.simulate.threads")
    if code == EXIT_CODE or (threads is not None and threads.any_running()):
        os._exit(code)
    sys.exit(code)
