"""A run of one experiment: data, timelines, then the engine, for every algorithm and seed."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any  # callbacks are objects or functions

from ..base.errors import Interrupted, UserError, concise
from ..base.files import jsonable
from ..base.rng import Seeds, seed_numbers
from ..base.system import only_one, stop_on_ctrl_c
from ..base.types import Settings, Table
from ..callbacks.base import CallbackError, RunUnit, Start
from ..callbacks.group import Group, stopping_rules
from ..callbacks.notebook import NotebookBar, in_notebook
from ..callbacks.stream import LiveStream
from ..experiment.experiment import Experiment, as_experiment
from ..experiment.files import read_toml
from ..results import checkpoint
from ..results.checkpoint import Checkpoints, differences, fingerprints
from ..results.folder import (
    CHECKPOINTS,
    begin_folder,
    finish_folder,
    is_finished,
    load,
    read_unfinished,
    remove_leftovers,
)
from ..results.result import Result, Trajectory
from .preparation import PreparedRun, prepare
from .records import recorded_devices

__all__ = ["PreparedRun", "RunInterrupted", "environment", "execute", "identity", "prepare", "run"]


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C, or "interrupt" in a notebook, ended `paota.run`.

    Args:
        sentence: how to go on.
        result: the rounds until then, or None.
    """

    def __init__(self, sentence: str, result: Result | None) -> None:
        super().__init__(sentence)
        self.result = result


@concise
def run(
    experiment: Experiment | Settings | str | Path | None = None,
    *,
    seeds: Seeds | None = None,
    callbacks: Sequence[Any] = (),
    events_per_call: int | None = None,
    out: str | Path | None = None,
    resume: str | Path | None = None,
) -> Result:
    """Run an experiment and return its result. A notebook shows a progress bar.

    Args:
        experiment: an `Experiment`, a table in the vocabulary of the experiment file, or the path of a TOML file
            (default: the paper's experiment).
        seeds: number of repetitions, with the seeds `seed`, `seed + 1`, ..., or a list of seeds such as [1, 2, 3]
            (default: 1, or those of the run to resume).
        callbacks: objects of `paota.Callback`, or functions that get every `paota.Round`; they may stop a run.
        events_per_call: aggregations of one engine call (default: as many as take about a second); it changes no bit.
        out: a new folder for the results, from which an interrupted run can be resumed.
        resume: the folder of an interrupted run, which continues to the same bits; give the experiment again if it holds
            objects, such as a model.

    Returns:
        The trajectories of every algorithm and seed. Ctrl-C raises `paota.RunInterrupted`, whose `result` has the rounds
        until then.
    """
    if in_notebook() and not isinstance(callbacks, str) and not any(isinstance(c, NotebookBar) for c in callbacks):
        callbacks = [NotebookBar(), *callbacks]
    folder = None
    if resume is not None:
        if out is not None:
            raise UserError("resume continues in its own folder: give it without out")
        experiment, seeds = _unfinished(Path(resume), experiment, seeds)
        if is_finished(Path(resume)):
            remove_leftovers(Path(resume))
            return replace(load(resume), experiment=experiment)
        folder = Path(resume)
    prepared = prepare(as_experiment(experiment), seeds=1 if seeds is None else seeds)
    checkpoints = None
    folder = folder if out is None else begin_folder(out, prepared.experiment, prepared.seeds)
    if folder is not None:
        checkpoints, callbacks = Checkpoints(folder / CHECKPOINTS, identity(prepared)), [*callbacks, LiveStream()]
    try:
        with only_one(folder) if folder else contextlib.nullcontext(), stop_on_ctrl_c() as stop:
            result = execute(
                prepared, callbacks=callbacks, events_per_call=events_per_call, checkpoints=checkpoints, stop=stop,
                folder=folder,
            )  # fmt: skip
            if folder is not None:
                finish_folder(result, folder)
    except Interrupted as stopped:
        again = "" if folder is None else f", and paota.run(..., resume='{folder}') continues"
        raise RunInterrupted(
            f"interrupted: `result` of this error (in a notebook sys.last_value.result) has the rounds so far{again}",
            stopped.result if isinstance(stopped.result, Result) else None,
        ) from None
    return result


def _unfinished(
    folder: Path, experiment: Experiment | Settings | str | Path | None, seeds: Seeds | None
) -> tuple[Experiment, list[int]]:
    """Return experiment and seeds of a run to resume; refuse others than it began with."""
    numbers = load(folder).seeds if is_finished(folder) else read_unfinished(folder)
    file = folder / "experiment.toml"
    given = Experiment.from_file(file, trust_plugins=False) if experiment is None else as_experiment(experiment)
    now = {"seeds": numbers if seeds is None else seed_numbers(seeds, given.seed), "experiment": given.to_dict()}
    for name, mine, then in differences(jsonable(now), jsonable({"seeds": numbers, "experiment": read_toml(file)})):
        raise UserError(f"'{folder}' holds another run: {name} was {then} and is {mine}")
    return given, numbers


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
    except (CallbackError, Interrupted) as error:
        begun = [unit.trajectory() for unit in schedule.units if unit.kept]
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
