"""`paota sweep`: a grid of experiments in parallel, with a table, a page, and the best point in a sentence."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ...base.system import raise_on_ctrl_c
from ...base.types import Subcommands, Table
from ...terminal import arguments
from ..study import MOST_LINES, add_computing, check_computing, print_answer, print_json, rows_of, watching

if TYPE_CHECKING:
    from .outcome import Sweep, SweepRow
    from .sweep import SweepSpec


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "sweep",
        help="run a grid of experiments in parallel and name its best point",
        description="Run an experiment at every combination of the --over values, several in parallel. "
        "Metrics of --best: seconds_to:A, rounds_to:A, joules_to:A, airtime_to:A, updates_to:A (to test accuracy A), "
        "final_accuracy, accuracy_at:SECONDS, accuracy_after:ROUNDS, final_loss.",
    )
    arguments.add_experiment(parser)
    arguments.add_callbacks(parser)
    parser.add_argument(
        "--over", action="append", default=[], metavar="KEY=V1,V2,...",
        help="sweep one setting, e.g. --over timing.period_s=4,6,8 or 4:12:2 (a range); several make a grid",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=arguments.parse_seeds, metavar="N|A,B,...", help=f"every point: {arguments.SEEDS_HELP}"
    )
    parser.add_argument(
        "--best", metavar="METRIC", help="the metric that decides, e.g. seconds_to:0.8 (default: the highest target)"
    )
    parser.add_argument(
        "--equal", metavar="WHAT",
        help="where all points end if equal rounds take unequal time: at the time of the longest (time, default) or "
        "after equal rounds (rounds)",
    )  # fmt: skip
    add_computing(parser, what="sweep", runs="points")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from . import sweep as sweeps  # start-up time
    from .grid import place  # start-up time

    check_computing(args)
    callbacks = arguments.read_callbacks(args)
    spec = _spec(args)
    folder = Path(args.resume or args.out or arguments.default_folder(f"{spec.experiment.name}-sweep"))
    if args.dry_run:
        from ...simulate.workload import print_dry_run  # start-up time

        points = {place(spec.axes, point.values): point.experiment for point in spec.points}
        print_dry_run(points, spec.seeds, folder=folder, jobs=args.jobs)
        return 0
    if not args.resume:
        sweeps.SWEEPS.begin(folder, spec)
    names = {str(point.index): place(spec.axes, point.values) for point in spec.points}
    try:
        with raise_on_ctrl_c(), watching(args, "points")("sweeping", names) as watch:
            failed = sweeps.compute(folder, spec, jobs=args.jobs, ray=args.ray, callbacks=callbacks, watch=watch)
    except KeyboardInterrupt:
        return sweeps.SWEEPS.interrupted(folder, spec)
    _show(sweeps.gather(folder, spec, failed), spec, args)
    arguments.say_page(folder / "report.html", args, None)
    return 1 if failed else 0


def _spec(args: argparse.Namespace) -> SweepSpec:
    """Return what to sweep; with `--resume` alone, from its folder, where `--best` may be another metric."""
    from . import sweep as sweeps  # start-up time
    from .grid import read_axes  # start-up time
    from .metrics import parse_metric  # start-up time

    def from_arguments() -> SweepSpec:
        seeds, axes = 1 if args.seeds is None else args.seeds, read_axes(args.over, args.changes)
        return sweeps.prepare(
            arguments.read_experiment(args), axes, seeds=seeds, best=args.best, equal=args.equal or "time"
        )

    given = (args.experiment, args.preset, args.changes, args.over, args.stop_at, args.patience)
    spec = sweeps.SWEEPS.asked(args, given, from_arguments)
    for name, value, known in (("seeds", args.seeds, spec.seeds), ("equal", args.equal, spec.equal.what)):
        if value not in (None, known):
            raise UserError(f"'{args.resume}' holds a sweep with --{name} {known}, not {value}")
    return replace(spec, best=parse_metric(args.best).text) if args.best else spec


def _show(made: Sweep, spec: SweepSpec, args: argparse.Namespace) -> None:
    failed = [(spec.points[index], why) for index, why in made.failed.items()]
    if args.json:
        found = [{"point": point.index, "values": point.values, "why": why} for point, why in failed]
        print_json({**_plain(made), "failed": found})
        return
    from rich.console import Console  # start-up time

    from ...terminal.tables import print_table  # start-up time
    from .grid import place, show  # start-up time
    from .outcome import question  # start-up time

    console = Console(highlight=False, markup=False)
    shown = spec.points[:MOST_LINES]
    columns = []
    for label in made.labels:
        rows, best = {row.point: row for row in made.of(label)}, made.best_row(label)
        columns.append((label, [_cell(made, rows.get(point.index), best) for point in shown]))
    if made.rows:
        places = [", ".join(map(show, point.values)) for point in shown]
        print_table(console, made.best_by.title, (", ".join(axis.key for axis in made.axes), places), columns)
    if len(spec.points) > len(shown):
        console.print(f"... and {len(spec.points) - len(shown)} more points in sweep.csv")
    if made.equal.sentence:
        console.print(made.equal.sentence, soft_wrap=True)
    reasons = {place(made.axes, point.values): why for point, why in failed}
    print_answer(console, f"\n{question(made.axes)}", made.sentences or ["No point has been computed."], reasons)
    console.print(f"\ntable:  {made.folder}/sweep.csv\nreport: {made.folder}/report.html", soft_wrap=True)


def _cell(made: Sweep, row: SweepRow | None, best: SweepRow | None) -> str:
    if row is None:
        return "failed"
    score = row.score(made.best_by)
    some = [f"{score.reached} of {made.seeds} seeds"] if 0 < score.reached < len(score.values) else []
    middle = [made.best_by.show(score.median)] if math.isfinite(score.median) or not some else []
    return ("* " if row is best else "") + "\n".join(middle + some)


def _plain(made: Sweep) -> Table:
    """Return the result for programs: the table row by row, and the best point of each label."""
    return {
        "folder": str(made.folder),
        "metric": made.best_by.text,
        "equal": {**asdict(made.equal), "sentence": made.equal.sentence},
        "best": {label: made.best(label) or None for label in made.labels},
        "sentences": made.sentences,
        "rows": rows_of(made.table),
    }
