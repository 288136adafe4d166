"""`paota run`: one experiment, live progress, a table, a run folder with the report."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import Interrupted, UserError
from ..base.files import jsonable
from ..base.rng import Seeds
from ..base.system import EXIT_CODE, only_one, stop_on_ctrl_c
from ..base.types import Subcommands, Table
from ..callbacks.base import CallbackError
from ..experiment.experiment import Experiment
from ..results.folder import (
    CHECKPOINTS,
    begin_folder,
    finish_folder,
    is_finished,
    load,
    read_unfinished,
    refuse_used_folder,
    remove_leftovers,
)
from ..terminal import arguments

if TYPE_CHECKING:
    from ..results.result import Result

DIVERGED = 3  # exit code of a run that was computed and saved, but whose model is lost


def add_parser(commands: Subcommands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "run",
        help="run an experiment: several algorithms with identical random draws",
        description="Run an experiment. Without a file: the paper's setting with PAOTA, Local SGD and COTAF.",
    )
    arguments.add_experiment(parser)
    arguments.add_callbacks(parser)
    parser.add_argument(
        "--seeds", type=arguments.parse_seeds, default=1, metavar="N|A,B,...", help=arguments.SEEDS_HELP
    )
    parser.add_argument("--out", metavar="DIR", help="the run folder (default runs/NAME-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help="resume an interrupted run; the results are bit-identical")
    arguments.add_trust(parser)
    parser.add_argument(
        "--checkpoint-every", type=float, default=10.0, metavar="S", help="seconds between checkpoints (default 10)"
    )
    parser.add_argument(
        "--distributed", metavar="HOST:PORT", help="share the work with other machines: address of process 0"
    )
    parser.add_argument("--num-processes", type=int, metavar="N", help="with --distributed: number of processes")
    parser.add_argument(
        "--process-id", type=int, metavar="I", help="with --distributed: number of this process, 0 to N-1"
    )
    arguments.add_dry_run(parser)
    arguments.add_open(parser)
    parser.add_argument("--live", action="store_true", help="show a live dashboard on this machine")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON and nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def run(args: argparse.Namespace) -> int:
    """Carry out the command and return its exit code."""
    arguments.refuse_dry_resume(args)
    if args.resume:
        if is_finished(Path(args.resume)):  # nothing to do: a script may resume until a run is done
            remove_leftovers(Path(args.resume))
            return _show(load(args.resume), Path(args.resume), args)
        folder, experiment, seeds = _unfinished(args)
    else:
        folder, experiment, seeds = None, arguments.read_experiment(args), args.seeds
        if args.out:
            refuse_used_folder(args.out)

    if args.dry_run:
        from ..simulate.workload import print_dry_run  # start-up time

        print_dry_run({"": experiment}, seeds, folder=args.out or arguments.default_folder(experiment.name))
        return 0
    callbacks = arguments.read_callbacks(args)
    clustered = bool(args.distributed or os.environ.get("PAOTA_COORDINATOR"))
    if clustered and args.resume:
        raise UserError("--resume is for a single process: run it without --distributed")

    from .. import simulate  # start-up time
    from ..callbacks.stream import LiveStream  # start-up time
    from ..results.checkpoint import Checkpoints  # start-up time
    from ..terminal.display import RunDisplay  # start-up time

    if clustered:
        from ..engine.sharding import join_cluster  # start-up time

        if join_cluster(args.distributed, args.num_processes, args.process_id) > 0:
            simulate.execute(simulate.prepare(experiment, seeds=seeds))  # a helper: process 0 shows and writes
            return 0
    quiet = args.json or args.quiet
    plan = simulate.prepare(
        experiment, seeds=seeds, notify=lambda sentence: quiet or print(f"paota: {sentence}", file=sys.stderr)
    )
    identity = simulate.identity(plan)  # may take long: it builds the kernel of a new machine
    folder = folder or begin_folder(args.out or arguments.default_folder(experiment.name), plan.experiment, plan.seeds)
    checkpoints = Checkpoints(folder / CHECKPOINTS, identity, every_s=args.checkpoint_every)
    shown = [] if quiet else [RunDisplay(sys.stderr, sys.stdout)]
    # The other processes of a cluster know nothing of checkpoints and of a request to stop.
    more: Table = {} if clustered else {"checkpoints": checkpoints}
    try:
        with only_one(folder), stop_on_ctrl_c() as stop, _live_page(folder, wanted=args.live):
            result = simulate.execute(
                plan, callbacks=[*shown, LiveStream(), *callbacks], folder=folder,
                stop=stop if not clustered else lambda: False, **more,
            )  # fmt: skip
            finish_folder(result, folder)
    except Interrupted:
        print(f"paota: interrupted; the run is saved; {arguments.go_on('run', folder, experiment)}", file=sys.stderr)
        return EXIT_CODE
    except CallbackError as error:
        print(f"paota: {error}; what is done is saved; {arguments.go_on('run', folder, experiment)}", file=sys.stderr)
        return 2 if isinstance(error.__cause__, UserError) else 1
    return _show(result, folder, args)


@contextlib.contextmanager
def _live_page(folder: Path, *, wanted: bool) -> Iterator[None]:
    """Serve a live page of the run during the block, and until an open browser has shown the end."""
    if not wanted:
        yield
        return
    from ..studies.live.server import LiveServer  # start-up time

    try:
        server = LiveServer(folder)
        server.start()
    except (UserError, RuntimeError) as error:  # no socket or no thread is left: the run continues without
        print(f"paota: there is no live page: {error}", file=sys.stderr)
        yield
        return
    print(f"live: {server.address}", file=sys.stderr)
    yield
    server.wait_for_a_last_look()


def _show(result: Result, folder: Path, args: argparse.Namespace) -> int:
    from ..terminal.tables import divergences, show_summary  # start-up time

    summary = result.summary
    if args.json:
        print(json.dumps(jsonable({**summary, "folder": str(folder)}), allow_nan=False))
    else:
        show_summary(result)
    arguments.say_page(folder / "report.html", args, None if args.json else f"\nreport: {folder / 'report.html'}")
    diverged = divergences(summary)
    for sentence in diverged:
        print(f"paota: {sentence}", file=sys.stderr)
    return DIVERGED if diverged else 0


def _unfinished(args: argparse.Namespace) -> tuple[Path, Experiment, Seeds]:
    """Return the folder, the experiment and the seeds of a run to resume."""
    changed = args.experiment or args.preset or args.changes or args.out
    if changed or args.stop_at is not None or args.patience is not None:
        raise UserError(
            "--resume continues a run as it was: give it without a file, --preset, --set, --stop-at, --patience or --out"
        )
    folder = Path(args.resume)
    seeds = read_unfinished(folder)
    return folder, Experiment.from_file(folder / "experiment.toml", trust_plugins=args.trust_plugins), seeds
