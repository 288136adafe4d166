"""`paota run`: one experiment, live progress, a table, a run folder with the report."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..experiment import Experiment, as_experiment, read_preset


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "run",
        help="run an experiment: one setting, several algorithms on identical draws",
        description="Run an experiment. Without a file: the paper's setting with PAOTA, Local SGD and COTAF.",
    )
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT.toml", help="an experiment file")
    parser.add_argument("--preset", metavar="NAME", help="start from a built-in experiment ('paota presets' lists them)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change one setting, e.g. --set timing.period_s=6 or --set algorithms.paota.payload=update",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="repeat with N seeds (default 1)")
    parser.add_argument("--out", metavar="DIR", help="the run folder (default runs/NAME-DATE-TIME)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON and nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def run(args: argparse.Namespace) -> int:
    experiment = _experiment(args)
    if args.out and Path(args.out).exists() and (not Path(args.out).is_dir() or any(Path(args.out).iterdir())):
        raise UserError(f"'{args.out}' exists already and is not empty: choose another --out")

    from .. import simulate
    from ..files import jsonable
    from ..results import new_folder, write_folder
    from .display import LiveProgress, show_summary

    plan = simulate.plan(experiment, seeds=args.seeds)
    folder = new_folder(args.out or Path("runs") / f"{_slug(experiment.name)}-{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3])
    try:
        if args.json or args.quiet:
            result = simulate.execute(plan)
        else:
            with LiveProgress(plan, stream=sys.stderr) as progress:
                result = simulate.execute(plan, progress=progress)
    except BaseException:
        folder.rmdir()  # nothing has been written yet
        raise
    write_folder(result, folder)
    if args.json:
        print(json.dumps(jsonable({**result.summary, "folder": str(folder)}), allow_nan=False))
    else:
        show_summary(result)
        print(f"\nreport: {folder / 'report.html'}")
    return 0


def _experiment(args: argparse.Namespace) -> Experiment:
    if args.experiment and args.preset:
        raise UserError("give an experiment file or --preset, not both")
    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {args.seeds}")
    source = read_preset(args.preset) if args.preset else args.experiment
    return as_experiment(source, args.changes)


def _slug(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60]
    return kept.strip("-") or "run"
