"""The sweep folder: `sweep.json` says what is swept, `points/000`, `points/001`, ... are run folders, the rest results.

A point's folder with a `run.json` is whole; all others are computed (again, or from their checkpoints) when the sweep
goes on. `sweep.csv` and `report.html` are written last, from the points.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..experiment import Experiment
from ..runs import files
from ..runs import folder as run_folder
from ..runs.checkpoint import differences
from ..runs.contents import fingerprints
from ..runs.results import Result
from .grid import Axis, Point, make_points

FORMAT = 1
FILE = "sweep.json"


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """What is asked for: an experiment at every combination of the axes' values, with so many seeds."""

    experiment: Experiment
    axes: tuple[Axis, ...]
    seeds: int | tuple[int, ...]  # how many, or which
    best: str  # the metric that decides, as `--best` takes it
    equal: str = "rounds"  # what is held equal, as `--equal` takes it
    duration_s: float | None = None  # that all points get, where equal rounds would take unequal time

    @functools.cached_property
    def points(self) -> tuple[Point, ...]:
        """All combinations of the axes' values, each checked."""
        base = self.experiment if self.duration_s is None else self.experiment.override({"duration_s": self.duration_s})
        return make_points(base, self.axes)

    def identity(self) -> dict[str, Any]:
        """What must not change when a sweep goes on; the metric may."""
        over = {axis.key: list(axis.values) for axis in self.axes}
        made: dict[str, Any] = files.jsonable(
            {
                "format": FORMAT, "seeds": self.seeds, "over": over, "experiment": self.experiment.to_dict(),
                "equal": self.equal,
            }
        )  # fmt: skip
        return made


def begin(folder: str | Path, spec: SweepSpec) -> Path:
    """A new sweep folder for `spec`; what cannot be written leaves nothing behind."""
    path = run_folder.new_folder(folder)
    try:
        files.write_json(
            path / FILE,
            {
                **spec.identity(), "axes": [a.key for a in spec.axes], "best": spec.best,
                "duration_s": spec.duration_s, "contents": fingerprints(spec.experiment),
            },
        )  # fmt: skip
    except UserError:  # read-only or full: leave no half-made folder
        path.rmdir()
        raise
    return path


def read(folder: str | Path) -> SweepSpec:
    """What the sweep is about that was begun in `folder`."""
    file = Path(folder) / FILE
    if not file.is_file():
        raise UserError(f"'{folder}' holds no sweep to go on with (no {FILE} in it)")
    found = files.read_json(file)
    try:
        if found["format"] != FORMAT:
            raise UserError(f"'{file}' was written by another version of paota (format {found['format']})")
        axes = tuple(Axis(key, tuple(found["over"][key])) for key in found["axes"])
        seeds, best = found["seeds"], str(found["best"])
        seeds = tuple(map(int, seeds)) if isinstance(seeds, list) else int(seeds)
        table = dict(found["experiment"])
        equal, duration_s = (
            str(found.get("equal", "rounds")),
            found.get("duration_s"),
        )  # sweeps of version 0.1 have neither
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"'{file}' is damaged: {error!r}") from None
    return SweepSpec(
        experiment=Experiment.from_dict(table), axes=axes, seeds=seeds, best=best, equal=equal, duration_s=duration_s
    )


def refuse_other(folder: str | Path, spec: SweepSpec) -> None:
    """A folder holds one sweep: say what differs from the one that is asked for."""
    for name, now, then in differences(spec.identity(), read(folder).identity()):
        raise UserError(f"'{folder}' holds another sweep: {name} was {then} and is {now}")


def refuse_changed_files(folder: str | Path, spec: SweepSpec) -> None:
    """Points computed from other data, traces or plug-ins than the rest would decide the answer: say what has changed."""
    then = files.read_json(Path(folder) / FILE).get("contents", {})
    for path, now in fingerprints(spec.experiment).items():
        if then.get(path, now) != now:
            raise UserError(
                f"'{path}' has changed since the sweep in '{folder}' began: put it back, or begin a new sweep"
            )


def path_of(folder: Path, spec: SweepSpec, point: Point) -> Path:
    """The run folder of a point."""
    return folder / inner_path(point.index, len(spec.points))


def inner_path(point: int, points: int) -> str:
    """The run folder of a point within its sweep's."""
    return f"points/{point:0{max(3, len(str(points - 1)))}d}"


def finished(path: Path, point: Point, seeds: int | tuple[int, ...]) -> Result | None:
    """The result of a point that is done; None if it is not. One that belongs elsewhere is refused."""
    if not run_folder.is_finished(path):
        return None
    result = run_folder.load(path)
    for name, now, then in run_folder.differences_from(result, point.experiment, seeds):
        raise UserError(
            f"'{path}' belongs to another sweep: {name} was {then} and is {now}; remove it to compute it again"
        )
    run_folder.remove_leftovers(path)
    return result
