"""The server's half: every algorithm of the experiment in turn, in real time, into one run folder."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid

from .. import simulate
from ..air.downlink import AnalogDownlink
from ..base.bounded import read_regular
from ..base.errors import UserError, one_line
from ..base.files import read_json, to_toml, write_json, write_text
from ..base.system import only_one
from ..callbacks.base import Round
from ..callbacks.group import stopping_rules
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..results.checkpoint import fingerprints
from ..results.folder import write_folder
from ..results.result import Result
from ..simulate.conditions import attendance_of, computing_latencies, conditions_of
from ..simulate.programs import Programs
from ..timing.virtual import TimelineInputs
from .aggregation import Aggregator
from .clock import Clock, Pace, RealClock
from .flower_transport import FlowerTransport
from .history import Checkpoint, CheckpointFolder, History
from .influence import Influence
from .processes import OUTCOME
from .server import DeployedServer
from .settings import Deployment

logger = logging.getLogger("paota.deploy")
MAX_EXPERIMENT_BYTES = 2**24
CONTENTS = "contents.json"  # of an unfinished deployment: hashes of the files that its experiment names


def serve(grid: Grid, context: Context, folder: Path, *, clock: Clock | None = None) -> Result:
    """To be called from `@app.main()`: run the experiment in the app's `folder` on the devices of `grid`."""
    _log_to_flower()
    try:
        result, out = _serve(grid, context, folder, clock or RealClock())
    except Exception as error:
        known = isinstance(error, UserError)
        _tell_outcome({"error": one_line(error if known else f"{type(error).__name__}: {error}")})
        raise
    _tell_outcome({"folder": str(out.resolve())})
    logger.info("the run folder is %s", out.resolve())
    return result


def _tell_outcome(outcome: dict[str, str]) -> None:
    """Tell the process that has started this deployment, if there is one, how it ended."""
    if OUTCOME in os.environ:
        write_json(Path(os.environ[OUTCOME]), outcome)


def _serve(grid: Grid, context: Context, folder: Path, clock: Clock) -> tuple[Result, Path]:
    deployment = Deployment.from_run_config(context.run_config)
    experiment = deployment.load(folder)
    algorithms = deployment.chosen(experiment)
    prepared = simulate.prepare(dataclasses.replace(experiment, algorithms=tuple(algorithms)))
    out = _out_folder(deployment, prepared.experiment)
    with only_one(out):
        return _serve_into(out, prepared, grid, deployment, algorithms, clock), out


def _serve_into(
    out: Path,
    prepared: simulate.PreparedRun,
    grid: Grid,
    deployment: Deployment,
    algorithms: list[AlgorithmConfig],
    clock: Clock,
) -> Result:
    experiment = prepared.experiment
    started = datetime.now(UTC)
    programs = Programs(prepared)
    done, trajectories = [], []
    for i, entry in enumerate(algorithms):
        last_one = i == len(algorithms) - 1
        run = _Run(programs, entry, deployment, grid, clock, out / f"checkpoint-{i}")
        done.append(last := run.go(wait_for_devices=not last_one))
        trajectories.append(last.history.trajectory(prepared, entry, experiment.seed, last.model, last.compute_s))
        if not trajectories[-1].metrics["ready"].any():
            logger.warning(
                "%s: nobody was ever ready, so nothing was learned: are the devices slower than the period, or stuck?",
                entry.label,
            )
    info = {**simulate.environment(started), "deployment": _facts(deployment, experiment, done)}
    result = Result(experiment=prepared.experiment, trajectories=trajectories, info=info)
    write_folder(result, out)
    (out / CONTENTS).unlink(missing_ok=True)
    for i in range(len(algorithms)):
        CheckpointFolder(out / f"checkpoint-{i}").remove()
    return result


