"""`paota sweep`: a grid of experiments, several at a time, one table, one page, and the best point in a sentence."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ...base.system import raise_on_ctrl_c
from ...base.types import Subcommands, Table
from ...terminal.arguments import (
    SEEDS_HELP,
    add_callbacks,
    add_experiment,
    default_folder,
    parse_seeds,
    read_callbacks,
    read_experiment,
)
from ..arguments import (
    MOST_LINES,
    add_computing,
    check_computing,
    print_json,
    read_axes,
    rows_of,
    tell_how_to_go_on,
)

if TYPE_CHECKING:
    from ..pool import Watch
    from .grid import Point
    from .outcome import SweepRow
    from .sweep import Sweep, SweepSpec


def add_parser(commands: Subcommands) -> None:
    parser = commands.add_parser(
        "sweep",
        help="run a grid of experiments in parallel and name its best point",
        description="Run an experiment at every combination of the --over values, several at a time. "
        "Metrics of --best: seconds_to:A, rounds_to:A, joules_to:A, airtime_to:A, updates_to:A (to test accuracy A), "
        "final_accuracy, accuracy_at:SECONDS, accuracy_after:ROUNDS, final_loss.",
    )
    add_experiment(parser)
    add_callbacks(parser)
    parser.add_argument(
        "--over", action="append", default=[], metavar="KEY=V1,V2,...",
        help="sweep one setting, e.g. --over timing.period_s=4,6,8 or 4:12:2 (a range); several make a grid",
    )  # fmt: skip
    parser.add_argument("--seeds", type=parse_seeds, metavar="N|A,B,...", help=f"every point: {SEEDS_HELP}")
    parser.add_argument(
        "--best", metavar="METRIC", help="what decides, e.g. seconds_to:0.8 (default: the highest target)"
    )
    parser.add_argument(
        "--equal", metavar="WHAT",
        help="what all points have equal where equal rounds would take unequal time: time (default; of the longest) "
        "or rounds",
    )  # fmt: skip
    add_computing(parser, what="sweep", runs="points")


def run(args: argparse.Namespace) -> int:
    from . import sweep as sweeps
    from .folder import SWEEPS

    check_computing(args)
    callbacks = read_callbacks(args)
    spec = _spec(args)
    folder = (
        Path(args.resume)
        if args.resume
        else SWEEPS.begin(args.out or default_folder(f"{spec.experiment.name}-sweep"), spec)
    )
    try:
        with raise_on_ctrl_c(), _display(spec, quiet=args.json or args.quiet) as watch:
            failed = sweeps.compute(folder, spec, jobs=args.jobs, ray=args.ray, callbacks=callbacks, watch=watch)
    except KeyboardInterrupt:
        return tell_how_to_go_on("sweep", folder, spec.experiment)
    _show(sweeps.gather(folder, spec, failed), spec.points, args)
    return 1 if failed else 0


def _spec(args: argparse.Namespace) -> SweepSpec:
    """What to sweep: from the arguments, or from the folder to go on with (then both must agree, if both are given)."""
    from . import sweep as sweeps
    from .folder import SWEEPS
    from .metrics import parse_metric

    given = (args.experiment, args.preset, args.changes, args.over, args.stop_at, args.patience)
    if args.resume and not any(given):
        begun = SWEEPS.read(args.resume, trust_plugins=args.trust_plugins)
        if args.seeds not in (None, begun.seeds):
            raise UserError(f"'{args.resume}' holds a sweep with --seeds {begun.seeds}, not {args.seeds}")
        if args.equal not in (None, begun.equal):
            raise UserError(f"'{args.resume}' holds a sweep with --equal {begun.equal}, not {args.equal}")
        return replace(begun, best=parse_metric(args.best).text) if args.best else begun
    base, axes = read_experiment(args), read_axes(args)
    seeds = 1 if args.seeds is None else args.seeds
    spec = sweeps.prepare(base, axes, seeds=seeds, best=args.best, equal=args.equal or "time")
    if args.resume:
        SWEEPS.refuse_other(args.resume, spec)
    return spec


def _display(spec: SweepSpec, *, quiet: bool) -> AbstractContextManager[Watch]:
    if quiet:
        return nullcontext(lambda update: None)
    from ..progress import TasksDisplay
    from .grid import place

    names = {str(point.index): place(spec.axes, point.values) for point in spec.points}
    return TasksDisplay("sweeping", "points", names, sys.stderr, output=sys.stdout)


def _show(made: Sweep, points: tuple[Point, ...], args: argparse.Namespace) -> None:
    if args.json:
        print_json(_plain(made, points))
        return
    from rich.console import Console

    from ...terminal.tables import print_table
    from .grid import place, show
    from .outcome import question

    console = Console(highlight=False, markup=False)
    best = {label: made.best_row(label) for label in made.labels}
    shown = points[:MOST_LINES]
    columns = []
    for label in made.labels:
        rows = {row.point: row for row in made.of(label)}
        cells = [_cell(made, rows.get(point.index), best[label]) for point in shown]
        columns.append((label, cells))
    if made.rows:
        places = [", ".join(map(show, point.values)) for point in shown]
        print_table(console, made.best_by.title, (", ".join(axis.key for axis in made.axes), places), columns)
    if len(points) > len(shown):
        console.print(f"... and {len(points) - len(shown)} more points in sweep.csv")
    if made.equal.sentence:
        console.print(made.equal.sentence, soft_wrap=True)
    console.print(f"\n{question(made.axes)}")
    for sentence in made.sentences or ["No point has been computed."]:
        console.print(f"  {sentence}", soft_wrap=True)
    for index, why in made.failed.items():
        console.print(f"failed: {place(made.axes, points[index].values)}: {why}", soft_wrap=True)
    console.print(f"\ntable:  {made.folder}/sweep.csv\nreport: {made.folder}/report.html", soft_wrap=True)


def _cell(made: Sweep, row: SweepRow | None, best: SweepRow | None) -> str:
    if row is None:
        return "failed"
    score = row.scores[made.best_by.text]
    some = [f"{score.reached} of {made.seeds} seeds"] if 0 < score.reached < len(score.values) else []
    middle = [made.best_by.show(score.median)] if math.isfinite(score.median) or not some else []
    return ("* " if row is best else "") + "\n".join(middle + some)


def _plain(made: Sweep, points: tuple[Point, ...]) -> Table:
    """For programs: the table row by row, the best point of each label, what failed."""
    return {
        "folder": str(made.folder),
        "metric": made.best_by.text,
        "equal": {**asdict(made.equal), "sentence": made.equal.sentence},
        "best": {label: made.best(label) or None for label in made.labels},
        "sentences": made.sentences,
        "rows": rows_of(made.table),
        "failed": [{"point": index, "values": points[index].values, "why": why} for index, why in made.failed.items()],
    }
