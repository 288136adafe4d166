"""The server's half: every algorithm of the experiment in turn, in real time, into one run folder."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid

from .. import simulate
from ..air.downlink import AnalogDownlink
from ..callbacks.base import Round
from ..callbacks.stopping import stopping_rules
from ..errors import UserError
from ..experiment import Contestant, Experiment
from ..runs.contents import fingerprints
from ..runs.files import read_json, to_toml, write_json, write_text
from ..runs.folder import write_folder
from ..runs.lock import only_one
from ..runs.results import Result
from ..simulate.schedule import Schedule
from ..simulate.surroundings import attendance_of, computing_latencies, surroundings
from ..timing.oldest import OldestFirst
from ..timing.schemes import Buffered, Grouped, ShareReady, Synchronous, Tiered, World
from ..timing.tiers import Tiers
from .aggregation import Aggregator
from .coordinator import Coordinator
from .deployment import Deployment, scheme_of
from .grid import FlowerPost
from .history import Checkpoint, CheckpointFolder, History
from .influence import Influence
from .pace import Clock, Pace, RealClock

logger = logging.getLogger("paota.flower")
CONTENTS = "contents.json"  # of an unfinished deployment: hashes of the files that its experiment names


def serve(grid: Grid, context: Context, folder: Path, *, clock: Clock | None = None) -> Result:
    """To be called from `@app.main()`: run the experiment in the app's `folder` on the devices of `grid`."""
    _log_to_flower()
    deployment = Deployment.from_run_config(context.run_config)
    experiment = deployment.load(folder)
    contestants = deployment.contestants(experiment)
    plan = simulate.plan(dataclasses.replace(experiment, contestants=tuple(contestants)))
    out = _out_folder(deployment, plan.experiment)
    with only_one(out):
        return _serve_into(out, plan, grid, deployment, contestants, clock or RealClock())


def _serve_into(
    out: Path, plan: simulate.Plan, grid: Grid, deployment: Deployment, contestants: list[Contestant], clock: Clock
) -> Result:
    experiment = plan.experiment
    started = datetime.now(UTC)
    schedule = Schedule(plan)
    done, trajectories = [], []
    for i, contestant in enumerate(contestants):
        last_one = i == len(contestants) - 1
        run = _Run(schedule, contestant, deployment, grid, clock, out / f"checkpoint-{i}")
        done.append(last := run.go(wait_for_devices=not last_one))
        trajectories.append(last.history.trajectory(plan, contestant, experiment.seed, last.model, last.compute_s))
        if not trajectories[-1].metrics["ready"].any():
            logger.warning(
                "%s: nobody was ever ready, so nothing was learned: are the devices slower than the period, or stuck?",
                contestant.label,
            )
    info = {**simulate.environment(started), "deployment": _facts(deployment, experiment, done)}
    result = Result(experiment=plan.experiment, trajectories=trajectories, info=info)
    write_folder(result, out)
    (out / CONTENTS).unlink(missing_ok=True)
    for i in range(len(contestants)):
        CheckpointFolder(out / f"checkpoint-{i}").remove()
    logger.info("the run folder is %s", out.resolve())
    return result