class _Run:
    """One algorithm, from its checkpoint if there is one."""

    def __init__(
        self, programs: Programs, entry: AlgorithmConfig, deployment: Deployment, grid: Grid, clock: Clock,
        path: Path,
    ) -> None:  # fmt: skip
        experiment = programs.prepared.experiment
        self.programs, self.prepared, self.entry, self.deployment = programs, programs.prepared, entry, deployment
        self.grid, self.clock, self.checkpoints = grid, clock, CheckpointFolder(path)
        self.inputs = _world(self.prepared, entry)
        counts_updates = entry.algorithm.scheme.counts_updates
        self.pace = Pace(
            rounds=None if counts_updates else experiment.horizon.rounds,
            updates=self.inputs.updates() if counts_updates else None,
            participants=self.inputs.participants(None),
            duration_s=experiment.horizon.duration_s,
            period_s=entry.timing.period_s,
            patience_s=deployment.patience * entry.timing.period_s,
            time_scale=deployment.time_scale,
            poll_real_s=max(deployment.poll_s, 0.02 * experiment.data.devices),  # at most 50 pulls a second
            join_real_s=deployment.join_s,
            min_devices=min(deployment.min_devices or experiment.data.devices, experiment.data.devices),
        )

    def go(self, *, wait_for_devices: bool) -> Checkpoint:
        saved = self.checkpoints.load()
        if saved is not None and saved.label != self.entry.label:
            raise UserError(
                f"'{self.checkpoints.path}' belongs to '{saved.label}', not to '{self.entry.label}': choose another out"
            )
        if saved is not None and saved.finished:
            return saved
        if saved is not None:  # a device that has died since must not keep the others from going on
            self.pace = dataclasses.replace(self.pace, min_devices=max(1, self.deployment.min_devices))
        server = self._server(saved)
        return server.run(self.entry.algorithm.scheme, wait_for_devices=wait_for_devices)

    def _server(self, saved: Checkpoint | None) -> DeployedServer:
        experiment, deployment = self.prepared.experiment, self.deployment
        seed = experiment.seed
        aggregator = Aggregator(
            self.programs.problem(self.entry), self.programs.device_data(self.entry, seed), self.entry, seed
        )
        if saved is not None and saved.model.shape != aggregator.model.shape:
            raise UserError(f"'{self.checkpoints.path}' holds another model than the experiment: choose another out")
        post = FlowerTransport(
            self.grid, aggregator.layout, self.entry, devices=experiment.data.devices,
            # The post may drop a message long after nobody waits for its answer; patience can grow with slow devices.
            ttl_s=10 * self.pace.patience_s * self.pace.time_scale + 600.0,
            latencies=self.inputs.latencies if deployment.emulate_latency else None, time_scale=deployment.time_scale,
            device_of_node=deployment.device_of_node,
        )  # fmt: skip
        if saved is not None:
            logger.info("%s: going on from version %d", self.entry.label, len(saved.history))
        return DeployedServer(
            aggregator=aggregator, post=post, clock=self.clock, pace=self.pace, seed=experiment.seed,
            label=self.entry.label, evaluate_every=self.prepared.evaluated_every[self.entry.label, experiment.seed],
            influence=Influence(deployment.max_influence), max_staleness=self.entry.guards.max_staleness,
            save=self.checkpoints.save, resume=saved, advanced=self._show(), wants_to_stop=self._stopping(),
        )  # fmt: skip

    def _stopping(self) -> Callable[[History], bool]:
        """Whether the rules of `[evaluation]` want to stop at a round; they are told every round once."""
        rules = stopping_rules(self.prepared.experiment.evaluation)
        told, wishes = 0, False

        def wants_to_stop(history: History) -> bool:
            nonlocal told, wishes
            accuracies = [history.initial[0], *(accuracy for accuracy, _, _ in history.evaluations)]
            for round in range(told, len(accuracies)):
                row = Round(
                    label=self.entry.label, algorithm=self.entry.algorithm_name, round=round,
                    seed=self.prepared.experiment.seed, rounds=self.prepared.experiment.horizon.rounds or 0,
                    metrics={"test_accuracy": accuracies[round]},
                )  # fmt: skip
                for rule in rules:  # each of them, whatever the others wish
                    wishes |= bool(rule.round(row))
            told = len(accuracies)
            return wishes

        return wants_to_stop

    def _show(self) -> Callable[[History], None]:
        shown = -1

        def show(history: History) -> None:
            nonlocal shown
            if len(history) == shown or not len(history):
                return
            shown = len(history)
            accuracy = history.evaluations[-1][0]
            note = "" if math.isnan(accuracy) else f"  accuracy {accuracy:.1%}"
            devices = history.participants[-1].device.tolist()
            staleness = (shown - 1 - history.participants[-1].version).tolist()
            logger.info(
                "%s round %d  %.1f s  ready %s  staleness %s%s",
                self.entry.label, shown, history.time_s[-1], devices, staleness, note,
            )  # fmt: skip

        return show


