"""`paota sweep`: a grid of experiments, several at a time, one table, one page, and the best point in a sentence."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from ..errors import UserError
from ..experiment import as_experiment, parse_assignment, read_preset
from ..runs.files import jsonable
from ..runs.folder import refuse_used_folder
from .run import _slug

if TYPE_CHECKING:
    from ..sweeps import Order, Sweep
    from ..sweeps.grid import Point
    from ..sweeps.work import News

MOST_LINES = 40


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="run a grid of experiments in parallel and name its best point",
        description="Run an experiment at every combination of the --over values, several at a time. "
        "Metrics of --best: seconds_to:A, rounds_to:A, joules_to:A (to test accuracy A), final_accuracy, "
        "accuracy_at:SECONDS, accuracy_after:ROUNDS, final_loss.",
    )
    parser.add_argument(
        "experiment", nargs="?", metavar="EXPERIMENT.toml", help="an experiment file (default: the paper)"
    )
    parser.add_argument(
        "--preset", metavar="NAME", help="start from a built-in experiment ('paota presets' lists them)"
    )
    parser.add_argument(
        "--over", action="append", default=[], metavar="KEY=V1,V2,...",
        help="sweep one setting, e.g. --over timing.period_s=4,6,8; several make a grid",
    )  # fmt: skip
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="changes", help="change one setting"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="repeat every point with N seeds (default 1)")
    parser.add_argument(
        "--best", metavar="METRIC", help="what decides, e.g. seconds_to:0.8 (default: the highest target)"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="points computed at a time (default: one a core)")
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="compute on a Ray cluster instead (default address: Ray's own)",
    )
    parser.add_argument("--out", metavar="DIR", help="the sweep folder (default runs/NAME-sweep-DATE-TIME)")
    parser.add_argument("--resume", metavar="DIR", help="go on with an interrupted sweep; finished points are kept")
    parser.add_argument("--json", action="store_true", help="print the result as JSON and nothing else")
    parser.add_argument("--quiet", action="store_true", help="no progress display")


def run(args: argparse.Namespace) -> int:
    from .. import sweeps

    if args.jobs is not None and args.jobs < 1:
        raise UserError(f"--jobs must be at least 1, not {args.jobs}")
    if args.resume and args.out:
        raise UserError("--resume goes on in its own folder: give it without --out")
    if args.ray is not None:
        from ..sweeps.on_ray import require_ray

        require_ray()
    order, points = _order(args)
    if args.out:
        refuse_used_folder(args.out)
    folder = Path(args.resume) if args.resume else sweeps.folders.begin(args.out or _default_folder(order), order)
    display: AbstractContextManager[Any] = nullcontext(lambda news: None)
    if not (args.json or args.quiet):
        display = _Display(order, points, sys.stderr)
    try:
        with display as watch:
            failed = sweeps.compute(
                folder, order, points, jobs=args.jobs, ray=args.ray, plugins=args.plugin, watch=watch
            )
    except KeyboardInterrupt:
        again = f"paota sweep --resume {shlex.quote(str(folder))}"
        print(f"\npaota: interrupted; what is finished is saved; go on with: {again}", file=sys.stderr)
        return 130
    made = sweeps.gather(folder, order, points, failed)
    _show(made, points, args)
    return 1 if failed else 0


def _order(args: argparse.Namespace) -> tuple[Order, tuple[Point, ...]]:
    """What to sweep: from the arguments, or from the folder to go on with (then both must agree, if both are given)."""
    from .. import sweeps

    if args.experiment and args.preset:
        raise UserError("give an experiment file or --preset, not both")
    if args.resume and not (args.experiment or args.preset or args.changes or args.over):
        order = sweeps.folders.read(args.resume)
        if args.seeds not in (None, order.seeds):
            raise UserError(f"'{args.resume}' holds a sweep with {order.seeds} seeds, not {args.seeds}")
        return sweeps.prepare(order.experiment, order.axes, seeds=order.seeds, best=args.best or order.best)
    base = as_experiment(read_preset(args.preset) if args.preset else args.experiment, args.changes)
    fixed = [parse_assignment(text)[0] for text in args.changes]
    axes = [sweeps.parse_axis(text) for text in args.over]
    seeds = 1 if args.seeds is None else args.seeds
    order, points = sweeps.prepare(base, axes, seeds=seeds, best=args.best, fixed=fixed)
    if args.resume:
        sweeps.folders.refuse_other(args.resume, order)
    return order, points


def _default_folder(order: Order) -> Path:
    return Path("runs") / f"{_slug(order.experiment.name)}-sweep-{datetime.now():%Y%m%d-%H%M%S-%f}"[:-3]


class _Display:
    """One bar over all points; failures are told as they happen."""

    def __init__(self, order: Order, points: tuple[Point, ...], stream: IO[str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._order, self._points = order, points
        self._share: dict[int, float] = {}
        self._done = 0
        self._bar = Progress(
            TextColumn("sweeping"), BarColumn(bar_width=30), TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=Console(file=stream),
        )  # fmt: skip
        self._task = self._bar.add_task("", total=len(points), note=self._note())

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, news: News) -> None:
        if news.kind == "failed":
            self._bar.console.print(
                f"{_where(self._order, self._points[news.index])}: failed: {news.why}", markup=False
            )
        self._done += news.kind != "advanced"
        self._share[news.index] = news.share if news.kind == "advanced" else 1.0
        self._bar.update(self._task, completed=sum(self._share.values()), note=self._note())

    def _note(self) -> str:
        return f"{self._done}/{len(self._points)} points"


def _where(order: Any, point: Point) -> str:
    from ..sweeps.grid import show

    return ", ".join(f"{axis.key} = {show(value)}" for axis, value in zip(order.axes, point.values, strict=True))


def _show(made: Sweep, points: tuple[Point, ...], args: argparse.Namespace) -> None:
    if args.json:
        print(json.dumps(jsonable(_plain(made, points)), allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    from ..sweeps.grid import show
    from ..sweeps.outcome import best_row, question

    console = Console(highlight=False, markup=False)
    best = {label: best_row(made.of(label), made.best_by) for label in made.labels}
    table = Table(title=made.best_by.title, title_justify="left", box=None, pad_edge=False)
    for axis in made.axes:
        table.add_column(axis.key, justify="right", overflow="fold")
    for label in made.labels:
        table.add_column(label, justify="right", overflow="fold")
    shown = points[:MOST_LINES]
    for point in shown:
        cells = []
        for label in made.labels:
            row = next((row for row in made.rows if row.point == point.index and row.label == label), None)
            mark = "* " if row is not None and row is best[label] else ""
            cells.append("failed" if row is None else mark + made.best_by.show(row.scores[made.best_by.text].median))
        table.add_row(*(show(value) for value in point.values), *cells)
    if made.rows:
        console.print(table)
    if len(points) > len(shown):
        console.print(f"... and {len(points) - len(shown)} more points in sweep.csv")
    console.print(f"\n{question(made.axes)}")
    for sentence in made.sentences or ["No point has been computed."]:
        console.print(f"  {sentence}", soft_wrap=True)
    for index, why in made.failed.items():
        console.print(f"failed: {_where(made, points[index])}: {why}", soft_wrap=True)
    console.print(f"\ntable:  {made.folder}/sweep.csv\nreport: {made.folder}/report.html", soft_wrap=True)


def _plain(made: Sweep, points: tuple[Point, ...]) -> dict[str, Any]:
    """For programs: the table row by row, the best point of each label, what failed."""
    columns = made.table
    names = list(columns)
    rows = [
        dict(zip(names, cells, strict=True)) for cells in zip(*(columns[name].tolist() for name in names), strict=True)
    ]
    return {
        "folder": str(made.folder),
        "metric": made.best_by.text,
        "best": {label: made.best(label) or None for label in made.labels},
        "sentences": made.sentences,
        "rows": rows,
        "failed": [{"point": index, "values": points[index].values, "why": why} for index, why in made.failed.items()],
    }
