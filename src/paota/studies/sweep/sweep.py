"""Grids of experiments: `paota.sweep` and `paota sweep`.

In a sweep folder `sweep.json` holds the question, and `points/000`, `points/001`, ... are run folders. A point with a
`run.json` is complete; a resumed sweep computes all others, from their checkpoints where they have some. `sweep.csv` and
`report.html` are written last, from the points.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import UserError, concise, unknown_name
from ...base.files import write_csv
from ...base.formatting import Score
from ...base.rng import Seeds, seed_numbers
from ...base.system import only_one
from ...base.types import Settings, Table
from ...experiment.experiment import Experiment, as_experiment
from ...results.result import Result
from ...timing.timeline import Timeline
from ..pool import Update, Watch, run_tasks
from ..study import Collection, Question, RunJob, check_jobs, shared_by_jobs
from .grid import Axis, Point, combinations, make_axes, make_points, place, point_folder, unused_periods
from .metrics import Metric, parse_metric
from .outcome import HeldEqual, Sweep, SweepRow, rows_of, standard_metrics

EQUAL = ("time", "rounds")


@dataclass(frozen=True, kw_only=True)
class SweepSpec(Question):
    """The question of a sweep: an experiment at every combination of the axes' values."""

    axes: tuple[Axis, ...]
    equal: HeldEqual = HeldEqual(what="rounds")

    @functools.cached_property
    def points(self) -> tuple[Point, ...]:
        """All combinations of the axes' values; each experiment is checked."""
        duration_s = self.equal.duration_s
        base = self.experiment if duration_s is None else self.experiment.override({"duration_s": duration_s})
        return make_points(base, self.axes)

    def identity(self) -> Table:
        """Return what must not change when a sweep is resumed; the metric may."""
        return {"over": {axis.key: list(axis.values) for axis in self.axes}, "equal": self.equal.what}

    def details(self) -> Table:
        """Return the order of the axes, and what may change."""
        return {"axes": [axis.key for axis in self.axes], "best": self.best, "duration_s": self.equal.duration_s}

    def finished(self, folder: Path, point: Point) -> Result | None:
        """Return the result of a finished point, else None; refuse a run that belongs elsewhere."""
        return SWEEPS.finished(folder / point_folder(point.index, len(self.points)), point.experiment, self.seeds)


def _spec(found: Settings, *, experiment: Experiment, seeds: int | tuple[int, ...], best: str) -> SweepSpec:
    # Version 0.1 had neither `equal` nor the duration.
    equal = HeldEqual(what=str(found.get("equal", "rounds")), duration_s=found.get("duration_s"))
    return SweepSpec(experiment=experiment, seeds=seeds, best=best, axes=_axes(found), equal=equal)


def _axes(found: Settings) -> tuple[Axis, ...]:
    return tuple(Axis(str(key), tuple(found["over"][key])) for key in found["axes"])


SWEEPS = Collection("sweep", "sweep.json", 1, _spec)


