"""`paota bound`: Theorem 1, printed, corrected and for dependent weights, beside the measured gap of a real run."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from ...base.errors import UserError, install_command
from ...base.files import jsonable, write_csv, write_json
from ...base.types import Subcommands
from ...experiment.experiment import Experiment
from ...terminal.arguments import add_experiment, add_trust, read_experiment

if TYPE_CHECKING:
    from . import Analysis

ROUNDS = 30
SYMBOLS = ("L", "zeta", "delta", "epsilon", "vartheta", "sigma", "mu")  # of the constants, in their order


def add_parser(commands: Subcommands) -> None:
    """Add the command and its arguments."""
    parser = commands.add_parser(
        "bound",
        help="Theorem 1 of the paper, printed and corrected, beside the measured gap of a run",
        description="Run one algorithm with all its models kept, estimate the constants of Theorem 1 from them, and "
        "print every term of the bound beside the measured gap. The printed and the corrected form assume weights that are "
        "independent of the mini-batch noise of the updates that they weigh; the dependent form does not. "
        "The run is repeated from its settings and its seed.",
    )
    add_experiment(parser, metavar="RUN|EXPERIMENT.toml", what="a run folder or an experiment file")
    add_trust(parser)
    parser.add_argument("--label", metavar="LABEL", help="algorithm of the experiment (default: the first one)")
    parser.add_argument("--rounds", type=int, metavar="R", help=f"number of rounds (default: all, at most {ROUNDS})")
    parser.add_argument(
        "--probes", type=int, default=3, metavar="N", help="models at which curvature is estimated (default: 3)"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="write bound.csv, bound.json and, with matplotlib, the figure here"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Analyse the run, then print or write the result."""
    experiment = _experiment(args)
    if args.probes < 1:
        raise UserError("--probes must be at least 1")
    if args.out and Path(args.out).exists() and not Path(args.out).is_dir():
        raise UserError(f"--out: '{args.out}' is not a folder")

    from . import analyse  # start-up time

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
    # Whole rounds, and no evaluations during the run: the analysis evaluates the models itself.
    changes = {"rounds": rounds, "evaluation.every": rounds, "evaluation.train_loss": "batches"}
    return experiment.override(changes)


def _write(analysis: Analysis, folder: Path) -> None:
    from ...pages.export import available  # start-up time
    from .figure import draw  # start-up time

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
    from ...terminal.tables import print_table  # start-up time
    from .estimate import ESTIMATORS  # start-up time
    from .theorem import ALL_FORMS  # start-up time

    console, found = Console(), analysis.optimum
    values = dict(zip(SYMBOLS, astuple(analysis.constants), strict=True))
    print_table(
        console,
        f"{analysis.record.entry.label}: the constants of Theorem 1, estimated from the run",
        ("constant", [*values, "F(w*)"]),
        [("value", [f"{value:.4g}" for value in (*values.values(), found.value)])],
    )
    for symbol in values:
        console.print(Text(f"- {symbol}: {ESTIMATORS[symbol]}"))
    console.print(
        f"- F(w*): best value found by centralised training; |grad F| left {found.gradient_norm:.2g}, "
        f"gain of the last steps {found.last_gain:.2g}"
    )
    rows, form = analysis.table(), analysis.form
    shown = {"gap": "gap"} | {f"{name}_bound": name for name in ALL_FORMS}
    shown |= {f"{form}_{term}": f"({term})" for term in "abcde"}
    print_table(
        console,
        f"measured gap, all forms of the bound, and the terms of the {form} G that led to each model",
        ("round", [str(r) for r in rows["round"]]),
        [(heading, [_number(value) for value in rows[name]]) for name, heading in shown.items()],
    )
    for sentence in analysis.sentences():
        console.print(Text(f"- {sentence}"))


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.2g}" if abs(value) < 1e-3 else f"{value:.3g}"
