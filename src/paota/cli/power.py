"""`paota power`: solve one power-control instance from a file or standard input."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..base.bounded import read_regular
from ..base.errors import UserError, unknown_name
from ..base.files import jsonable, write_csv, write_text
from ..base.types import Subcommands, Table
from ..power.problem import DEVICE_KEYS, SCALAR_KEYS, Constants
from ..power.settings import MipOptions

if TYPE_CHECKING:
    from ..power import Problem, Solution

ROWS_SHOWN = 20
MAX_BYTES = 256 * 2**20
"""The largest instance that is read: room for several million devices."""

_DESCRIPTION = """\
Computes the amplitude of each ready device by minimising terms (d) and (e) of the convergence bound
(P1/P2 of the paper).

The instance is a JSON object:
  {"p_max": 15, "staleness": [0, 1, 2], "similarity": [0.2, 0.6, 0.9], "ready": [true, true, false]}
rho may replace staleness, theta may replace similarity, and lo and hi may replace all three.
Constants: omega, smoothness, epsilon2, num_devices, num_parameters, noise_power_w (or bandwidth_hz and
n0_dbm_per_hz), in the JSON object or as flags; flags win. A missing constant has the paper's value."""


def add_parser(subparsers: Subcommands) -> argparse.ArgumentParser:
    """Add the command to the main parser; `run` does the work."""
    parser = subparsers.add_parser(
        "power",
        help="solve one power-control instance",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("instance", nargs="?", default="-", help="JSON file; - or nothing: standard input")
    parser.add_argument("--method", default="exact", help="exact (default) or mip (the paper's route)")
    parser.add_argument("--backend", help=argparse.SUPPRESS)
    for prefix, options in (("mip: ", MipOptions), ("", Constants)):
        for field in fields(options):
            flag = "--time-limit" if field.name == "time_limit_s" else "--" + field.name.replace("_", "-")
            kind = {"int": int, "float": float, "str": str}[str(field.type).removesuffix(" | None")]
            default = "" if field.default is None else f" (default {field.default})"
            parser.add_argument(
                flag, dest=field.name, type=kind, help=f"{prefix}{field.metadata['doc'].rstrip('.')}{default}"
            )
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to FILE (.json or .csv)")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Solve and show the instance. A user's mistake raises UserError before anything is written."""
    from ..power import problem_from, solve_problem  # start-up time

    if args.backend is not None:
        raise UserError("--backend no longer exists: the integer programme is always solved by HiGHS")
    if args.out is not None and args.out.suffix.lower() not in (".json", ".csv"):
        raise UserError(f"--out {args.out}: the name must end in .json or .csv")
    problem = problem_from(**_with_flags(_instance(args.instance), args))
    options = {f.name: value for f in fields(MipOptions) if (value := getattr(args, f.name)) is not None}
    solution = solve_problem(problem, method=args.method, **options)
    text = json.dumps(jsonable(vars(solution)), allow_nan=False) + "\n"
    if args.out is not None and args.out.suffix.lower() == ".csv":
        device, ready = np.arange(problem.hi.size), problem.ready.astype(int)
        given = {"device": device, "ready": ready, "lo": problem.lo, "hi": problem.hi}
        write_csv(args.out, given | {"power": solution.power, "beta": solution.beta})
    elif args.out is not None:
        write_text(args.out, text)
    if args.json:
        sys.stdout.write(text)
    else:
        _show(problem, solution)
    return 0


def parse(data: bytes, source: str) -> Table:
    """Return the arguments of `paota.power.problem_from` from the JSON text of an instance."""

    def without_repeats(pairs: list[tuple[str, object]]) -> Table:
        names = [name for name, _ in pairs]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise UserError(f"{source}: the key '{repeated}' is given twice")
        return dict(pairs)

    try:
        text = data.decode("utf-8-sig")
        if not text.strip():
            raise UserError(f"{source} is empty")
        table = json.loads(text, object_pairs_hook=without_repeats)
    except UnicodeDecodeError:
        raise UserError(f"{source} is not UTF-8 text") from None
    except RecursionError:
        raise UserError(f"{source} is nested too deeply to be an instance") from None
    except ValueError as error:
        raise UserError(f"{source} is not valid JSON: {error}") from None
    if not isinstance(table, dict):
        raise UserError(f'{source} must hold one JSON object such as {{"p_max": [15, 15], ...}}')
    for key, value in table.items():
        if key not in DEVICE_KEYS + SCALAR_KEYS:
            raise UserError(f"{source}: {unknown_name('key', key[:40], DEVICE_KEYS + SCALAR_KEYS)}")
        if value is None:
            raise UserError(f"{source}: {key} is null: give a value or leave the key out")
    return table


def _instance(name: str) -> Table:
    """Return the instance in a file, or on standard input for "-"."""
    if name == "-":
        if sys.stdin.isatty():
            raise UserError("give an instance file, or send one to standard input")
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UserError(f"standard input is larger than {MAX_BYTES >> 20} MiB")
        return parse(data, "standard input")
    if Path(name).suffix.lower() == ".csv":
        raise UserError(f"{name}: CSV instances are no longer read: write a JSON object with one list per column")
    return parse(read_regular(Path(name), most=MAX_BYTES), name)


def _with_flags(arguments: Table, args: argparse.Namespace) -> Table:
    """Return the file's values with those of the flags on top; a noise flag replaces the file's other noise form."""
    flags = {name: value for name in SCALAR_KEYS if (value := getattr(args, name)) is not None}
    density = {"bandwidth_hz", "n0_dbm_per_hz"}
    dropped = density if "noise_power_w" in flags else {"noise_power_w"} if density & flags.keys() else set()
    return {name: value for name, value in arguments.items() if name not in dropped} | flags


def _show(problem: Problem, solution: Solution) -> None:
    """Print the first devices, the certificate and the message."""
    from rich.console import Console  # start-up time

    from ..terminal.tables import print_table  # start-up time

    console = Console(highlight=False, markup=False, soft_wrap=True)
    total = problem.hi.size
    shown = range(min(total, ROWS_SHOWN))
    numbers = {"lo": problem.lo, "hi": problem.hi, "power": solution.power}
    columns = [(name, [f"{values[k]:.6g}" for k in shown]) for name, values in numbers.items()]
    columns += [("beta", [f"{solution.beta[k]:.4f}" for k in shown])]
    columns += [("where", [_place(problem, float(solution.power[k]), k) for k in shown])]
    print_table(console, "", ("device", [str(k) for k in shown]), columns)
    if total > ROWS_SHOWN:
        console.print(f"... and {total - ROWS_SHOWN} more devices; --json or --out FILE gives them all\n")
    kind = "the optimum is unique" if solution.unique else "other optima exist"
    for line in (
        f"{int(problem.ready.sum())} of {total} devices ready; level tau = {solution.level:.9g}, c = {problem.c:.4g}",
        f"objective {solution.objective:.9g} = term (d) {solution.term_d:.6g} + term (e) {solution.term_e:.6g}",
        f"method {solution.method}: KKT residual {solution.kkt_residual:.1e}, gap {solution.gap:.1e}; {kind}",
        solution.message,
    ):
        console.print(line)


def _place(problem: Problem, power: float, k: int) -> str:
    """Return the place of a device's amplitude in its box."""
    lo, hi = float(problem.lo[k]), float(problem.hi[k])
    if not problem.ready[k]:
        return "not ready"
    if lo == hi:
        return "fixed"
    if math.isclose(power, hi):
        return "at hi"
    return "at lo" if math.isclose(power, lo) else "free"
