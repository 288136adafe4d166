"""`paota power`: solve one power-control instance from a file or standard input."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError

if TYPE_CHECKING:
    from ..power import Solution
    from ..power.problem import Problem

ROWS_SHOWN = 20

_DESCRIPTION = """\
Finds how loud each ready device sends, by minimising terms (d) and (e) of the convergence bound
(P1/P2 of the paper).

JSON:  {"p_max": 15, "staleness": [0, 1, 2], "similarity": [0.2, 0.6, 0.9], "ready": [true, true, false]}
CSV:   columns p_max, staleness, similarity, ready
In both, rho may stand for staleness and theta for similarity, or lo and hi for all three.
Constants: omega, smoothness, epsilon2, num_devices, num_parameters, noise_power_w (or bandwidth_hz and
n0_dbm_per_hz), in the JSON object or as flags; flags win. What is left out has the paper's value."""

_SCALAR_HELP = {
    "omega": "staleness constant Omega (3)",
    "smoothness": "smoothness L of the loss (10)",
    "epsilon2": "eps^2 of the bound (1)",
    "num_devices": "K of term (d) (as many as given)",
    "num_parameters": "d, the size of the model (8070)",
    "noise_power_w": "noise power sigma^2 in watt",
    "bandwidth_hz": "bandwidth B in hertz (20e6)",
    "n0_dbm_per_hz": "noise density N0 in dBm/Hz (-174)",
}
_OPTION_HELP: dict[str, tuple[str, type, str]] = {
    "segments": ("--segments", int, "mip: chords for each square (16)"),
    "tolerance": ("--tolerance", float, "mip: relative tolerance (1e-6)"),
    "time_limit_s": ("--time-limit", float, "mip, qp: seconds (60)"),
    "threads": ("--threads", int, "mip: threads of the solver (1)"),
    "max_passes": ("--max-passes", int, "mip: most Dinkelbach passes (50)"),
    "backend": ("--backend", str, "mip: highs, scip, cplex; qp: highs, clarabel"),
    "coordinates": ("--coordinates", str, "mip: sum, or eigen as printed"),
    "stopping": ("--stopping", str, "mip: mended, or printed (one pass)"),
}


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the command to the main parser; `run` does the work."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "power",
        help="solve one power-control instance",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("instance", nargs="?", default="-", help="JSON or CSV file; - or nothing: standard input")
    parser.add_argument("--method", default="exact", help="exact (default), mip (the paper's route), qp")
    for name, (flag, kind, text) in _OPTION_HELP.items():
        parser.add_argument(flag, dest=name, type=kind, help=text)
    for name, text in _SCALAR_HELP.items():
        kind = int if name in ("num_devices", "num_parameters") else float
        parser.add_argument("--" + name.replace("_", "-"), dest=name, type=kind, help=text)
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the result to FILE (.json or .csv)")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Solve and show. A user's mistake raises UserError before anything is written."""
    from ..power import problem_from, solve_problem

    if args.out is not None and args.out.suffix.lower() not in (".json", ".csv"):
        raise UserError(f"--out {args.out}: the name must end in .json or .csv")
    problem = problem_from(**_with_flags(_instance(args.instance), args))
    options = {name: getattr(args, name) for name in _OPTION_HELP if getattr(args, name) is not None}
    solution = solve_problem(problem, method=args.method, **options)
    if args.out is not None:
        as_csv = args.out.suffix.lower() == ".csv"
        _write(args.out, _csv_text(problem, solution) if as_csv else _json_text(solution))
    if args.json:
        sys.stdout.write(_json_text(solution))
    else:
        _show(problem, solution)
    return 0


def _instance(name: str) -> dict[str, Any]:
    from ..power.instance import parse, read_bounded

    if name == "-":
        if sys.stdin.isatty():
            raise UserError("give an instance file, or send one to standard input")
        return parse(read_bounded(sys.stdin.buffer, "standard input"), "standard input")
    try:
        with Path(name).open("rb") as stream:
            data = read_bounded(stream, name)
    except FileNotFoundError:
        raise UserError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse(data, name)


def _with_flags(arguments: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """The file's values with those of the flags over them; a noise flag also sets aside the file's other noise form."""
    flags = {name: getattr(args, name) for name in _SCALAR_HELP if getattr(args, name) is not None}
    density = ("bandwidth_hz", "n0_dbm_per_hz")
    dropped = set(density) if "noise_power_w" in flags else set()
    if any(name in flags for name in density):
        dropped.add("noise_power_w")
    return {name: value for name, value in arguments.items() if name not in dropped} | flags


def as_dict(solution: Solution) -> dict[str, Any]:
    """The solution as plain JSON values; what does not exist (nobody ready) or is infinite (c1 = 0) is null."""

    def finite(number: float) -> float | None:
        return number if math.isfinite(number) else None

    return {
        "method": solution.method,
        "message": solution.message,
        "objective": finite(solution.objective),
        "term_d": finite(solution.term_d),
        "term_e": finite(solution.term_e),
        "level": finite(solution.level),
        "kkt_residual": finite(solution.kkt_residual),
        "gap": finite(solution.gap),
        "unique": solution.unique,
        "power": solution.power.tolist(),
        "beta": solution.beta.tolist(),
    }


def _json_text(solution: Solution) -> str:
    return json.dumps(as_dict(solution), allow_nan=False) + "\n"


def _csv_text(problem: Problem, solution: Solution) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["device", "ready", "lo", "hi", "power", "beta"])
    columns = (problem.lo, problem.hi, solution.power, solution.beta)
    writer.writerows(
        [k, int(is_ready), *values]
        for k, (is_ready, *values) in enumerate(
            zip(problem.ready.tolist(), *(column.tolist() for column in columns), strict=True)
        )
    )
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    """Write to a temporary name beside the target, then rename: a reader never sees half a file."""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=path.name, suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink()
            raise
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None


def _show(problem: Problem, solution: Solution) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("device", "lo", "hi", "power", "beta", "where"):
        table.add_column(heading, justify="left" if heading == "where" else "right")
    total = problem.hi.size
    for k in range(min(total, ROWS_SHOWN)):
        table.add_row(str(k), *_cells(problem, solution, k))
    console.print(table)
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


def _cells(problem: Problem, solution: Solution, k: int) -> tuple[str, ...]:
    lo, hi, power = (float(values[k]) for values in (problem.lo, problem.hi, solution.power))
    if not problem.ready[k]:
        where = "not ready"
    elif lo == hi:
        where = "fixed"
    elif math.isclose(power, hi):
        where = "at hi"
    else:
        where = "at lo" if math.isclose(power, lo) else "free"
    return (*(f"{value:.6g}" for value in (lo, hi, power)), f"{solution.beta[k]:.4f}", where)
