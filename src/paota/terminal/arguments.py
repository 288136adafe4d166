"""Arguments that several commands share: the experiment, its changes, seeds and callbacks."""

from __future__ import annotations

import argparse
import shlex
import sys
from datetime import datetime
from pathlib import Path

from ..base.errors import UserError
from ..base.registry import CALLBACKS
from ..experiment.experiment import Experiment, as_experiment
from ..experiment.files import read_preset

SEEDS_HELP = "repeat with N seeds, or with the seeds A,B,... (default 1)"


def add_experiment(
    parser: argparse.ArgumentParser, *, metavar: str = "EXPERIMENT.toml", what: str = "an experiment file"
) -> None:
    """Add `EXPERIMENT.toml`, `--preset` and `--set`, which `read_experiment` reads."""
    parser.add_argument("experiment", nargs="?", metavar=metavar, help=f"{what} (default: the paper)")
    parser.add_argument(
        "--preset", metavar="NAME", help="start from a built-in experiment ('paota presets' lists them)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes",
        help="change one setting, e.g. --set timing.period_s=6 or --set algorithms.paota.payload=update",
    )  # fmt: skip


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Add `--trust-plugins`, for commands that compute again from a folder."""
    parser.add_argument(
        "--trust-plugins", action="store_true", help="import the Python code that the given folder names"
    )


def add_callbacks(parser: argparse.ArgumentParser) -> None:
    """Add `--stop-at` and `--patience`, which `read_experiment` reads, and `--callback`."""
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
        help="log every round to csv (a file), tensorboard (a folder), mlflow (a store) or wandb (a project)",
    )  # fmt: skip


def add_open(parser: argparse.ArgumentParser) -> None:
    """Add `--open`, which `say_page` reads."""
    parser.add_argument("--open", action="store_true", help="open the report in your browser")


def say_page(page: Path, args: argparse.Namespace, text: str | None) -> None:
    """Print `text`, which names a written page, and open the page with `--open`. A missing browser is no failure."""
    if text is not None:
        print(text, flush=True)
    if args.open:
        import webbrowser  # start-up time

        try:
            opened = webbrowser.open(page.resolve().as_uri())
        except (OSError, webbrowser.Error):
            opened = False
        if not opened:
            print(f"paota: no browser was found; open '{page}' yourself", file=sys.stderr)


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add `--dry-run`, which `refuse_dry_resume` checks."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be computed, and write nothing")


def refuse_dry_resume(args: argparse.Namespace) -> None:
    """Refuse `--dry-run` with `--resume` and with `--json`."""
    for flag in ("resume", "json"):
        if args.dry_run and getattr(args, flag, None):
            raise UserError(f"--dry-run describes a new computation in words: give it without --{flag}")


def go_on(what: str, folder: Path, experiment: Experiment) -> str:
    """Return the hint how to resume what was begun in `folder`."""
    trust = " --trust-plugins" if experiment.code else ""
    return f"resume with: paota {what} --resume {shlex.quote(str(folder))}{trust}"


def read_experiment(args: argparse.Namespace, *, trust_plugins: bool = True) -> Experiment:
    """Return the experiment that the arguments name. `trust_plugins` is that of `Experiment.from_dict`."""
    if args.experiment and args.preset:
        raise UserError("give an experiment file or --preset, not both")
    changes = list(args.changes)
    for key in ("stop_at", "patience"):
        if getattr(args, key, None) is not None:
            changes.append(f"evaluation.{key}={getattr(args, key)}")
    source = read_preset(args.preset) if args.preset else args.experiment
    return as_experiment(source, changes, getattr(args, "plugin", ()), trust_plugins=trust_plugins)


def read_callbacks(args: argparse.Namespace) -> list[str]:
    """Return the names that `--callback` gives, each checked."""
    for text in args.callbacks:
        CALLBACKS[text.partition("=")[0].strip()]
    return list(args.callbacks)


def parse_seeds(text: str) -> int | tuple[int, ...]:
    """Return the number of seeds (`--seeds 5`) or the seeds (`--seeds 1,2,3`; `--seeds 5,` is one seed)."""
    try:
        parts = [int(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        raise UserError(f"--seeds must be a number, such as 5, or seeds such as 1,2,3, not '{text[:60]}'") from None
    if "," not in text and parts[0] < 1:
        raise UserError(f"--seeds must be at least 1, not {parts[0]}")
    return tuple(parts) if "," in text else parts[0]


def default_folder(name: str) -> Path:
    """Return `runs/NAME-DATE-TIME`. Characters that a file name cannot hold are replaced."""
    kept = "".join(c if c.isalnum() or c in "-_" else "-" for c in name)[:60].strip("-") or "run"
    return Path("runs") / f"{kept}-{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3]
