"""Grids of experiments: `paota.sweep` and `paota sweep`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..experiment import Experiment, as_experiment
from . import folder as folders
from .folder import Order
from .grid import Axis, Point, make_axes, make_points, parse_axis
from .metrics import Metric, parse_metric
from .outcome import Row, Sweep, rows_of, standard_metrics
from .work import Job, News, in_processes, in_this_process

__all__ = ["Axis", "Metric", "Order", "Row", "Sweep", "compute", "gather", "parse_axis", "prepare", "sweep"]

Watch = Callable[[News], None]


def sweep(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    over: Mapping[str, Sequence[Any]],
    seeds: int = 1,
    best: str | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
) -> Sweep:
    """Run an experiment at every combination of `over` ({"timing.period_s": [4, 6, 8], ...}), several points at a time.

    `best`: the metric that decides, e.g. "seconds_to:0.8". `jobs`: processes (default: one a core; with 1 everything
    happens in this one). With `out` the folder is kept, and an interrupted sweep goes on when the call is repeated.
    A script that uses several processes must start from `if __name__ == "__main__":`.
    """
    base = as_experiment(experiment)
    order, points = prepare(base, make_axes(over), seeds=seeds, best=best)
    if out is None:
        with tempfile.TemporaryDirectory(prefix="paota-sweep-") as temporary:
            path = folders.begin(Path(temporary) / "sweep", order)
            return gather(path, order, points, compute(path, order, points, jobs=jobs), keep=False)
    if (Path(out) / folders.FILE).is_file():
        folders.refuse_other(out, order)
        path = Path(out)
    else:
        path = folders.begin(out, order)
    return gather(path, order, points, compute(path, order, points, jobs=jobs))


def prepare(
    base: Experiment, axes: Sequence[Axis], *, seeds: int = 1, best: str | None = None, fixed: Sequence[str] = ()
) -> tuple[Order, tuple[Point, ...]]:
    """Everything that can be refused before anything is written or computed."""
    from ..simulate import plan

    if not isinstance(seeds, int) or seeds < 1:
        raise UserError(f"seeds must be at least 1, not {seeds}")
    if best is None and not base.targets:
        raise UserError("the experiment has no targets: say what is best, e.g. --best final_accuracy")
    metric = parse_metric(best) if best is not None else Metric("seconds_to", max(base.targets))
    points = make_points(base, axes, fixed=fixed)
    plan(points[0].experiment, seeds=1)  # data that are not there, a partition that cannot be
    return Order(experiment=base, axes=tuple(axes), seeds=seeds, best=metric.text), points


def compute(
    path: Path,
    order: Order,
    points: Sequence[Point],
    *,
    jobs: int | None = None,
    ray: str | None = None,
    plugins: Sequence[str] = (),
    watch: Watch = lambda news: None,
) -> dict[int, str]:
    """Compute the points that the folder does not hold yet; returns why points failed, by number."""
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be at least 1, not {jobs}")
    todo = folders.missing(path, points, order.seeds)
    for index in {point.index for point in points} - {point.index for point in todo}:
        watch(News(index, "done", 1.0))
    work = [
        Job(
            index=point.index,
            experiment=point.experiment.to_dict(),
            base=str(point.experiment.base),
            seeds=order.seeds,
            folder=str(folders.path_of(path, point.index, len(points))),
            plugins=tuple(str(Path(file).resolve()) for file in plugins),
        )
        for point in todo
    ]
    failed = {}
    for news in _how(work, jobs or os.cpu_count() or 1, ray):
        watch(news)
        if news.kind == "failed":
            failed[news.index] = news.why
    return failed


def gather(path: Path, order: Order, points: Sequence[Point], failed: Mapping[int, str], *, keep: bool = True) -> Sweep:
    """Read the finished points, and write `sweep.csv` and `report.html` beside them."""
    from ..pages.sweep import write_page
    from ..runs.files import write_csv

    metric = parse_metric(order.best)
    metrics = standard_metrics(metric, order.experiment.targets)
    rows: list[Row] = []
    for point in points:
        result = folders.finished(folders.path_of(path, point.index, len(points)), point, order.seeds)
        if result is not None:
            rows += rows_of(point, result, metrics)
    made = Sweep(
        name=order.experiment.name,
        axes=order.axes,
        best_by=metric,
        metrics=metrics,
        seeds=order.seeds,
        rows=tuple(rows),
        failed=dict(sorted(failed.items())),
        points=len(points),
        folder=path if keep else None,
    )
    if keep:
        write_csv(path / "sweep.csv", made.table)
        write_page(path / "report.html", made, order.experiment, points)
    return made


def _how(work: Sequence[Job], jobs: int, ray: str | None) -> Iterator[News]:
    if not work:
        return iter(())
    if ray is not None:
        from .on_ray import on_ray

        return on_ray(work, ray)
    return in_this_process(work) if jobs == 1 else in_processes(work, jobs)