def outline(folder: str | Path) -> tuple[str, list[tuple[str, Path]]]:
    """Return a sweep's name, and the values and the folder of every point. This runs no code of the experiment."""
    found = SWEEPS.read_table(folder)
    try:
        axes = _axes(found)
        places = [place(axes, values) for values in combinations(axes)]
        name = str(found["experiment"]["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise SWEEPS.damaged(folder, error) from None
    return name, [(words, Path(folder) / point_folder(i, len(places))) for i, words in enumerate(places)]


@concise
def sweep(
    experiment: Experiment | Settings | str | Path | None = None,
    *,
    over: Mapping[str, Sequence[object]],
    seeds: Seeds = 1,
    best: str | None = None,
    equal: str = "time",
    jobs: int | None = None,
    out: str | Path | None = None,
    callbacks: Sequence[object] = (),
) -> Sweep:
    """Run an experiment at every combination of `over`, several points in parallel.

    Models, data sets, callbacks and registered things of a script or notebook are sent to the processes. What cannot be
    sent is refused at once, and needs `jobs=1`. If every point fails, that is a `UserError`.

    Args:
        experiment: as for `paota.run`; the default is the paper's.
        over: the values of each setting that varies, e.g. {"timing.period_s": [4, 6, 8]}.
        seeds: repetitions of every point, or a list of seeds, as for `paota.run`.
        best: the metric that decides, e.g. "seconds_to:0.8" (default: seconds to the highest target).
        equal: what all points have equal where equal rounds would take unequal time: "time" (that of the longest), or
            "rounds", which changes nothing.
        jobs: number of processes (default: one per core; 1 computes everything in this process).
        out: a folder to keep; repeating the call resumes an interrupted sweep.
        callbacks: as for `paota.run`; every point gets its own copies, which are sent to its process.

    Returns:
        The table of all points, and the best point of each algorithm.
    """
    spec = prepare(as_experiment(experiment), make_axes(over), seeds=seeds, best=best, equal=equal)

    def computed(path: Path) -> dict[int, str]:
        failed = compute(path, spec, jobs=jobs, callbacks=callbacks)
        if len(failed) == len(spec.points):
            raise UserError(f"every point of the sweep failed: {next(iter(failed.values()))}")
        return failed

    if out is None:
        with tempfile.TemporaryDirectory(prefix="paota-sweep-") as temporary:
            path = SWEEPS.begin(Path(temporary) / "sweep", spec)
            return gather(path, spec, computed(path), keep=False)
    path = SWEEPS.begin_or_resume(out, spec)
    return gather(path, spec, computed(path))


def prepare(
    base: Experiment, axes: Sequence[Axis], *, seeds: Seeds = 1, best: str | None = None, equal: str = "time"
) -> SweepSpec:
    """Return the question of a sweep; refuse mistakes before anything is written or computed."""
    seed_numbers(seeds, base.seed)
    if not isinstance(seeds, int) and "seed" in [axis.key for axis in axes]:
        raise UserError("seeds are listed and swept over: keep one of them")
    if best is None and not base.targets:
        raise UserError("the experiment has no targets: name the metric that decides, e.g. --best final_accuracy")
    metric = parse_metric(best) if best is not None else Metric("seconds_to", max(base.targets))
    if equal not in EQUAL:
        raise unknown_name("value of --equal", equal, EQUAL)
    spec = SweepSpec(
        experiment=base, axes=tuple(axes), seeds=seeds if isinstance(seeds, int) else tuple(seeds), best=metric.text,
        equal=HeldEqual(what=equal),
    )  # fmt: skip
    first = timelines_of(spec.points[0].experiment)  # refuses missing data and impossible partitions
    if equal == "rounds":
        return spec
    return replace(spec, equal=HeldEqual(duration_s=common_duration_s(spec.points, axes, first)))


def timelines_of(experiment: Experiment) -> dict[str, Timeline]:
    """Return the timeline of every algorithm with the first seed, by label; nothing is learned."""
    from ...simulate import prepare as prepare_run  # start-up time

    made = prepare_run(experiment, seeds=1)
    return {label: timeline for (label, _), timeline in made.timelines.items()}


def common_duration_s(
    points: Sequence[Point], axes: Sequence[Axis], first: Mapping[str, Timeline] | None = None
) -> float | None:
    """Return the simulated time of the longest point.

    With longer periods, equal rounds take more time. The timelines show whether a setting changes the
    length of a round. The result is None if all points take the same time, or if the axes set their end.

    Args:
        points: all points of the grid.
        axes: of the grid.
        first: the timelines of the first point, if they are known.
    """
    if {"rounds", "duration_s"} & {axis.key for axis in axes} or points[0].experiment.horizon.rounds is None:
        return None
    ends: dict[str, list[float]] = {}
    for point in points:
        try:
            timelines = first if first is not None and point is points[0] else timelines_of(point.experiment)
        except UserError:  # the point itself will fail, and give the reason
            continue
        for label, timeline in timelines.items():
            ends.setdefault(label, []).append(float(timeline.time_s[-1]))
    differ = any(max(mine) > min(mine) * (1 + 1e-9) for mine in ends.values())
    return max(max(mine) for mine in ends.values()) if differ else None


def compute(
    path: Path,
    spec: SweepSpec,
    *,
    jobs: int | None = None,
    ray: str | None = None,
    callbacks: Sequence[object] = (),
    watch: Watch = lambda update: None,
) -> dict[int, str]:
    """Compute the points that the sweep folder `path` does not hold yet.

    Args:
        path: the sweep folder.
        spec: its question.
        jobs, ray: as `workers` and `ray` of `paota.studies.pool.run_tasks` (default: one process per core).
        callbacks: as for `sweep`.
        watch: called with every update; its key is the number of the point.

    Returns:
        The reasons of failed points, by number.
    """
    check_jobs(jobs)
    SWEEPS.refuse_changed_files(path, spec.experiment)
    workers = jobs or os.cpu_count() or 1
    given = shared_by_jobs(spec.experiment, callbacks, processes=workers > 1 or ray is not None)
    tasks = []
    for point in spec.points:
        if spec.finished(path, point) is not None:
            watch(Update(str(point.index), "done", 1.0))
            continue
        tasks.append(
            RunJob(
                key=str(point.index), experiment=point.experiment.to_dict(), base=str(point.experiment.base),
                seeds=spec.seeds, folder=str(path / point_folder(point.index, len(spec.points))),
                given=given, callbacks=tuple(callbacks), title=f"{spec.experiment.name}, {place(spec.axes, point.values)}",
            )
        )  # fmt: skip
    with only_one(path):
        (path / "points").mkdir(exist_ok=True)
        failed = run_tasks(tasks, workers=workers, ray=ray, watch=watch)
    return {int(key): reason for key, reason in failed.items()}


def gather(path: Path, spec: SweepSpec, failed: Mapping[int, str], *, keep: bool = True) -> Sweep:
    """Read the finished points, and write `sweep.csv` and `report.html` beside them."""
    from .page import write_page  # start-up time

    metrics = standard_metrics(parse_metric(spec.best), spec.experiment.targets)
    rows: list[SweepRow] = []
    scores = set()
    for point in spec.points:
        if (result := spec.finished(path, point)) is not None:
            rows += rows_of(point, result, metrics)
            scores.add(result.info.get("score", "accuracy"))
    score = Score(scores.pop() if len(scores) == 1 else "accuracy")
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
        equal=spec.equal,
        foreign={c.label: unused_periods(c, spec.axes) for c in spec.points[0].experiment.algorithms},
    )
    if keep:
        write_csv(path / "sweep.csv", made.table)
        write_page(path / "report.html", made, spec.experiment, spec.points)
    return made
