"""The sweep folder: `sweep.json` says what is swept, `points/000`, `points/001`, ... are run folders, the rest results.

A point's folder with a `run.json` is whole; all others are computed (again, or from their checkpoints) when the sweep
goes on. `sweep.csv` and `report.html` are written last, from the points.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.types import Settings, Table
from ...results.result import Result
from ..collection import Collection, Question
from .grid import Axis, Point, combinations, make_points, place


@dataclass(frozen=True, kw_only=True)
class SweepSpec(Question):
    """An experiment at every combination of the axes' values."""

    axes: tuple[Axis, ...]
    equal: str = "rounds"  # what is held equal, as `--equal` takes it
    duration_s: float | None = None  # of all points, where equal rounds would take unequal time

    @functools.cached_property
    def points(self) -> tuple[Point, ...]:
        """All combinations of the axes' values, each checked."""
        base = self.experiment if self.duration_s is None else self.experiment.override({"duration_s": self.duration_s})
        return make_points(base, self.axes)

    def identity(self) -> Table:
        """What must not change when a sweep goes on; the metric may."""
        return {"over": {axis.key: list(axis.values) for axis in self.axes}, "equal": self.equal}

    def details(self) -> Table:
        """The axes in their order, and what may change."""
        return {"axes": [axis.key for axis in self.axes], "best": self.best, "duration_s": self.duration_s}


def _spec(found: Settings, **common: Any) -> SweepSpec:
    equal = str(found.get("equal", "rounds"))  # version 0.1 had neither this nor the duration
    return SweepSpec(axes=_axes(found), equal=equal, duration_s=found.get("duration_s"), **common)


SWEEPS = Collection("sweep", "sweep.json", 1, _spec)


def outline(folder: str | Path) -> tuple[str, list[tuple[str, Path]]]:
    """The sweep's name, and of every point its values in words and its folder: what can be said without its code."""
    found = SWEEPS.read_table(folder)
    try:
        axes = _axes(found)
        places = [place(axes, values) for values in combinations(axes)]
        name = str(found["experiment"]["name"])
    except (KeyError, TypeError, ValueError) as error:
        raise SWEEPS.damaged(folder, error) from None
    return name, [(words, Path(folder) / inner_path(i, len(places))) for i, words in enumerate(places)]


def _axes(found: Settings) -> tuple[Axis, ...]:
    return tuple(Axis(str(key), tuple(found["over"][key])) for key in found["axes"])


def inner_path(point: int, points: int) -> str:
    """The run folder of a point within its sweep's."""
    return f"points/{point:0{max(3, len(str(points - 1)))}d}"


def finished(folder: Path, spec: SweepSpec, point: Point) -> Result | None:
    """The result of a point that is done; None if it is not. One that belongs elsewhere is refused."""
    return SWEEPS.finished(folder / inner_path(point.index, len(spec.points)), point.experiment, spec.seeds)
