"""The plan folder: `plan.json` says what is asked, `runs` holds what was simulated, the rest is the answer.

`runs/003-1` is the run folder of candidate 3 in rung 1, `runs/008-check` of a check. One with a `run.json` is whole; all others
are computed (again, or from their checkpoints) when the plan goes on. `experiment.toml`, `plan.csv` and `report.html` are
written last.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base import files
from ...experiment.experiment import Experiment
from ...results.result import Result
from ..collection import Collection
from ..sweep.grid import Axis

PLANS = Collection("plan", "plan.json", format=1)


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
                "format": PLANS.format, "target": self.target, "best": self.best, "algorithms": self.algorithms,
                "where": self.where, "seeds": self.seeds, "over": [[axis.key, list(axis.values)] for axis in self.axes],
                "experiment": self.experiment.to_dict(),
            }
        )  # fmt: skip
        return made


def begin(folder: str | Path, spec: PlanSpec) -> Path:
    """A new plan folder; what cannot be written leaves nothing behind."""
    return PLANS.begin(folder, spec.identity(), spec.experiment)


def begin_or_go_on(folder: str | Path, spec: PlanSpec) -> Path:
    """The folder of this plan, new or begun; one of another plan is refused."""
    if not PLANS.is_begun(folder):
        return begin(folder, spec)
    refuse_other(folder, spec)
    return Path(folder)


def read(folder: str | Path, *, trust_plugins: bool = False) -> PlanSpec:
    """What the plan is about that was begun in `folder`; refused if a file that it reads has changed since.

    `trust_plugins` as for `Experiment.from_dict`.
    """
    found = PLANS.read(folder)
    try:
        seeds = found["seeds"]
        spec = PlanSpec(
            experiment=Experiment.from_dict(dict(found["experiment"]), trust_plugins=trust_plugins),
            target=float(found["target"]),
            best=str(found["best"]), axes=tuple(Axis(key, tuple(values)) for key, values in found["over"]),
            algorithms=tuple(found["algorithms"]), where=tuple(found["where"]),
            seeds=tuple(map(int, seeds)) if isinstance(seeds, list) else int(seeds),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise PLANS.damaged(folder, error) from None
    PLANS.refuse_changed_files(folder, spec.experiment)
    return spec


def refuse_other(folder: str | Path, spec: PlanSpec) -> None:
    """A folder holds one plan: say what differs from the one that is asked for."""
    PLANS.refuse_other(folder, spec.identity(), read(folder).identity())


def finished(path: Path, experiment: Experiment, seeds: tuple[int, ...]) -> Result | None:
    """The result of a run that is done; None if it is not. One that belongs elsewhere is refused."""
    return PLANS.finished(path, experiment, seeds)