class _Run:
    """One algorithm, from its checkpoint if there is one."""

    def __init__(
        self, schedule: Schedule, contestant: Contestant, deployment: Deployment, grid: Grid, clock: Clock,
        path: Path,
    ) -> None:  # fmt: skip
        experiment = schedule.plan.experiment
        self.schedule, self.plan, self.contestant, self.deployment = schedule, schedule.plan, contestant, deployment
        self.grid, self.clock, self.checkpoints = grid, clock, CheckpointFolder(path)
        self.world = _world(self.plan, contestant)
        self.pace = Pace(
            rounds=experiment.horizon.rounds,
            duration_s=experiment.horizon.duration_s,
            period_s=contestant.timing.period_s,
            patience_s=deployment.patience * contestant.timing.period_s,
            time_scale=deployment.time_scale,
            poll_real_s=max(deployment.poll_s, 0.02 * experiment.data.devices),  # at most 50 pulls a second
            join_real_s=deployment.join_s,
            min_devices=min(deployment.min_devices or experiment.data.devices, experiment.data.devices),
        )

    def go(self, *, wait_for_devices: bool) -> Checkpoint:
        saved = self.checkpoints.load()
        if saved is not None and saved.label != self.contestant.label:
            raise UserError(
                f"'{self.checkpoints.path}' belongs to '{saved.label}', not to '{self.contestant.label}': choose another out"
            )
        if saved is not None and saved.finished:
            return saved
        if saved is not None:  # a device that has died since must not keep the others from going on
            self.pace = dataclasses.replace(self.pace, min_devices=max(1, self.deployment.min_devices))
        coordinator = self._coordinator(saved)
        scheme = scheme_of(self.contestant)
        world = self.world
        if isinstance(scheme, Synchronous):
            coordinator.synchronous(scheme.size(world), scheme.selected, scheme.deadline_s)
        elif isinstance(scheme, OldestFirst):
            coordinator.synchronous(scheme.busy_at_once(world), oldest=True)
        elif isinstance(scheme, Buffered):
            updates = world.match_updates()
            coordinator.buffered(scheme.buffer_size, updates and math.ceil(updates / scheme.buffer_size))
        elif isinstance(scheme, ShareReady):
            coordinator.share_ready(scheme.count(world.latencies.devices), world.match_updates())
        elif isinstance(scheme, Grouped | Tiers):
            coordinator.grouped(min(scheme.groups, world.latencies.devices), world.match_updates())
        else:
            coordinator.periodic(tiered=isinstance(scheme, Tiered))
        return coordinator.finish(wait_for_devices=wait_for_devices)

    def _coordinator(self, saved: Checkpoint | None) -> Coordinator:
        experiment, deployment = self.plan.experiment, self.deployment
        seed = experiment.seed
        aggregator = Aggregator(
            self.schedule.task(self.contestant), self.schedule.fleet(self.contestant, seed), self.contestant, seed
        )
        if saved is not None and saved.model.shape != aggregator.initial_model.shape:
            raise UserError(f"'{self.checkpoints.path}' holds another model than the experiment: choose another out")
        post = FlowerPost(
            self.grid, aggregator.layout, self.contestant, devices=experiment.data.devices,
            # The post may drop a message long after nobody waits for its answer; patience can grow with slow devices.
            ttl_s=10 * self.pace.patience_s * self.pace.time_scale + 600.0,
            latencies=self.world.latencies if deployment.emulate_latency else None, time_scale=deployment.time_scale,
            device_of_node=deployment.device_of_node,
        )  # fmt: skip
        if saved is not None:
            logger.info("%s: going on from version %d", self.contestant.label, len(saved.history))
        return Coordinator(
            aggregator=aggregator, post=post, clock=self.clock, pace=self.pace, seed=experiment.seed,
            label=self.contestant.label, judge_every=self.plan.judged_every[self.contestant.label, experiment.seed],
            influence=Influence(deployment.max_influence), max_staleness=self.contestant.guards.max_staleness,
            save=self.checkpoints.save, resume=saved, advanced=self._show(), wants_to_stop=self._stopping(),
        )  # fmt: skip

    def _stopping(self) -> Callable[[History], bool]:
        """Whether the rules of `[evaluation]` want to stop at a round; they are told every round once."""
        rules = stopping_rules(self.plan.experiment.evaluation)
        told, wishes = 0, False

        def wants_to_stop(history: History) -> bool:
            nonlocal told, wishes
            accuracies = [history.initial[0], *(accuracy for accuracy, _, _ in history.judged)]
            for round in range(told, len(accuracies)):
                row = Round(
                    label=self.contestant.label, algorithm=self.contestant.algorithm_name, round=round,
                    seed=self.plan.experiment.seed, rounds=self.plan.experiment.horizon.rounds or 0,
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
            accuracy = history.judged[-1][0]
            note = "" if math.isnan(accuracy) else f"  accuracy {accuracy:.1%}"
            devices = history.participants[-1].device.tolist()
            staleness = (shown - 1 - history.participants[-1].version).tolist()
            logger.info(
                "%s round %d  %.1f s  ready %s  staleness %s%s",
                self.contestant.label, shown, history.time_s[-1], devices, staleness, note,
            )  # fmt: skip

        return show


def _world(plan: simulate.Plan, contestant: Contestant) -> World:
    """How long things take that a deployment may emulate: trainings and transfers, but no faults and no absences."""
    experiment, downlink = plan.experiment, contestant.air.downlink
    if contestant.faults.in_timeline:
        logger.warning(
            "dropouts, stragglers and the like in [faults] are for the simulator: real devices have their own"
        )
    if isinstance(downlink, AnalogDownlink) or getattr(downlink, "broadcast_loss", None) is not None:
        logger.warning("noise and losses of air.downlink are for the simulator: real broadcasts have their own")
    seen: Any = {"model": plan.model, "dataset": plan.dataset, "shards": plan.shards[experiment.seed]}
    attendance = attendance_of(contestant.timing)
    if attendance is None:
        sound = dataclasses.replace(contestant, faults=contestant.faults.in_signals())
        return surroundings(experiment, sound, experiment.seed, **seen).world
    logger.warning("timing.fleet_file says how quick devices are; when they come and go is for the simulator")
    devices, seed = experiment.data.devices, experiment.seed
    quick = computing_latencies(devices, contestant, seed, attendance, **seen)
    return World(quick, contestant.timing.period_s, experiment.horizon)


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
    if held and "experiment.toml" in held and (out / "experiment.toml").read_text(encoding="utf-8") != text:
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
