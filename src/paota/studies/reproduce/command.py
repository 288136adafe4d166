"""`paota reproduce`: every figure and table of the paper, ours beside the paper's, and a verdict for each claim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError, install_command

if TYPE_CHECKING:
    from ..progress import TasksDisplay
    from .cells import Cell
    from .run import Reproduction


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="every figure and table of the paper, with a verdict for each of its claims",
        description="Run everything that the paper shows, and what it should have shown. Cells that a folder already "
        "holds are not run again: the same command goes on after an interruption.",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="reproduction", help="the output folder (default: reproduction)"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run in under two minutes: small data, few rounds")
    parser.add_argument("--seeds", type=int, metavar="N", help="repetitions (default 15; 2 with --quick)")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one for each core, at most 8)")
    parser.add_argument(
        "--part", action="append", default=[], metavar="PART", dest="parts",
        help="only this part beside the paper's own figures: theory, noise, ablations or open-choices; may be repeated",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def run(args: argparse.Namespace) -> int:
    for name in ("seeds", "workers"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be at least 1, not {value}")
    out = Path(args.out)
    if out.exists() and not out.is_dir():
        raise UserError(f"--out: '{out}' is a file, and a folder is needed")

    from ...pages import export
    from .catalogue import check_parts
    from .run import reproduce

    check_parts(args.parts)
    if not export.available():  # before hours of computing, and after everything that can be wrong with the arguments
        print(f"figures: in the page only; {install_command('paper')} adds them as PDF and PNG", file=sys.stderr)
    made = reproduce(
        out, quick=args.quick, seeds=args.seeds, workers=args.workers, parts=args.parts,
        display=None if args.quiet else _display,
    )  # fmt: skip
    _show(made)
    print(f"\nreport: {made.page}")
    if made.choices is not None:
        print(f"reverse-engineering the paper: {made.choices}")
    return 0


def _display(cells: Sequence[Cell]) -> TasksDisplay:
    from ..progress import TasksDisplay

    names = {cell.name: cell.name for cell in cells}
    work = {cell.name: float(cell.work) for cell in cells}
    return TasksDisplay("reproducing", "cells to compute", names, sys.stderr, work, sys.stdout)


def _show(made: Reproduction) -> None:
    """The verdicts as a table; a smoke run has none."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from .verdicts import CHANGED, FAILED, REPRODUCED, UNDECIDED

    console = Console()
    if not made.verdicts:
        console.print("smoke run on made-up data: its figures say nothing about the paper, so there are no verdicts")
        return
    colours = {REPRODUCED: "green", CHANGED: "yellow", UNDECIDED: "yellow", FAILED: "red"}
    table = Table(show_lines=True)
    for heading in ("claim", "paper", "measured as printed", "verdict"):
        table.add_column(heading)
    for v in made.verdicts:
        change = f"\n({escape(v.changed.change)}: {escape(str(v.changed.estimate))})" if v.changed else ""
        table.add_row(
            escape(v.claim.statement), escape(v.claim.paper), escape(str(v.estimate)),
            f"[{colours[v.status]}]{v.status}[/]{change}",
        )  # fmt: skip
    console.print(table)
