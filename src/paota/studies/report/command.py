"""`paota report RUN...`: render a run folder again, or compare several in one page."""

from __future__ import annotations

import argparse
from pathlib import Path

from ...base.errors import UserError
from ...base.types import Subcommands
from ...terminal.arguments import add_open, say_page


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser("report", help="render the report of a run, or compare several runs in one page")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--unchecked", action="store_true", help="also read files that were changed after the run")
    parser.add_argument("--out", metavar="FILE", help="the HTML file (default: report.html in the run's folder)")
    add_open(parser)


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from ...results.folder import load  # start-up time
    from .report import write  # start-up time

    results = [load(folder, check=not args.unchecked) for folder in args.runs]
    usual = Path(args.runs[0]) / "report.html" if len(results) == 1 else Path("comparison.html")
    out = Path(args.out) if args.out else usual
    if not out.parent.is_dir():
        raise UserError(f"--out: there is no folder '{out.parent}'")
    write(results, out)
    say_page(out, args, str(out))
    return 0
