"""`paota bound`: Theorem 1, printed, corrected and for dependent weights, beside the measured gap of a real run."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import UserError, install_command
from ...experiment.experiment import Experiment
from ...terminal.arguments import add_experiment, add_trust, read_experiment

if TYPE_CHECKING:
    from rich.console import Console

    from ...base.files import Columns
    from . import Analysis

ROUNDS = 30


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "bound",
        help="Theorem 1 of the paper, printed and corrected, beside the measured gap of a run",
        description="Run one algorithm with all its models kept, estimate the constants of Theorem 1 from them, and "
        "print every term of the bound beside the measured gap. The printed and the corrected form assume weights that are "
        "independent of the mini-batch noise of the updates that they weigh; the dependent form does not. For a convex model "
        "(softmax), a bound on the mean gap that holds at any learning rate stands beside them. The same settings and seed "
        "give the same run again.",
    )
    add_experiment(parser, metavar="RUN|EXPERIMENT.toml", what="a run folder or an experiment file")
    add_trust(parser)
    parser.add_argument("--label", metavar="LABEL", help="which algorithm of the experiment (default: its first one)")
    parser.add_argument(
        "--rounds", type=int, metavar="R", help=f"look at the first R rounds (default: all, at most {ROUNDS})"
    )
    parser.add_argument(
        "--probes", type=int, default=3, metavar="N", help="models that get the costly looks (default 3)"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write bound.csv, bound.json and, with matplotlib, the figure here"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    experiment = _experiment(args)
    if args.probes < 1:
        raise UserError("--probes must be at least 1")
    if args.out and Path(args.out).exists() and not Path(args.out).is_dir():
        raise UserError(f"--out: '{args.out}' is not a folder")

    from ...base.files import jsonable
    from . import analyse

    analysis = analyse(experiment, label=args.label, probes=args.probes)
    if args.out:
        _write(analysis, Path(args.out))
    if args.json:
        print(json.dumps(jsonable(analysis.to_dict()), allow_nan=False))
    else:
        _show(analysis)
    return 0


def _experiment(args: argparse.Namespace) -> Experiment:
    trusted = True  # an experiment file of the user's own
    if args.experiment and Path(args.experiment).is_dir():
        trusted = args.trust_plugins
        file = Path(args.experiment) / "experiment.toml"
        if not file.is_file():
            raise UserError(f"'{args.experiment}' is not a run folder (no experiment.toml in it)")
        args.experiment = file
    if args.rounds is not None and args.rounds < 1:
        raise UserError("--rounds must be at least 1")
    experiment = read_experiment(args, trust_plugins=trusted)
    rounds = args.rounds or min(experiment.horizon.rounds or ROUNDS, ROUNDS)
    # Whole rounds, and no looks of the run's own: the analysis takes them itself.
    changes = {"rounds": rounds, "evaluation.every": rounds, "evaluation.train_loss": "batches"}
    return experiment.override(changes)


def _write(analysis: Analysis, folder: Path) -> None:
    from ...base.files import write_csv, write_json
    from ...pages.export import available
    from .figure import draw

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder '{folder}': {error.strerror}") from None
    write_csv(folder / "bound.csv", analysis.table())
    write_json(folder / "bound.json", analysis.to_dict())
    if not available():
        print(f"no figure was drawn: matplotlib is not installed ({install_command('paper')})", file=sys.stderr)
    draw(analysis.table(), folder)


def _show(analysis: Analysis) -> None:
    from dataclasses import asdict

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from .estimate import ESTIMATORS
    from .theorem import ALL_FORMS

    console = Console()
    names = dict(
        zip(asdict(analysis.constants), ("L", "zeta", "delta", "epsilon", "vartheta", "sigma", "mu"), strict=True)
    )
    constants = Table(
        title=f"{escape(analysis.record.entry.label)}: the constants of Theorem 1, estimated from the run"
    )
    for heading in ("constant", "value", "estimated as"):
        constants.add_column(heading, justify="right" if heading == "value" else "left")
    for key, value in asdict(analysis.constants).items():
        constants.add_row(names[key], f"{value:.4g}", ESTIMATORS[names[key]])
    constants.add_row(
        "F(w*)", f"{analysis.optimum.value:.4g}",
        f"best value found by centralised training; |grad F| left {analysis.optimum.gradient_norm:.2g}, "
        f"gain of the last stretch {analysis.optimum.last_gain:.2g}",
    )  # fmt: skip
    console.print(constants)

    rows, form = analysis.table(), analysis.form
    bounds = {f"{name}_bound": name for name in ALL_FORMS}
    terms = {f"{form}_{term}": f"({term})" for term in "abcde"}
    _print_rounds(
        console,
        f"measured gap, all forms of the bound, and the terms of the {form} G that led to each model",
        rows,
        {"gap": "gap", **bounds, **terms},
    )
    if analysis.regret is not None:
        headings = {"mean_gap": "mean gap", "regret_bound": "bound", "regret_length_bound": "bound, lengths only"}
        _print_rounds(console, "F is convex: the mean gap over the first rounds, and its bounds", rows, headings)
    for sentence in analysis.sentences():
        console.print(f"- {escape(sentence)}")


def _print_rounds(console: Console, title: str, rows: Columns, headings: Mapping[str, str]) -> None:
    """A table with a row for every round, of the columns that `headings` names."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("round", *headings.values()):
        table.add_column(heading, justify="right", no_wrap=True)
    for i in range(len(rows["round"])):
        table.add_row(str(i), *(_number(rows[name][i]) for name in headings))
    console.print(table)


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.2g}" if abs(value) < 1e-3 else f"{value:.3g}"
