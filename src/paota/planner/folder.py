"""The plan folder: `plan.json` says what is asked, `runs` holds what was simulated, the rest is the answer.

`runs/003-1` is the run folder of candidate 3 in rung 1, `runs/008-check` of a check. One with a `run.json` is whole; all others
are computed (again, or from their checkpoints) when the plan goes on. `experiment.toml`, `plan.csv` and `report.html` are
written last.
"""

from __future__ import annotations

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
from ..sweeps.grid import Axis

FORMAT = 1
FILE = "plan.json"


@dataclass(frozen=True, kw_only=True)
class PlanSpec:
    """What is asked for."""

    experiment: Experiment
    target: float
    best: str  # what is made small, as `--best` takes it
    axes: tuple[Axis, ...] = ()
    algorithms: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    seeds: int | tuple[int, ...] = 5

    def identity(self) -> dict[str, Any]:
        """What must not change when a plan goes on."""
        made: dict[str, Any] = files.jsonable(
            {
                "format": FORMAT, "target": self.target, "best": self.best, "algorithms": self.algorithms,
                "where": self.where, "seeds": self.seeds, "over": [[axis.key, list(axis.values)] for axis in self.axes],
                "experiment": self.experiment.to_dict(),
            }
        )  # fmt: skip
        return made


def begin(folder: str | Path, spec: PlanSpec) -> Path:
    """A new plan folder; what cannot be written leaves nothing behind."""
    path = run_folder.new_folder(folder)
    try:
        files.write_json(path / FILE, {**spec.identity(), "contents": fingerprints(spec.experiment)})
    except UserError:  # read-only or full: leave no half-made folder
        path.rmdir()
        raise
    return path


def read(folder: str | Path) -> PlanSpec:
    """What the plan is about that was begun in `folder`; refused if a file that it reads has changed since."""
    file = Path(folder) / FILE
    if not file.is_file():
        raise UserError(f"'{folder}' holds no plan to go on with (no {FILE} in it)")
    found = files.read_json(file)
    try:
        if found["format"] != FORMAT:
            raise UserError(f"'{file}' was written by another version of paota (format {found['format']})")
        seeds = found["seeds"]
        spec = PlanSpec(
            experiment=Experiment.from_dict(dict(found["experiment"])), target=float(found["target"]),
            best=str(found["best"]), axes=tuple(Axis(key, tuple(values)) for key, values in found["over"]),
            algorithms=tuple(found["algorithms"]), where=tuple(found["where"]),
            seeds=tuple(map(int, seeds)) if isinstance(seeds, list) else int(seeds),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"'{file}' is damaged: {error!r}") from None
    for path, now in fingerprints(spec.experiment).items():
        if found.get("contents", {}).get(path, now) != now:
            raise UserError(
                f"'{path}' has changed since the plan in '{folder}' began: put it back, or begin a new plan"
            )
    return spec


def refuse_other(folder: str | Path, spec: PlanSpec) -> None:
    """A folder holds one plan: say what differs from the one that is asked for."""
    for name, now, then in differences(spec.identity(), read(folder).identity()):
        raise UserError(f"'{folder}' holds another plan: {name} was {then} and is {now}")


def finished(path: Path, experiment: Experiment, seeds: tuple[int, ...]) -> Result | None:
    """The result of a run that is done; None if it is not. One that belongs elsewhere is refused."""
    if not run_folder.is_finished(path):
        return None
    result = run_folder.load(path)
    for name, now, then in run_folder.differences_from(result, experiment, seeds):
        raise UserError(
            f"'{path}' belongs to another plan: {name} was {then} and is {now}; remove it to compute it again"
        )
    run_folder.remove_leftovers(path)
    return result
