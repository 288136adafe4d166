"""One experiment from settings to result: data, timelines, then the engine, for every algorithm and seed."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..base.rng import Seeds
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
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    seeds: Seeds = 1,
    callbacks: Sequence[Any] = (),
    events_per_call: int | None = None,
) -> Result:
    """Run an experiment and return what happened. A notebook shows a progress bar.

    Args:
        experiment: an `Experiment`, a table in the vocabulary of the experiment file, or the path of a TOML file;
            nothing means the paper.
        seeds: how many repetitions, with the seeds `seed`, `seed + 1`, ..., or a list of seeds such as [1, 2, 3].
        callbacks: who is told, and may stop an algorithm and seed: objects of `paota.Callback`, or functions that get
            every `paota.Round`.
        events_a_call: aggregations between two looks of the host, by default as many as take about a second; it
            changes no bit.

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
    """Run a plan. With `checkpoints` it goes on where they end; `stop` is asked all the time, and ends the run soon.

    `title` and `folder` are told to the callbacks.
    """
    from .schedule import Schedule  # JAX, only when something is computed

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
        with contextlib.suppress(CallbackError):  # there is a first failure to tell of
            group.end(None)
    return result


def _start(prepared: PreparedRun, title: str | None, folder: Path | None) -> Start:
    from ..models.base import score_name_of

    units = [
        RunUnit(label=c.label, algorithm=c.algorithm_name, seed=seed, rounds=len(prepared.timelines[c.label, seed]))
        for c, seed in prepared.units()
    ]
    return Start(
        experiment=prepared.experiment, title=title or prepared.experiment.name, units=units, folder=folder,
        score=score_name_of(prepared.model),
    )  # fmt: skip


def _result(prepared: PreparedRun, trajectories: Sequence[Trajectory], started: datetime) -> Result:
    from ..models.base import score_name_of
    from .schedule import learners_in_words

    recorded = min(recorded_devices(timeline) for timeline in prepared.timelines.values())
    whole = recorded >= min(int(t.device.max(initial=0)) + 1 for t in prepared.timelines.values())
    records = "all devices" if whole else f"devices 0 to {recorded - 1}: more would not fit"
    info = {
        **environment(started), "learner": learners_in_words(prepared), "score": score_name_of(prepared.model),
        "device_records": records,
    }  # fmt: skip
    return Result(experiment=prepared.experiment, trajectories=trajectories, info=info)


def identity(prepared: PreparedRun) -> dict[str, Any]:
    """What must not change between a checkpoint and its resumption, for the bits to be the same."""
    from .schedule import learners_in_words

    versions = {name: _version(name) for name in ("paota", "jax", "jaxlib", "optax")}
    versions["learner"] = learners_in_words(prepared)
    return {
        "format": checkpoint.FORMAT, **versions, "seeds": prepared.seeds, "experiment": prepared.experiment.to_dict(),
        "contents": fingerprints(prepared.experiment),
    }  # fmt: skip


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
