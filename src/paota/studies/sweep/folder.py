"""The sweep folder: `sweep.json` says what is swept, `points/000`, `points/001`, ... are run folders, the rest results.

A point's folder with a `run.json` is whole; all others are computed (again, or from their checkpoints) when the sweep
goes on. `sweep.csv` and `report.html` are written last, from the points.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base import files
from ...experiment.experiment import Experiment
from ...results.result import Result
from ..collection import Collection
from .grid import Axis, Point, combinations, make_points, place

SWEEPS = Collection("sweep", "sweep.json", format=1)


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
                "format": SWEEPS.format, "seeds": self.seeds, "over": over, "experiment": self.experiment.to_dict(),
                "equal": self.equal,
            }
        )  # fmt: skip
        return made


def begin(folder: str | Path, spec: SweepSpec) -> Path:
    """A new sweep folder for `spec`; what cannot be written leaves nothing behind."""
    more = {"axes": [axis.key for axis in spec.axes], "best": spec.best, "duration_s": spec.duration_s}
    return SWEEPS.begin(folder, {**spec.identity(), **more}, spec.experiment)


def begin_or_go_on(folder: str | Path, spec: SweepSpec) -> Path:
    """The folder of this sweep, new or begun; one of another sweep is refused."""
    if not SWEEPS.is_begun(folder):
        return begin(folder, spec)
    refuse_other(folder, spec)
    return Path(folder)


def read(folder: str | Path, *, trust_plugins: bool = False) -> SweepSpec:
    """What the sweep is about that was begun in `folder`; `trust_plugins` as for `Experiment.from_dict`."""
    found = SWEEPS.read(folder)
    try:
        seeds = found["seeds"]
        return SweepSpec(
            experiment=Experiment.from_dict(dict(found["experiment"]), trust_plugins=trust_plugins),
            axes=_axes(found),
            seeds=tuple(map(int, seeds)) if isinstance(seeds, list) else int(seeds), best=str(found["best"]),
            equal=str(found.get("equal", "rounds")), duration_s=found.get("duration_s"),  # version 0.1 had neither
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise SWEEPS.damaged(folder, error) from None


def outline(folder: str | Path) -> tuple[str, list[tuple[str, Path]]]:
    """The sweep's name, and of every point its values in words and its folder: what can be said without its code."""
    found = SWEEPS.read(folder)
    try:
        axes = _axes(found)
        places = [place(axes, values) for values in combinations(axes)]
        name = str(found["experiment"]["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise SWEEPS.damaged(folder, error) from None
    return name, [(words, Path(folder) / inner_path(i, len(places))) for i, words in enumerate(places)]


def _axes(found: Mapping[str, Any]) -> tuple[Axis, ...]:
    return tuple(Axis(str(key), tuple(found["over"][key])) for key in found["axes"])


def refuse_other(folder: str | Path, spec: SweepSpec) -> None:
    """A folder holds one sweep: say what differs from the one that is asked for."""
    SWEEPS.refuse_other(folder, spec.identity(), read(folder).identity())


def refuse_changed_files(folder: str | Path, spec: SweepSpec) -> None:
    """Points computed from other data, traces or plug-ins than the rest would decide the answer: say what has changed."""
    SWEEPS.refuse_changed_files(folder, spec.experiment)


def path_of(folder: Path, spec: SweepSpec, point: Point) -> Path:
    """The run folder of a point."""
    return folder / inner_path(point.index, len(spec.points))


def inner_path(point: int, points: int) -> str:
    """The run folder of a point within its sweep's."""
    return f"points/{point:0{max(3, len(str(points - 1)))}d}"


def finished(path: Path, point: Point, seeds: int | tuple[int, ...]) -> Result | None:
    """The result of a point that is done; None if it is not. One that belongs elsewhere is refused."""
    return SWEEPS.finished(path, point.experiment, seeds)
