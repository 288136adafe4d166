"""The ServerApp of a deployment: every algorithm of the experiment in turn, in real time, into one run folder."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid

from .. import simulate
from ..air.downlink import AnalogDownlink
from ..base.bounded import read_regular
from ..base.errors import UserError, one_line
from ..base.files import read_json, to_toml, write_json, write_text
from ..base.system import only_one
from ..base.types import Table
from ..callbacks.base import Callback, CallbackError, Round
from ..callbacks.group import Group, stopping_rules
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..experiment.files import MAX_FILE_BYTES
from ..results.checkpoint import fingerprints
from ..results.folder import is_finished, new_folder, write_folder
from ..results.result import Result, Trajectory
from ..simulate.conditions import attendance_of, computing_latencies, conditions_of
from ..simulate.programs import Programs
from ..simulate.records import rounds_of, trajectory_of
from ..timing.virtual import TimelineInputs
from .aggregation import Aggregator
from .answers import Influence
from .flower_transport import FlowerTransport
from .history import Checkpoint, CheckpointFolder, History
from .processes import OUTCOME
from .server import DeployedServer
from .settings import Deployment, Pace
from .transport import Clock, RealClock

logger = logging.getLogger("paota.deploy")
CONTENTS = "contents.json"  # of an unfinished deployment: hashes of the files that its experiment names


def serve(
    grid: Grid, context: Context, folder: Path, *, clock: Clock | None = None,
    callbacks: Sequence[Callback | Callable[[Round], bool | None] | str] = (),
) -> Result:  # fmt: skip
    """Run the experiment in the app's `folder` on the devices of `grid`. Call it from `@app.main()`.

    Args:
        grid: Flower's connection to the nodes.
        context: Flower's context. Its run_config holds the settings of `Deployment`.
        folder: the folder of the app, with the experiment file.
        clock: the clock of the deployment; None: real time.
        callbacks: as for `paota.run`. A resumed deployment reports all rounds to them, from the first one.

    Returns:
        The result, which is also written into the run folder.
    """
    _log_to_flower()
    try:
        result, out = _serve(grid, context, folder, clock or RealClock(), callbacks)
    except Exception as error:
        known = isinstance(error, UserError)
        _report_outcome({"error": one_line(error if known else f"{type(error).__name__}: {error}")})
        raise
    _report_outcome({"folder": str(out.resolve())})
    logger.info("the run folder is %s", out.resolve())
    return result


def _report_outcome(outcome: dict[str, str]) -> None:
    """Write how the deployment ended into the file that its starter reads, if there is one."""
    if OUTCOME in os.environ:
        write_json(Path(os.environ[OUTCOME]), outcome)


def _serve(
    grid: Grid, context: Context, folder: Path, clock: Clock, callbacks: Sequence[object]
) -> tuple[Result, Path]:
    started = datetime.now(UTC)
    deployment = Deployment.from_run_config(context.run_config)
    experiment = deployment.load(folder)
    algorithms = deployment.chosen(experiment)
    prepared = simulate.prepare(dataclasses.replace(experiment, algorithms=tuple(algorithms)))
    experiment = prepared.experiment
    out = _out_folder(deployment, experiment)
    with only_one(out):
        programs = Programs(prepared)
        runs = [
            _Run(programs, entry, deployment, grid=grid, clock=clock, folder=CheckpointFolder(out / f"checkpoint-{i}"))
            for i, entry in enumerate(algorithms)
        ]
        log = _RoundLog({run.entry.label: 0 if run.saved is None else len(run.saved.history) for run in runs})
        group = Group([log, *callbacks], rules=stopping_rules(experiment.evaluation))
        try:
            group.start(simulate._start(prepared, None, out))
            trajectories = [run.go(group, wait_for_devices=run is not runs[-1]) for run in runs]
            info = {**simulate.environment(started), "deployment": _facts(deployment, experiment, runs)}
            result = Result(experiment=experiment, trajectories=trajectories, info=info)
            write_folder(result, out)
            group.end(result)
        finally:
            with suppress(CallbackError):  # an earlier failure is reported
                group.end(None)
        (out / CONTENTS).unlink(missing_ok=True)
        for run in runs:
            run.checkpoints.remove()
    return result, out


class _RoundLog(Callback):
    """One line of the log for each round. `known`: rounds that a checkpoint holds, by label; they are left out."""

    def __init__(self, known: Mapping[str, int]) -> None:
        self._known = known

    def round(self, round: Round) -> None:
        if round.round > self._known[round.label]:
            note = f"  accuracy {round.test_accuracy:.1%}" if round.evaluated else ""
            devices, staleness = (round.devices[name].tolist() for name in ("device", "staleness"))
            logger.info(
                "%s round %d  %.1f s  ready %s  staleness %s%s",
                round.label, round.round, round.time_s, devices, staleness, note,
            )  # fmt: skip


class _Run:
    """One algorithm, from its checkpoint if there is one."""

    last: Checkpoint  # once it has ended

    def __init__(
        self, programs: Programs, entry: AlgorithmConfig, deployment: Deployment, *, grid: Grid, clock: Clock,
        folder: CheckpointFolder,
    ) -> None:  # fmt: skip
        self.programs, self.prepared, self.entry, self.deployment = programs, programs.prepared, entry, deployment
        self.grid, self.clock, self.checkpoints = grid, clock, folder
        self.saved = folder.load()
        if self.saved is not None and self.saved.label != entry.label:
            raise UserError(
                f"'{folder.path}' belongs to '{self.saved.label}', not to '{entry.label}': choose another out"
            )
        experiment, self.seed = self.prepared.experiment, self.prepared.experiment.seed
        self.inputs = _timeline_inputs(self.prepared, entry)
        # Real devices took as long as they took. Costs that only the simulator models are left out.
        costs = self.prepared.costs[entry.label, self.seed]
        self.costs = dataclasses.replace(costs, attendance=None, downloads=None, block_s=0.0)
        counts_updates = entry.algorithm.scheme.counts_updates
        self.pace = Pace(
            rounds=None if counts_updates else experiment.horizon.rounds,
            updates=self.inputs.updates() if counts_updates else None,
            participants=self.inputs.participants(None),
            duration_s=experiment.horizon.duration_s,
            period_s=entry.timing.period_s,
            patience_s=deployment.patience * entry.timing.period_s,
            time_scale=deployment.time_scale,
            poll_real_s=max(deployment.poll_s, 0.02 * experiment.data.devices),  # at most 50 pulls per second
            join_real_s=deployment.join_s,
            min_devices=min(deployment.min_devices or experiment.data.devices, experiment.data.devices),
        )

    def go(self, group: Group, *, wait_for_devices: bool) -> Trajectory:
        """Run to the end, notify the callbacks in `group`, and return the tables."""
        saved, self.group = self.saved, group
        self.reported = 0  # rounds that were reported to the callbacks, round 0 included
        if saved is not None and saved.finished:
            self._notify(saved.history)
            self.last = saved
        else:
            if saved is not None:  # a device that has died since must not keep the others from continuing
                self.pace = dataclasses.replace(self.pace, min_devices=max(1, self.deployment.min_devices))
                logger.info("%s: resuming from version %d", self.entry.label, len(saved.history))
            server = self._server(saved)
            self.last = server.run(self.entry.algorithm.scheme, wait_for_devices=wait_for_devices)
        history = self.last.history
        trajectory = trajectory_of(
            self.prepared, self.entry, self.seed, history.timeline(), history.log(), history.initial,
            model=self.last.model, diverged_round=history.diverged_round, compute_s=self.last.compute_s,
            stopped_round=history.stopped_round, costs=self.costs,
        )  # fmt: skip
        group.finish(trajectory)
        if not trajectory.metrics["ready"].any():
            logger.warning(
                "%s: no device was ever ready, so nothing was learned: are they slower than the period, or stuck?",
                self.entry.label,
            )
        return trajectory

    def _server(self, saved: Checkpoint | None) -> DeployedServer:
        experiment, deployment = self.prepared.experiment, self.deployment
        aggregator = Aggregator(
            self.programs.problem(self.entry), self.programs.device_data(self.entry, self.seed), self.entry, self.seed
        )
        if saved is not None and saved.model.shape != aggregator.model.shape:
            raise UserError(f"'{self.checkpoints.path}' holds another model than the experiment: choose another out")
        post = FlowerTransport(
            self.grid, aggregator.layout, self.entry, devices=experiment.data.devices,
            # Flower may drop a message long after the server has given it up. Patience can grow with slow devices.
            ttl_s=10 * self.pace.patience_s * self.pace.time_scale + 600.0,
            latencies=self.inputs.latencies if deployment.emulate_latency else None, time_scale=deployment.time_scale,
            device_of_node=deployment.device_of_node,
        )  # fmt: skip
        return DeployedServer(
            aggregator=aggregator, post=post, clock=self.clock, pace=self.pace, seed=self.seed, label=self.entry.label,
            evaluate_every=self.prepared.evaluated_every[self.entry.label, self.seed],
            influence=Influence(deployment.max_influence), max_staleness=self.entry.guards.max_staleness,
            save=self.checkpoints.save, notify=self._notify, resume=saved,
        )  # fmt: skip

    def _notify(self, history: History) -> bool:
        """Report new rounds to the callbacks, as `paota.run` does. Return whether one of them wants to stop."""
        if self.reported > len(history):
            return False
        first = max(0, self.reported - 1)
        rounds = rounds_of(
            self.entry, self.seed, history.timeline(first), history.log(first),
            None if self.reported else history.initial, rounds=self.prepared.experiment.horizon.rounds or 0,
            num_parameters=self.programs.problem(self.entry).num_parameters, costs=self.costs,
        )  # fmt: skip
        self.reported = len(history) + 1
        reply = self.group.rounds(list(rounds))
        if reply.error:
            raise reply.error
        return reply.stop


def _timeline_inputs(prepared: simulate.PreparedRun, entry: AlgorithmConfig) -> TimelineInputs:
    """Return the durations that a deployment may emulate: trainings and transfers, but no faults and no absences."""
    experiment, downlink = prepared.experiment, entry.air.downlink
    if entry.faults.in_timeline:
        logger.warning(
            "[faults] in time (dropouts, stragglers, ...) are for the simulator: real devices have their own"
        )
    if isinstance(downlink, AnalogDownlink) or getattr(downlink, "broadcast_loss", None) is not None:
        logger.warning("noise and losses of air.downlink are for the simulator: real broadcasts have their own")
    devices, seed = experiment.data.devices, experiment.seed
    model, dataset, shards = prepared.model, prepared.dataset, prepared.shards[seed]
    attendance = attendance_of(entry.timing)
    if attendance is None:
        sound = dataclasses.replace(entry, faults=entry.faults.in_signals())
        return conditions_of(experiment, sound, seed, model=model, dataset=dataset, shards=shards).inputs
    logger.warning("timing.fleet_file sets how fast devices are; when they come and go is for the simulator")
    computing = computing_latencies(devices, entry, seed, attendance, model=model, dataset=dataset, shards=shards)
    return TimelineInputs(computing, entry.timing.period_s, experiment.horizon)


def _out_folder(deployment: Deployment, experiment: Experiment) -> Path:
    """Return the run folder: a new one, or one with checkpoints of the very same experiment."""
    out, text, now = Path(deployment.out), to_toml(experiment.to_dict()).encode(), fingerprints(experiment)
    held = {file.name for file in out.iterdir() if not file.name.startswith(".")} if out.is_dir() else set()
    others = {name for name in held if not name.startswith("checkpoint-")} - {"experiment.toml", CONTENTS}
    if others or not (deployment.resume and out.is_dir()):
        if is_finished(out):
            raise UserError(f"the folder '{out}' is a finished run: choose another out")
        new_folder(out)
    elif "experiment.toml" in held and read_regular(out / "experiment.toml", most=MAX_FILE_BYTES) != text:
        raise UserError(f"the checkpoint in '{out}' belongs to another experiment (compare its experiment.toml)")
    elif CONTENTS in held and (then := read_json(out / CONTENTS)) != now:
        changed = next(path for path in {**now, **then} if now.get(path) != then.get(path))
        raise UserError(f"the checkpoint in '{out}' was made with a different '{changed}'")
    write_text(out / "experiment.toml", text.decode())
    write_json(out / CONTENTS, now)
    return out


def _facts(deployment: Deployment, experiment: Experiment, runs: Sequence[_Run]) -> Table:
    """Return what `run.json` says of a deployment only."""
    return {
        "flwr": version("flwr"),
        "time_scale": deployment.time_scale,
        "emulate_latency": deployment.emulate_latency,
        "patience": deployment.patience,
        "devices": experiment.data.devices,
        "algorithms": {
            run.last.label: {
                "restarts": run.last.restarts,
                "lost_in_restarts": run.last.lost,
                "incidents": [dataclasses.asdict(incident) for incident in run.last.incidents],
            }
            for run in runs
        },
    }


def _log_to_flower() -> None:
    """Log into Flower's log, so that `flwr run --stream` and `flwr log` show it."""
    logger.setLevel(logging.INFO)
    for handler in logging.getLogger("flwr").handlers:
        if handler not in logger.handlers:
            logger.addHandler(handler)
