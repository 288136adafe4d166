"""A run of one experiment: data, timelines, then the engine, for every algorithm and seed."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any  # callbacks are objects or functions

from ..base.rng import Seeds
from ..base.types import Settings, Table
from ..callbacks.base import CallbackError, RunUnit, Start
from ..callbacks.group import Group, stopping_rules
from ..callbacks.notebook import NotebookBar, in_notebook
from ..experiment.experiment import Experiment, as_experiment
from ..results import checkpoint
from ..results.checkpoint import Checkpoints, fingerprints
from ..results.result import Result, Trajectory
from .preparation import PreparedRun, prepare
from .records import recorded_devices

__all__ = ["PreparedRun", "environment", "execute", "identity", "prepare", "run"]


def run(
    experiment: Experiment | Settings | str | Path | None = None,
    *,
    seeds: Seeds = 1,
    callbacks: Sequence[Any] = (),
    events_per_call: int | None = None,
) -> Result:
    """Run an experiment and return its result. A notebook shows a progress bar.

    Args:
        experiment: an `Experiment`, a table in the vocabulary of the experiment file, or the path of a TOML file
            (default: the paper's experiment).
        seeds: number of repetitions, with the seeds `seed`, `seed + 1`, ..., or a list of seeds such as [1, 2, 3].
        callbacks: objects of `paota.Callback`, or functions that get every `paota.Round`; they may stop a run.
        events_per_call: aggregations of one engine call (default: as many as take about a second); it changes no bit.

    Returns:
        The trajectories of every algorithm and seed.
    """
    if in_notebook() and not isinstance(callbacks, str) and not any(isinstance(c, NotebookBar) for c in callbacks):
        callbacks = [NotebookBar(), *callbacks]
    return execute(
        prepare(as_experiment(experiment), seeds=seeds), callbacks=callbacks, events_per_call=events_per_call
    )


def execute(
    prepared: PreparedRun,
    *,
    callbacks: Sequence[Any] = (),
    events_per_call: int | None = None,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] = lambda: False,
    title: str | None = None,
    folder: Path | None = None,
) -> Result:
    """Run a prepared experiment.

    Args:
        prepared: what `prepare` returns.
        callbacks: as for `run`.
        events_per_call: as for `run`.
        checkpoints: where to save; the run resumes from existing checkpoints.
        stop: called several times a second; the run ends soon after it returns True.
        title: name of the run for the callbacks.
        folder: run folder for the callbacks.
    """
    from .schedule import Schedule  # start-up time

    started = datetime.now(UTC)
    group = Group(callbacks, rules=stopping_rules(prepared.experiment.evaluation))
    schedule = Schedule(prepared, callbacks=group, events_per_call=events_per_call, checkpoints=checkpoints, stop=stop)
    result = None
    try:
        group.start(_start(prepared, title, folder))
        result = _result(prepared, schedule.trajectories(), started)
        group.end(result)
    except CallbackError as error:
        begun = [unit.trajectory() for unit in schedule.units if unit.begun]
        error.result = result or (_result(prepared, begun, started) if begun else None)
        raise
    finally:
        with contextlib.suppress(CallbackError):  # the first failure is already on its way
            group.end(None)
    return result


def _start(prepared: PreparedRun, title: str | None, folder: Path | None) -> Start:
    from ..models.base import score_name_of  # start-up time

    units = [
        RunUnit(label=c.label, algorithm=c.algorithm_name, seed=seed, rounds=len(prepared.timelines[c.label, seed]))
        for c, seed in prepared.units()
    ]
    return Start(
        experiment=prepared.experiment, title=title or prepared.experiment.name, units=units, folder=folder,
        score=score_name_of(prepared.model),
    )  # fmt: skip


def _result(prepared: PreparedRun, trajectories: Sequence[Trajectory], started: datetime) -> Result:
    from ..models.base import score_name_of  # start-up time
    from .programs import describe_learners  # start-up time

    recorded = min(recorded_devices(timeline) for timeline in prepared.timelines.values())
    whole = recorded >= min(int(t.device.max(initial=0)) + 1 for t in prepared.timelines.values())
    records = "all devices" if whole else f"devices 0 to {recorded - 1}: more would not fit"
    info = {
        **environment(started), "learner": describe_learners(prepared), "score": score_name_of(prepared.model),
        "device_records": records,
    }  # fmt: skip
    return Result(experiment=prepared.experiment, trajectories=trajectories, info=info)


def identity(prepared: PreparedRun) -> Table:
    """Return everything that must be equal in a checkpoint and its resumption, for equal bits."""
    from .programs import describe_learners  # start-up time

    versions = {name: _version(name) for name in ("paota", "jax", "jaxlib", "optax")}
    versions["learner"] = describe_learners(prepared)
    return {
        "format": checkpoint.FORMAT, **versions, "seeds": prepared.seeds, "experiment": prepared.experiment.to_dict(),
        "contents": fingerprints(prepared.experiment),
    }  # fmt: skip


def environment(started: datetime) -> Table:
    """Return the versions and the system that a repetition needs."""
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
