"""Arguments that the commands of studies share: how much is computed at a time, where, and how to resume."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ..base.errors import UserError
from ..base.files import Columns, jsonable
from ..base.system import EXIT_CODE
from ..base.types import Json, Table
from ..experiment.experiment import Experiment
from ..experiment.files import parse_assignment
from ..results.folder import refuse_used_folder
from ..terminal.arguments import add_trust, go_on
from .on_ray import require_ray
from .sweep.grid import Axis, combinations, parse_axis

MOST_LINES = 40  # of a table in the terminal


def add_computing(parser: argparse.ArgumentParser, *, what: str, runs: str) -> None:
    """How a sweep or a plan (`what`) is computed, whose runs people call `runs`, and where; `check_computing` checks it."""
    parser.add_argument("--jobs", type=int, metavar="N", help=f"{runs} computed at a time (default: one a core)")
    parser.add_argument(
        "--ray", nargs="?", const="", metavar="ADDRESS",
        help="compute on a Ray cluster instead (default address: Ray's own)",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help=f"the {what} folder (default runs/NAME-{what}-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help=f"go on with an interrupted {what}; what is finished is kept")
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON and nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def check_computing(args: argparse.Namespace) -> None:
    """Refuse what `add_computing`'s arguments cannot mean, before anything is read or made."""
    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {args.jobs}")
    if args.resume and args.out:
        raise UserError("--resume goes on in its own folder: give it without --out")
    if args.out:
        refuse_used_folder(args.out)
    if args.ray is not None:
        require_ray()


def read_axes(args: argparse.Namespace) -> list[Axis]:
    """The axes that `--over` gives; a setting that `--set` fixes is refused."""
    axes = [parse_axis(text) for text in args.over]
    if axes:
        combinations(axes)  # refuses axes that make no grid
    fixed = [parse_assignment(text)[0] for text in args.changes]
    for axis in axes:
        if axis.key in fixed:
            raise UserError(f"{axis.key} is given by --set and by --over: keep one of them")
    return axes


def print_json(value: Json) -> None:
    """For `--json`: one line, without NaN."""
    print(json.dumps(jsonable(value), allow_nan=False))


def rows_of(columns: Columns) -> list[Table]:
    """A table of columns row by row."""
    cells = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in cells]


def tell_how_to_go_on(what: str, folder: Path, experiment: Experiment) -> int:
    """After Ctrl-C in a sweep or a plan (`what`): the sentence, and the code to exit with."""
    print(f"\npaota: interrupted; what is finished is saved; {go_on(what, folder, experiment)}", file=sys.stderr)
    return EXIT_CODE
