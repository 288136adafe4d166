"""One experiment from settings to result: data, timelines, then the engine, for every algorithm and seed."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..experiment import Experiment, as_experiment
from ..rng import Seeds
from ..runs import checkpoint
from ..runs.checkpoint import Checkpoints
from ..runs.results import Result
from .planning import Plan, plan
from .progress import Progress, Silent
from .records import recorded_devices

if TYPE_CHECKING:
    from .unit import Observer

__all__ = ["Plan", "Progress", "Silent", "environment", "execute", "identity", "plan", "run"]

EVENTS_A_CALL = 10


def run(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    seeds: Seeds = 1,
    progress: Progress | None = None,
    events_a_call: int = EVENTS_A_CALL,
) -> Result:
    """Run an experiment and return what happened.

    Args:
        experiment: an `Experiment`, a table in the vocabulary of the experiment file, or the path of a TOML file;
            nothing means the paper.
        seeds: how many repetitions, with the seeds `seed`, `seed + 1`, ..., or a list of seeds such as [1, 2, 3].
        progress: who is told.
        events_a_call: aggregations between two looks of the host; it changes no bit.

    Returns:
        The trajectories of every algorithm and seed.
    """
    return execute(plan(as_experiment(experiment), seeds=seeds), progress=progress, events_a_call=events_a_call)


def execute(
    plan: Plan,
    *,
    progress: Progress | None = None,
    events_a_call: int = EVENTS_A_CALL,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] = lambda: False,
    observe: Observer | None = None,
) -> Result:
    """Run a plan. With `checkpoints` it goes on where they end; `stop` is asked after every engine call.

    `observe(label, seed, version, model)` gets the initial model, then the newest one [d] after every engine call.
    """
    from ..models.base import score_name_of
    from .schedule import Schedule, learners_in_words  # JAX, only when something is computed

    started = datetime.now(UTC)
    schedule = Schedule(
        plan, progress=progress, events_a_call=events_a_call, checkpoints=checkpoints, stop=stop, observe=observe
    )
    schedule.compile_ahead()
    trajectories = schedule.trajectories()
    recorded = min(recorded_devices(timeline) for timeline in plan.timelines.values())
    whole = recorded >= min(int(t.device.max(initial=0)) + 1 for t in plan.timelines.values())
    records = "all devices" if whole else f"devices 0 to {recorded - 1}: more would not fit"
    info = {
        **environment(started), "learner": learners_in_words(plan), "score": score_name_of(plan.model),
        "device_records": records,
    }  # fmt: skip
    return Result(experiment=plan.experiment, trajectories=trajectories, info=info)


def identity(plan: Plan) -> dict[str, Any]:
    """What must not change between a checkpoint and its resumption, for the bits to be the same."""
    from .schedule import learners_in_words

    versions = {name: _version(name) for name in ("paota", "jax", "jaxlib", "optax")}
    versions["learner"] = learners_in_words(plan)
    return {"format": checkpoint.FORMAT, **versions, "seeds": plan.seeds, "experiment": plan.experiment.to_dict()}


def environment(started: datetime) -> dict[str, Any]:
    """What somebody needs to know to run it again."""
    versions = {name: _version(name) for name in ("paota", "jax", "jaxlib", "optax", "numpy")}
    return {
        **versions,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "started": started.isoformat(timespec="seconds"),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
