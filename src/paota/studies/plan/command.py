"""`paota plan`: what to deploy for devices, radio, model and target; first the estimate, then the search, then the sheet."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.system import raise_on_ctrl_c
from ...base.types import Subcommands, Table
from ...terminal.arguments import add_experiment, default_folder, parse_seeds, read_experiment, say_page
from ..study import MOST_LINES, add_computing, check_computing, print_answer, print_json, rows_of, watching

if TYPE_CHECKING:
    from .outcome import Recommendation
    from .search import PlanSpec, Search


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plan",
        help="recommend algorithm, period, number of devices, power and payload for a target accuracy",
        description="Recommend what to deploy, from an experiment (devices, radio, model, data) and a target accuracy. The "
        "experiment's end is the longest time of a candidate.",
    )
    add_experiment(parser)
    parser.add_argument(
        "--target", type=float, metavar="A", help="test accuracy to reach (default: the highest target)"
    )
    parser.add_argument(
        "--best", default="seconds_to", metavar="METRIC",
        help="the cost to minimise: seconds_to (default), joules_to, airtime_to, updates_to or rounds_to",
    )  # fmt: skip
    parser.add_argument(
        "--over", action="append", default=[], metavar="KEY=V1,V2,...",
        help="values to choose from, e.g. --over timing.period_s=4:12:2; default: what usually matters to each algorithm",
    )  # fmt: skip
    parser.add_argument(
        "--algorithms", metavar="A,B,...", help="algorithms to choose from (default: the experiment's, or a short list)"
    )
    parser.add_argument(
        "--where", action="append", default=[], metavar="'METRIC < NUMBER'",
        help="a limit of the cost, e.g. --where 'joules_to:0.8 < 2000' or --where 'airtime_s < 5'",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=parse_seeds, metavar="N|A,B,...",
        help="repetitions of the finalists, or which seeds (default 5)",
    )  # fmt: skip
    parser.add_argument(
        "--estimate", action="store_true", help="only print the estimate from the latencies, without any training"
    )
    add_computing(parser, what="plan", runs="candidates")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    from . import plan as planner  # start-up time
    from .search import PLANS  # start-up time

    check_computing(args)
    spec = _spec(args)
    if args.estimate:
        search = planner.begun(Path(), spec)
        search.foresee(search.candidates)
        if args.json:
            print_json([{"candidate": c.name, **vars(search.foreseen[c.index])} for c in search.candidates])
        else:
            _show_estimates(search)
        return 0
    folder = Path(args.resume or args.out or default_folder(f"{spec.experiment.name}-plan"))
    # Impossible plans are refused here, before a folder is made.
    search = planner.begun(folder, spec, jobs=args.jobs, ray=args.ray)
    if args.dry_run:
        from ...simulate.workload import print_dry_run  # start-up time

        print(
            f"{len(search.candidates)} candidates, each with one seed to the end; the search ends most of them earlier"
        )
        whole = {candidate.name: candidate.experiment for candidate in search.candidates}
        print_dry_run(whole, search.seeds[:1], folder=folder, jobs=args.jobs, share=search.largest_share)
        return 0
    if not args.resume:
        PLANS.begin(folder, spec)
    search.foresee(search.candidates)
    search.watching = watching(args, "runs")
    if not (args.json or args.quiet):
        _show_estimates(search)
    try:
        with raise_on_ctrl_c():
            made = planner.answer(search)
    except KeyboardInterrupt:
        return PLANS.interrupted(folder, spec)
    if args.json:
        print_json(plain(made))
    else:
        _show(made)
    say_page(folder / "report.html", args, None)
    return 0 if made.chosen is not None else 1


def _spec(args: argparse.Namespace) -> PlanSpec:
    from ..sweep.grid import read_axes  # start-up time
    from . import plan as planner  # start-up time
    from .search import PLANS  # start-up time

    def from_arguments() -> PlanSpec:
        names = [name.strip() for name in (args.algorithms or "").split(",") if name.strip()]
        return planner.prepare(
            read_experiment(args), target=args.target, axes=read_axes(args.over, args.changes), algorithms=names,
            where=args.where, best=args.best, seeds=5 if args.seeds is None else args.seeds,
        )  # fmt: skip

    given = (
        args.experiment, args.preset, args.changes, args.over, args.where, args.algorithms, args.target, args.seeds,
    )  # fmt: skip
    return PLANS.asked(args, given, from_arguments)


def _show_estimates(search: Search) -> None:
    from rich.console import Console  # start-up time

    from ...terminal.tables import print_table  # start-up time
    from .outcome import shown  # start-up time

    console = Console(highlight=False, markup=False)
    names = [candidate.name for candidate in search.candidates[:MOST_LINES]]
    paces = [search.foreseen[candidate.index] for candidate in search.candidates[:MOST_LINES]]
    heads = {"round_s": "s between\nevents", "ready": "ready", "staleness": "staleness"}
    columns = [(head, [shown(getattr(pace, what)) for pace in paces]) for what, head in heads.items()]
    columns.append(("waiting", [f"{pace.idle:.0%}" if math.isfinite(pace.idle) else "-" for pace in paces]))
    columns.append(("noise", [shown(pace.noise_std) for pace in paces]))
    print_table(console, "expected from the latencies alone", ("candidate", names), columns)
    if len(search.candidates) > MOST_LINES:
        console.print(f"... and {len(search.candidates) - MOST_LINES} more candidates")


def _show(made: Recommendation) -> None:
    from rich.console import Console  # start-up time

    from ...terminal.tables import print_table  # start-up time
    from .outcome import costs_of, shown  # start-up time

    console = Console(highlight=False, markup=False)
    rows = made.ranking[:MOST_LINES]
    costs = zip(*(costs_of(made, row) for row in rows), strict=True)
    columns = [
        ("seeds", [str(row.seeds) for row in rows]),
        *zip(("time", "energy", "on the\nair"), costs, strict=True),
        (
            "seen" if made.score.is_share else f"{made.score.name}\nseen",
            [made.score.compact(r.accuracy, 1) for r in rows],
        ),
        ("ready", [shown(row.simulated.ready) for row in rows]),
        ("staleness", [shown(row.simulated.staleness) for row in rows]),
    ]
    names = [("* " if row is made.chosen else "  " if row.allowed else "x ") + row.candidate.name for row in rows]
    print_table(console, f"simulated, to {made.goal}", ("", names), columns)
    print_answer(console, "What should I deploy?", made.sentences, made.failed)
    where = f"\nreport: {made.folder}/report.html\n"
    if made.experiment is not None:
        where += f"file:   {made.folder}/experiment.toml   (paota run ..., paota deploy ...)"
    console.print(where, soft_wrap=True)


def plain(made: Recommendation) -> Table:
    """Return the result for programs: the choice, its costs, the sentences, and every candidate row by row."""
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
