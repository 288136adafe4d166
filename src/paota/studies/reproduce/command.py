"""`paota reproduce`: every figure and table of the paper beside the paper's values, and a verdict for each claim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ...base.errors import UserError, install_command
from ...base.types import Subcommands
from ...terminal.arguments import add_open, say_page

if TYPE_CHECKING:
    from ..progress import TasksDisplay
    from .cells import Cell
    from .run import Reproduction


def add_parser(commands: Subcommands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "reproduce",
        help="every figure and table of the paper, with a verdict for each of its claims",
        description="Compute every figure and table of the paper, Theorem 1, a noise sweep and ablations. Finished cells "
        "of the folder are kept: repeat the command to resume an interrupted reproduction.",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="reproduction", help="the output folder (default: reproduction)"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run in under two minutes: small data, few rounds")
    parser.add_argument("--seeds", type=int, metavar="N", help="repetitions (default 15; 2 with --quick)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core, at most 8)")
    parser.add_argument(
        "--part", action="append", default=[], metavar="PART", dest="parts",
        help="only this part beside the paper's own figures: theory, noise or ablations; may be repeated",
    )  # fmt: skip
    add_open(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def run(args: argparse.Namespace) -> int:
    """Compute the reproduction, then print the verdicts and the path of the page."""
    for name in ("seeds", "workers"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be at least 1, not {value}")
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise UserError(f"--out: '{out}' is a file, not a folder")

    from ...pages import export  # start-up time
    from .catalogue import check_parts  # start-up time
    from .run import reproduce  # start-up time

    check_parts(args.parts)
    if not export.available():  # before hours of computing, and after all arguments have been checked
        print(f"figures: in the page only; {install_command('paper')} adds them as PDF and PNG", file=sys.stderr)
    made = reproduce(
        out, quick=args.quick, seeds=args.seeds, workers=args.workers, parts=args.parts,
        display=None if args.quiet else _display,
    )  # fmt: skip
    _show(made)
    say_page(made.page, args, f"\nreport: {made.page}")
    return 0


def _display(cells: Sequence[Cell]) -> TasksDisplay:
    from ..progress import TasksDisplay  # start-up time

    names = {cell.name: cell.name for cell in cells}
    work = {cell.name: float(cell.work) for cell in cells}
    return TasksDisplay("reproducing", "cells to compute", names, sys.stderr, work=work, output=sys.stdout)


def _show(made: Reproduction) -> None:
    """Print the verdicts as a table; a smoke run has none."""
    from ...terminal.tables import print_table  # start-up time

    rows = made.tables["verdicts"]
    if not rows:
        print("smoke run on made-up data: its figures say nothing about the paper, so there are no verdicts")
        return
    shown = {"paper": "paper", "measured as printed": "estimate", "verdict": "verdict", "change": "change"}
    columns = [(heading, [row[key] for row in rows]) for heading, key in shown.items()]
    print_table(Console(), "Verdicts", ("claim", [row["claim"] for row in rows]), columns)
