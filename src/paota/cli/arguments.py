"""Arguments that several commands share: which experiment, with which changes, and how much of it is computed where."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from ..errors import UserError
from ..experiment import Experiment, as_experiment, read_preset
from ..interrupts import EXIT_CODE
from ..registry import CALLBACKS
from ..runs.folder import refuse_used_folder

SEEDS_HELP = "repeat with N seeds, or with the seeds A,B,... (default 1)"


def add_experiment(
    parser: argparse.ArgumentParser, *, metavar: str = "EXPERIMENT.toml", what: str = "an experiment file"
) -> None:
    """`EXPERIMENT.toml`, `--preset` and `--set`; `read_experiment` makes an experiment of them."""
    parser.add_argument("experiment", nargs="?", metavar=metavar, help=f"{what} (default: the paper)")
    parser.add_argument(
        "--preset", metavar="NAME", help="start from a built-in experiment ('paota presets' lists them)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change one setting, e.g. --set timing.period_s=6 or --set algorithms.paota.payload=update",
    )  # fmt: skip


def add_callbacks(parser: argparse.ArgumentParser) -> None:
    """`--stop-at`, `--patience` (settings, as `read_experiment` takes them) and `--callback`."""
    parser.add_argument(
        "--stop-at",
        type=float,
        metavar="A",
        help="end an algorithm and seed at this test accuracy (evaluation.stop_at)",
    )
    parser.add_argument(
        "--patience", type=int, metavar="N",
        help="end an algorithm and seed after N evaluations without a better accuracy (evaluation.patience)",
    )  # fmt: skip
    parser.add_argument(
        "--callback", action="append", default=[], metavar="NAME[=WHERE]", dest="callbacks",
        help="tell csv (a file), tensorboard (a folder), mlflow (a store) or wandb (a project) of every round",
    )  # fmt: skip


def add_computing(parser: argparse.ArgumentParser, *, what: str, runs: str) -> None:
    """How a sweep or a plan (`what`) is computed, whose runs people call `runs`, and where; `check_computing` checks it."""
    parser.add_argument("--jobs", type=int, metavar="N", help=f"{runs} computed at a time (default: one a core)")
    parser.add_argument(
        "--ray", nargs="?", const="", metavar="ADDRESS",
        help="compute on a Ray cluster instead (default address: Ray's own)",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", help=f"the {what} folder (default runs/NAME-{what}-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help=f"go on with an interrupted {what}; what is finished is kept")
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
        from ..runs.on_ray import require_ray

        require_ray()


def tell_how_to_go_on(what: str, folder: Path) -> int:
    """After Ctrl-C in a sweep or a plan (`what`): the sentence, and the code to exit with."""
    again = f"paota {what} --resume {shlex.quote(str(folder))}"
    print(f"\npaota: interrupted; what is finished is saved; go on with: {again}", file=sys.stderr)
    return EXIT_CODE


def read_experiment(args: argparse.Namespace) -> Experiment:
    """The experiment that `add_experiment`'s arguments name."""
    if args.experiment and args.preset:
        raise UserError("give an experiment file or --preset, not both")
    changes = list(args.changes)
    for key in ("stop_at", "patience"):
        if getattr(args, key, None) is not None:
            changes.append(f"evaluation.{key}={getattr(args, key)}")
    source = read_preset(args.preset) if args.preset else args.experiment
    return as_experiment(source, changes, getattr(args, "plugin", ()))


def read_callbacks(args: argparse.Namespace) -> list[str]:
    """The names that `--callback` gives, each checked."""
    for text in args.callbacks:
        CALLBACKS[text.partition("=")[0].strip()]
    return list(args.callbacks)


def parse_seeds(text: str) -> int | tuple[int, ...]:
    """`--seeds 5` or `--seeds 1,2,3`; a comma at the end makes a single number a seed."""
    try:
        parts = [int(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        raise UserError(f"--seeds must be a number, such as 5, or seeds such as 1,2,3, not '{text[:60]}'") from None
    if "," not in text and parts[0] < 1:
        raise UserError(f"--seeds must be at least 1, not {parts[0]}")
    return tuple(parts) if "," in text else parts[0]
