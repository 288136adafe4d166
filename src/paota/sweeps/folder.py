"""The sweep folder: `sweep.json` says what is swept, `points/000`, `points/001`, ... are run folders, the rest results.

A point's folder with a `run.json` is whole; all others are computed (again, or from their checkpoints) when the sweep
goes on. `sweep.csv` and `report.html` are written last, from the points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..experiment import Experiment
from ..runs import files
from ..runs import folder as run_folder
from ..runs.checkpoint import differences
from ..runs.results import Result
from .grid import Axis, Point

FORMAT = 1
FILE = "sweep.json"


@dataclass(frozen=True, kw_only=True)
class Order:
    """What was asked for."""

    experiment: Experiment
    axes: tuple[Axis, ...]
    seeds: int
    best: str

    def identity(self) -> dict[str, Any]:
        """What must not change when a sweep goes on; the metric may."""
        over = {axis.key: list(axis.values) for axis in self.axes}
        made: dict[str, Any] = files.jsonable(
            {"format": FORMAT, "seeds": self.seeds, "over": over, "experiment": self.experiment.to_dict()}
        )
        return made


def begin(folder: str | Path, order: Order) -> Path:
    path = run_folder.new_folder(folder)
    try:
        files.write_json(path / FILE, {**order.identity(), "axes": [a.key for a in order.axes], "best": order.best})
        (path / "points").mkdir()
    except (UserError, OSError) as error:  # read-only or full: leave no half-made folder
        (path / FILE).unlink(missing_ok=True)
        path.rmdir()
        raise (
            error if isinstance(error, UserError) else UserError(f"cannot write into '{folder}': {error.strerror}")
        ) from None
    return path


def read(folder: str | Path) -> Order:
    """The order of a sweep that was begun in `folder`."""
    file = Path(folder) / FILE
    if not file.is_file():
        raise UserError(f"'{folder}' holds no sweep to go on with (no {FILE} in it)")
    found = files.read_json(file)
    try:
        if found["format"] != FORMAT:
            raise UserError(f"'{file}' was written by another version of paota (format {found['format']})")
        axes = tuple(Axis(key, tuple(found["over"][key])) for key in found["axes"])
        seeds, best = int(found["seeds"]), str(found["best"])
        table = dict(found["experiment"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"'{file}' is damaged: {error!r}") from None
    return Order(experiment=Experiment.from_dict(table), axes=axes, seeds=seeds, best=best)


def refuse_other(folder: str | Path, order: Order) -> None:
    """A folder holds one sweep: say what differs from the one that is asked for."""
    for name, now, then in differences(order.identity(), read(folder).identity()):
        raise UserError(f"'{folder}' holds another sweep: {name} was {then} and is {now}")


def path_of(folder: Path, index: int, total: int) -> Path:
    return folder / "points" / f"{index:0{max(3, len(str(total - 1)))}d}"


def finished(path: Path, point: Point, seeds: int) -> Result | None:
    """The result of a point that is done; None if it is not. One that belongs elsewhere is refused."""
    if not run_folder.is_finished(path):
        return None
    result = run_folder.load(path)
    now = files.jsonable({"seeds": seeds, "experiment": point.experiment.to_dict()})
    then = files.jsonable({"seeds": len(result.seeds), "experiment": result.experiment.to_dict()})
    for name, is_, was in differences(now, then):
        raise UserError(
            f"'{path}' belongs to another sweep: {name} was {was} and is {is_}; remove it to compute it again"
        )
    run_folder.remove_leftovers(path)
    return result


def missing(folder: Path, points: Sequence[Point], seeds: int) -> list[Point]:
    return [point for point in points if finished(path_of(folder, point.index, len(points)), point, seeds) is None]
