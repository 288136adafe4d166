"""`paota plan`: what to deploy, from devices, radio, model and target; an estimate at once, then the search, then the sheet."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.system import raise_on_ctrl_c
from ...base.types import Subcommands, Table
from ...terminal.arguments import add_experiment, default_folder, parse_seeds, read_experiment
from ..arguments import (
    MOST_LINES,
    add_computing,
    check_computing,
    print_json,
    read_axes,
    rows_of,
    tell_how_to_go_on,
)
from ..progress import TasksDisplay

if TYPE_CHECKING:
    from .plan import PlanSpec, Recommendation, Search


def add_parser(commands: Subcommands) -> None:
    parser = commands.add_parser(
        "plan",
        help="which period, how many devices, how much power, which payload and algorithm",
        description="From an experiment (devices, radio, model, data) and a target accuracy to what should be deployed. The "
        "experiment's end is the longest that a candidate may take.",
    )
    add_experiment(parser)
    parser.add_argument(
        "--target", type=float, metavar="A", help="test accuracy to get to (default: the highest target)"
    )
    parser.add_argument(
        "--best", default="seconds_to", metavar="METRIC",
        help="what to make small: seconds_to (default), joules_to, airtime_to, updates_to or rounds_to",
    )  # fmt: skip
    parser.add_argument(
        "--over", action="append", default=[], metavar="KEY=V1,V2,...",
        help="values to choose from, e.g. --over timing.period_s=4:12:2; default: what usually matters to each algorithm",
    )  # fmt: skip
    parser.add_argument(
        "--algorithms", metavar="A,B,...", help="to choose from (default: the experiment's, or a short list)"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="'METRIC < NUMBER'",
        help="what it may cost, e.g. --where 'joules_to:0.8 < 2000' or --where 'airtime_s < 5'",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=parse_seeds, metavar="N|A,B,...",
        help="repetitions of the finalists, or which seeds (default 5)",
    )  # fmt: skip
    parser.add_argument("--estimate", action="store_true", help="only what the latencies alone say; nothing is learned")
    add_computing(parser, what="plan", runs="candidates")


def run(args: argparse.Namespace) -> int:
    from . import plan as planner
    from .spec import PLANS

    check_computing(args)
    spec = _spec(args)
    quiet = args.json or args.quiet
    if args.estimate:
        search = planner.begun(Path(), spec)
        search.foresee(search.candidates)
        if args.json:
            rows = [{"candidate": c.name, **vars(search.foreseen[c.index])} for c in search.candidates]
            print_json(rows)
        else:
            _show_estimates(search)
        return 0
    folder = Path(args.resume or args.out or default_folder(f"{spec.experiment.name}-plan"))
    # What cannot be planned is refused here, before a folder is made.
    search = planner.begun(folder, spec, jobs=args.jobs, ray=args.ray)
    if not args.resume:
        PLANS.begin(folder, spec)
    search.foresee(search.candidates)
    if not quiet:
        _show_estimates(search)
        search.watching = lambda title, names: TasksDisplay(title, "runs", names, sys.stderr)
    try:
        with raise_on_ctrl_c():
            made = planner.answer(search)
    except KeyboardInterrupt:
        return tell_how_to_go_on("plan", folder, spec.experiment)
    _show(made, args)
    return 0 if made.chosen is not None else 1


def _spec(args: argparse.Namespace) -> PlanSpec:
    """What to plan: from the arguments, or from the folder to go on with."""
    from . import plan as planner
    from .spec import PLANS

    given = (
        args.experiment, args.preset, args.changes, args.over, args.where, args.algorithms, args.target, args.seeds,
    )  # fmt: skip
    if args.resume and not any(given):
        return PLANS.read(args.resume, trust_plugins=args.trust_plugins)
    names = [name.strip() for name in (args.algorithms or "").split(",") if name.strip()]
    spec = planner.prepare(
        read_experiment(args), target=args.target, axes=read_axes(args), algorithms=names, where=args.where, best=args.best,
        seeds=5 if args.seeds is None else args.seeds,
    )  # fmt: skip
    if args.resume:
        PLANS.refuse_other(args.resume, spec)
    return spec


def _show_estimates(search: Search) -> None:
    from rich.console import Console

    from ...terminal.tables import print_table

    console = Console(highlight=False, markup=False)
    shown = search.candidates[: search.grid][:MOST_LINES]
    paces = [search.foreseen[candidate.index] for candidate in shown]
    columns = [
        ("s between\nevents", [_short(pace.round_s) for pace in paces]),
        ("ready", [_short(pace.ready) for pace in paces]),
        ("staleness", [_short(pace.staleness) for pace in paces]),
        ("waiting", [f"{pace.idle:.0%}" if math.isfinite(pace.idle) else "-" for pace in paces]),
        ("noise", [_short(pace.noise_std) for pace in paces]),
    ]
    print_table(console, "expected from the latencies alone", ("candidate", [c.name for c in shown]), columns)
    if search.grid > len(shown):
        console.print(f"... and {search.grid - len(shown)} more candidates")


def _show(made: Recommendation, args: argparse.Namespace) -> None:
    if args.json:
        print_json(plain(made))
        return
    from rich.console import Console

    from ...terminal.tables import print_table
    from ..sweep.metrics import Metric

    console = Console(highlight=False, markup=False)
    rows = sorted(made.rows, key=lambda r: (-min(r.rung, 2), r.cost(made.best_by.name).median, -r.accuracy))[
        :MOST_LINES
    ]
    columns = [("seeds", [str(row.seeds) for row in rows])]
    for name, head in (("seconds_to", "time"), ("joules_to", "energy"), ("airtime_to", "on the\nair")):
        cells = [row.cost(name).median for row in rows]
        metric = Metric(name, made.target)
        shown = [metric.show(v).removesuffix(" on the air") if math.isfinite(v) else "-" for v in cells]
        columns.append((head, shown))
    columns.append(
        (
            f"{made.score.name}\nseen" if not made.score.is_share else "seen",
            [made.score.compact(row.accuracy, 1) for row in rows],
        )
    )
    columns.append(("ready", [_short(row.simulated.ready) for row in rows]))
    columns.append(("staleness", [_short(row.simulated.staleness) for row in rows]))
    names = [("* " if row is made.chosen else "  " if row.allowed else "x ") + row.candidate.name for row in rows]
    print_table(console, f"simulated, to {made.score.target(made.target)} test {made.score.name}", ("", names), columns)
    console.print("What should I deploy?")
    for sentence in made.sentences:
        console.print(f"  {sentence}", soft_wrap=True)
    for name, why in made.failed.items():
        console.print(f"failed: {name}: {why}", soft_wrap=True)
    where = f"\nsheet:  {made.folder}/report.html\n"
    if made.experiment is not None:
        where += f"file:   {made.folder}/experiment.toml   (paota run ..., paota deploy ...)"
    console.print(where, soft_wrap=True)


def plain(made: Recommendation) -> Table:
    """For programs: the choice, its costs, the sentences, and every candidate row by row."""
    costs = {} if made.chosen is None else made.chosen.costs
    return {
        "folder": str(made.folder),
        "target": made.target,
        "metric": made.best_by.text,
        "where": [constraint.text for constraint in made.where],
        "choice": made.choices or None,
        "costs": {
            name: {"median": s.median, "q25": s.low, "q75": s.high, "values": s.values} for name, s in costs.items()
        },
        "sentences": made.sentences,
        "updates": made.updates,
        "rows": rows_of(made.table),
        "failed": made.failed,
    }


def _short(value: float) -> str:
    return "-" if not math.isfinite(value) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
