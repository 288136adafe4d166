"""Grids of experiments: `paota.sweep` and `paota sweep`."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.formatting import Score
from ...base.rng import Seeds, seed_numbers
from ...base.system import only_one
from ...experiment.experiment import Experiment, as_experiment
from ..pool import Update, Watch, run_tasks
from ..run_task import RunJob
from .fair_comparison import HeldEqual, check_equal, common_duration_s, without_period
from .folder import SWEEPS, SweepSpec, finished, inner_path
from .grid import Axis, make_axes, parse_axis, place
from .metrics import Metric, parse_metric
from .outcome import Sweep, SweepRow, rows_of, standard_metrics

__all__ = ["Axis", "Metric", "Sweep", "SweepRow", "SweepSpec", "compute", "gather", "parse_axis", "prepare", "sweep"]


def sweep(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    over: Mapping[str, Sequence[Any]],
    seeds: Seeds = 1,
    best: str | None = None,
    equal: str = "time",
    jobs: int | None = None,
    out: str | Path | None = None,
    callbacks: Sequence[Any] = (),
) -> Sweep:
    """Run an experiment at every combination of `over`, several points at a time.

    A script that uses several processes must start from `if __name__ == "__main__":`.

    Args:
        experiment: as for `paota.run`; the default is the paper's.
        over: the values of each setting that varies, e.g. {"timing.period_s": [4, 6, 8]}.
        seeds: repetitions of every point, or a list of seeds, as for `paota.run`.
        best: the metric that decides, e.g. "seconds_to:0.8" (default: seconds to the highest target).
        equal: what all points have equal where equal rounds would take unequal time: "time" (that of the longest), or
            "rounds", which leaves them as they are.
        jobs: processes (default: one a core; with 1 everything happens in this one).
        out: a folder to keep; an interrupted sweep goes on when the call is repeated.
        callbacks: as for `paota.run`; every point gets copies of its own, which travel to its process.

    Returns:
        The table of all points, and the best one of each algorithm.
    """
    spec = prepare(as_experiment(experiment), make_axes(over), seeds=seeds, best=best, equal=equal)
    if out is None:
        with tempfile.TemporaryDirectory(prefix="paota-sweep-") as temporary:
            path = SWEEPS.begin(Path(temporary) / "sweep", spec)
            return gather(path, spec, compute(path, spec, jobs=jobs, callbacks=callbacks), keep=False)
    path = SWEEPS.begin_or_go_on(out, spec)
    return gather(path, spec, compute(path, spec, jobs=jobs, callbacks=callbacks))


def prepare(
    base: Experiment, axes: Sequence[Axis], *, seeds: Seeds = 1, best: str | None = None, equal: str = "time",
) -> SweepSpec:  # fmt: skip
    """What is to be swept; everything that can be refused is, before anything is written or computed."""
    from ...simulate import prepare as prepare_run  # start-up time: JAX

    seed_numbers(seeds, base.seed)
    if not isinstance(seeds, int) and "seed" in [axis.key for axis in axes]:
        raise UserError("seeds are listed and swept over: keep one of them")
    if best is None and not base.targets:
        raise UserError("the experiment has no targets: say what is best, e.g. --best final_accuracy")
    metric = parse_metric(best) if best is not None else Metric("seconds_to", max(base.targets))
    spec = SweepSpec(
        experiment=base, axes=tuple(axes), seeds=seeds if isinstance(seeds, int) else tuple(seeds), best=metric.text,
        equal=check_equal(equal),
    )  # fmt: skip
    prepare_run(spec.points[0].experiment, seeds=1)  # data that are not there, a partition that cannot be
    return spec if equal == "rounds" else replace(spec, duration_s=common_duration_s(spec.points, axes))


def compute(
    path: Path,
    spec: SweepSpec,
    *,
    jobs: int | None = None,
    ray: str | None = None,
    callbacks: Sequence[Any] = (),
    watch: Watch = lambda update: None,
) -> dict[int, str]:
    """Compute the points that the sweep folder `path` does not hold yet.

    Args:
        jobs, ray: as `workers` and `ray` of `paota.studies.pool.run_tasks` (default: one process a core).
        callbacks: as for `sweep`.
        watch: is called with every update; its key is the number of the point.

    Returns:
        Why points failed, by number.
    """
    if jobs is not None and jobs < 1:
        raise UserError(f"jobs must be at least 1, not {jobs}")
    SWEEPS.refuse_changed_files(path, spec.experiment)
    workers = jobs or os.cpu_count() or 1
    if workers > 1 or ray is not None:
        _refuse_rooted(callbacks)
    tasks = []
    for point in spec.points:
        if finished(path, spec, point) is not None:
            watch(Update(str(point.index), "done", 1.0))
            continue
        tasks.append(
            RunJob(
                key=str(point.index), experiment=point.experiment.to_dict(), base=str(point.experiment.base),
                seeds=spec.seeds, folder=str(path / inner_path(point.index, len(spec.points))), callbacks=tuple(callbacks),
                title=f"{spec.experiment.name}, {place(spec.axes, point.values)}",
            )
        )  # fmt: skip
    with only_one(path):
        (path / "points").mkdir(exist_ok=True)
        failed = run_tasks(tasks, workers=workers, ray=ray, watch=watch)
    return {int(key): reason for key, reason in failed.items()}


def _refuse_rooted(callbacks: Sequence[Any]) -> None:
    """Callbacks that cannot travel to another process are refused before anything is computed."""
    for callback in callbacks:
        try:
            pickle.dumps(callback)
        except (pickle.PicklingError, TypeError, AttributeError):
            raise UserError(
                f"the callback {callback!r} cannot travel to the processes of a sweep: define it at the top level of a "
                "module, or sweep with jobs=1"
            ) from None


def gather(path: Path, spec: SweepSpec, failed: Mapping[int, str], *, keep: bool = True) -> Sweep:
    """Read the finished points, and write `sweep.csv` and `report.html` beside them."""
    from ...base.files import write_csv
    from .page import write_page

    metrics = standard_metrics(parse_metric(spec.best), spec.experiment.targets)
    held = HeldEqual(what=spec.equal, duration_s=spec.duration_s)
    rows: list[SweepRow] = []
    judged_by = set()
    for point in spec.points:
        if (result := finished(path, spec, point)) is not None:
            rows += rows_of(point, result, metrics)
            judged_by.add(result.info.get("score", "accuracy"))
    score = Score(judged_by.pop() if len(judged_by) == 1 else "accuracy")
    metrics = tuple(replace(metric, score=score) for metric in metrics)
    made = Sweep(
        name=spec.experiment.name,
        axes=spec.axes,
        best_by=metrics[0],
        metrics=metrics,
        seeds=len(seed_numbers(spec.seeds, spec.experiment.seed)),
        rows=tuple(rows),
        failed=dict(sorted(failed.items())),
        points=len(spec.points),
        folder=path if keep else None,
        equal=held,
        foreign=without_period(spec.points[0].experiment, spec.axes),
    )
    if keep:
        write_csv(path / "sweep.csv", made.table)
        write_page(path / "report.html", made, spec.experiment, spec.points)
    return made
