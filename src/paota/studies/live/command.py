"""`paota watch DIR`: a live dashboard of a run or a sweep."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...base.errors import UserError
from ...base.types import Subcommands


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "watch",
        help="show a live dashboard of a run or sweep",
        description="Serve a page for the run or sweep in a folder, also one that another machine writes into. Only this "
        "machine can reach the page, only with the address that is printed, and nothing is written. Ctrl-C ends it.",
    )
    parser.add_argument("folder", metavar="DIR", help="a run folder or a sweep folder")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="on this machine (default: a free one)")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from .server import LiveServer  # start-up time

    if not 0 <= args.port < 2**16:
        raise UserError(f"--port must be from 0 to 65535, not {args.port}")
    with LiveServer(Path(args.folder), args.port) as server:
        print(f"live: {server.address}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:  # how it is meant to end
            return 0
    return 0