def _world(prepared: simulate.PreparedRun, entry: AlgorithmConfig) -> TimelineInputs:
    """How long things take that a deployment may emulate: trainings and transfers, but no faults and no absences."""
    experiment, downlink = prepared.experiment, entry.air.downlink
    if entry.faults.in_timeline:
        logger.warning(
            "dropouts, stragglers and the like in [faults] are for the simulator: real devices have their own"
        )
    if isinstance(downlink, AnalogDownlink) or getattr(downlink, "broadcast_loss", None) is not None:
        logger.warning("noise and losses of air.downlink are for the simulator: real broadcasts have their own")
    seen: Any = {"model": prepared.model, "dataset": prepared.dataset, "shards": prepared.shards[experiment.seed]}
    attendance = attendance_of(entry.timing)
    if attendance is None:
        sound = dataclasses.replace(entry, faults=entry.faults.in_signals())
        return conditions_of(experiment, sound, experiment.seed, **seen).inputs
    logger.warning("timing.fleet_file says how quick devices are; when they come and go is for the simulator")
    devices, seed = experiment.data.devices, experiment.seed
    quick = computing_latencies(devices, entry, seed, attendance, **seen)
    return TimelineInputs(quick, entry.timing.period_s, experiment.horizon)


def _out_folder(deployment: Deployment, experiment: Experiment) -> Path:
    """The run folder: new, or with checkpoints of the very same experiment."""
    out = Path(deployment.out)
    text = to_toml(experiment.to_dict())
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = [file.name for file in out.iterdir() if not file.name.startswith(".")]
    except OSError as error:
        raise UserError(f"cannot use the folder '{out}': {error.strerror}") from None
    going_on = deployment.resume and all(
        name.startswith("checkpoint-") or name in ("experiment.toml", CONTENTS) for name in held
    )
    if held and not going_on:
        hint = (
            "is a finished run"
            if "run.json" in held
            else "holds something already (resume=true goes on from a checkpoint)"
        )
        raise UserError(f"the folder '{out}' {hint}: choose another out")
    if (
        held
        and "experiment.toml" in held
        and read_regular(out / "experiment.toml", most=MAX_EXPERIMENT_BYTES) != text.encode()
    ):
        raise UserError(f"the checkpoint in '{out}' belongs to another experiment (compare its experiment.toml)")
    now = fingerprints(experiment)
    if CONTENTS in held and (then := read_json(out / CONTENTS)) != now:
        changed = next(path for path in {**now, **then} if now.get(path) != then.get(path))
        raise UserError(f"the checkpoint in '{out}' was made with other contents of '{changed}'")
    write_text(out / "experiment.toml", text)
    write_json(out / CONTENTS, now)
    return out


def _facts(deployment: Deployment, experiment: Experiment, done: list[Checkpoint]) -> dict[str, Any]:
    """What only a deployment can tell, for run.json."""
    return {
        "flwr": version("flwr"),
        "time_scale": deployment.time_scale,
        "emulate_latency": deployment.emulate_latency,
        "patience": deployment.patience,
        "devices": experiment.data.devices,
        "algorithms": {
            c.label: {
                "restarts": c.restarts,
                "lost_in_restarts": c.lost,
                "incidents": [dataclasses.asdict(incident) for incident in c.incidents],
            }
            for c in done
        },
    }


def _log_to_flower() -> None:
    """Into Flower's log, so that `flwr run --stream` and `flwr log` show it."""
    flower = logging.getLogger("flwr")
    logger.setLevel(logging.INFO)
    for handler in flower.handlers:
        if handler not in logger.handlers:
            logger.addHandler(handler)
