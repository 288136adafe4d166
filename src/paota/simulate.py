"""One experiment from settings to result: data, timelines, then the engine, algorithm by algorithm and seed by seed."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import settings
from .data import Dataset, Shards, load_dataset
from .errors import UserError
from .experiment import Contestant, Experiment, as_experiment
from .files import Columns
from .results import Result, Trajectory
from .rng import Purpose, host_rng
from .timing import Latencies, Timeline

EVENTS_A_CALL = 10


class Progress(Protocol):
    """What the host may tell a watcher; every method may do nothing."""

    def compiling(self, label: str) -> None: ...
    def compiled(self, label: str, seconds: float) -> None: ...
    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None: ...
    def finished(self, trajectory: Trajectory) -> None: ...


class Silent:
    def compiling(self, label: str) -> None: ...
    def compiled(self, label: str, seconds: float) -> None: ...
    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None: ...
    def finished(self, trajectory: Trajectory) -> None: ...


@dataclass(frozen=True)
class Plan:
    """The weight-independent half of an experiment: who holds what, and who takes part when."""

    experiment: Experiment
    dataset: Dataset
    seeds: tuple[int, ...]
    shards: Mapping[int, Shards]  # by seed
    timelines: Mapping[tuple[str, int], Timeline]  # by (label, seed)
    judged_every: Mapping[str, int]  # events between evaluations, by label

    def units(self) -> Iterator[tuple[Contestant, int]]:
        for contestant in self.experiment.contestants:
            for seed in self.seeds:
                yield contestant, seed


def run(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    seeds: int = 1,
    progress: Progress | None = None,
    events_a_call: int = EVENTS_A_CALL,
) -> Result:
    """Run an experiment (an `Experiment`, a table, a TOML file; nothing means the paper) with `seeds` repetitions."""
    return execute(plan(as_experiment(experiment), seeds=seeds), progress=progress, events_a_call=events_a_call)


def plan(experiment: Experiment, *, seeds: int = 1) -> Plan:
    """Everything that can be known, and refused, before the first computation."""
    from .algorithms import World

    if seeds < 1:
        raise UserError(f"seeds must be at least 1, not {seeds}")
    dataset = load_dataset(experiment.data.dataset, base=experiment.base)
    data = experiment.data
    shards, timelines, judged_every = {}, {}, {}
    numbers = tuple(range(experiment.seed, experiment.seed + seeds))
    for seed in numbers:
        rng = host_rng(seed, Purpose.PARTITION)
        shards[seed] = data.partition(dataset.y_train, devices=data.devices, rng=rng)
        for contestant in experiment.contestants:
            latencies = Latencies(contestant.timing.latency, devices=data.devices, seed=seed)
            world = World(latencies, contestant.timing.period_s, experiment.horizon)
            timeline = contestant.algorithm.timeline(world)
            if not len(timeline):
                raise UserError(f"'{contestant.label}' makes no aggregation before the end: raise rounds or duration_s")
            timelines[contestant.label, seed] = timeline
            # One arrival an event would be judged far too often: keep about as many device updates between two looks.
            events = world.match_participants() / max(timeline.ready.mean(), 1e-9)
            judged_every[contestant.label] = experiment.evaluation.every * max(1, round(events))
    return Plan(experiment, dataset, numbers, shards, timelines, judged_every)


def execute(plan: Plan, *, progress: Progress | None = None, events_a_call: int = EVENTS_A_CALL) -> Result:
    started = datetime.now(UTC)
    simulator = Simulator(plan, progress or Silent(), events_a_call)
    trajectories = [simulator.trajectory(contestant, seed) for contestant, seed in plan.units()]
    return Result(experiment=plan.experiment, trajectories=trajectories, info=environment(started))


class Simulator:
    """Runs the units (algorithm, seed) of a plan on the engine; programs are shared between seeds."""

    def __init__(self, plan: Plan, progress: Progress, events_a_call: int) -> None:
        self.plan, self.progress, self.events_a_call = plan, progress, events_a_call
        self._compiled: dict[int, Any] = {}
        self._fleets: dict[int, Any] = {}

    def trajectory(self, contestant: Contestant, seed: int) -> Trajectory:
        import jax
        import jax.numpy as jnp

        from . import engine

        program = self._program(contestant)
        fleet = self._fleet(seed)
        rule = _rule(contestant)
        timeline = self.plan.timelines[contestant.label, seed]
        evaluate = _evaluate_flags(len(timeline), self.plan.judged_every[contestant.label])
        numbers = {name: jnp.asarray(value, float) for name, value in settings.floats(rule).items()}
        root = jax.random.key(seed)

        model = program.initial_model(seed)
        state = program.initial_state(model)
        first_judgement = [float(v) for v in program.judge(model, fleet)]
        logs: list[Any] = []
        compute_s, done, diverged = 0.0, 0, None
        while done < len(timeline) and diverged is None:
            rows, count = engine.rows_of(timeline, done, program.shape, evaluate)
            arguments = (numbers, root, fleet, state, rows, np.int32(count))
            step = self._compile(contestant, program, arguments)
            begin = time.perf_counter()
            state, log = jax.block_until_ready(step(*arguments))
            compute_s += time.perf_counter() - begin
            log = jax.tree.map(lambda column, n=count: np.asarray(column)[:n], log)
            logs.append(log)
            if not log.finite.all():
                diverged = done + int(np.flatnonzero(~log.finite)[0]) + 1
            done += count
            self.progress.advanced(contestant.label, seed, done, len(timeline), _last_known(log.test_accuracy))
        log = jax.tree.map(lambda *parts: np.concatenate(parts), *logs)
        finished = Trajectory(
            label=contestant.label,
            algorithm=contestant.algorithm_name,
            seed=seed,
            metrics=_metrics(timeline, log, first_judgement, contestant.power.max_power_w),
            devices=_device_records(timeline, log),
            model=np.asarray(state.ring[done % program.shape.versions]),
            diverged_round=diverged,
            compute_s=compute_s,
        )
        self.progress.finished(finished)
        return finished

    def _program(self, contestant: Contestant) -> Any:
        """Sized for the largest event and the greatest staleness over all seeds, so that it is compiled once."""
        from . import engine

        timelines = [self.plan.timelines[contestant.label, seed] for seed in self.plan.seeds]
        shape = engine.Shape(
            input_shape=tuple(self.plan.dataset.input_shape),
            num_classes=self.plan.dataset.num_classes,
            max_ready=max(1, *(int(t.ready.max(initial=0)) for t in timelines)),
            versions=max(2, *(t.max_staleness + 1 for t in timelines)),
            events=min(self.events_a_call, max(len(t) for t in timelines)),
            train_loss=self.plan.experiment.evaluation.train_loss,
        )
        return engine.program_for(_rule(contestant), self.plan.experiment.model, shape)

    def _compile(self, contestant: Contestant, program: Any, arguments: tuple[Any, ...]) -> Any:
        if id(program) not in self._compiled:
            self.progress.compiling(contestant.label)
            begin = time.perf_counter()
            self._compiled[id(program)] = program.compile(*arguments)
            self.progress.compiled(contestant.label, time.perf_counter() - begin)
        return self._compiled[id(program)]

    def _fleet(self, seed: int) -> Any:
        """The data on the JAX device. Shards of all seeds are padded to one length, again to compile once."""
        import jax.numpy as jnp

        from . import engine

        if seed not in self._fleets:
            dataset, shards = self.plan.dataset, self.plan.shards[seed]
            longest = max(len(s.indices) for s in self.plan.shards.values())
            share = np.bincount(shards.indices, minlength=len(dataset.y_train)) / len(shards.indices)
            if not self._fleets:
                self._samples = tuple(
                    jnp.asarray(a) for a in (dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test)
                )
            self._fleets.clear()  # one seed at a time: memory does not grow with the number of seeds
            self._fleets[seed] = engine.Fleet(
                *self._samples,
                shard_indices=jnp.asarray(np.pad(shards.indices, (0, longest - len(shards.indices)))),
                shard_offsets=jnp.asarray(shards.offsets[:-1].astype(np.int32)),
                shard_sizes=jnp.asarray(shards.sizes.astype(np.int32)),
                sample_weight=jnp.asarray(share, float),
            )
        return self._fleets[seed]


def _rule(contestant: Contestant) -> Any:
    from .engine import Rule

    c = contestant
    return Rule(algorithm=c.algorithm, training=c.training, air=c.air, power=c.power)


def _evaluate_flags(events: int, every: int) -> NDArray[np.bool_]:
    """Every `every`-th version and the last one."""
    flags = (np.arange(events) + 1) % every == 0
    flags[-1] = True
    return flags


def _last_known(values: NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else math.nan


def _metrics(timeline: Timeline, log: Any, initial: list[float], max_power_w: float) -> Columns:
    """One row a version: row 0 is the initial model, row r the model after r aggregations."""
    events = len(log.finite)
    ready = timeline.ready[:events]
    mask = np.arange(log.weight.shape[1]) < ready[:, None]
    staleness = np.zeros(mask.shape)
    staleness[mask] = timeline.staleness[: ready.sum()]
    over = np.where(np.isnan(log.transmit_power_w), np.nan, log.transmit_power_w > max_power_w * (1 + 1e-5))

    def column(first: float, rest: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([[first], np.asarray(rest, dtype=float)])

    return {
        "round": np.arange(events + 1),
        "time_s": column(0.0, timeline.time_s[:events]),
        "ready": np.concatenate([[0], ready]),
        "test_accuracy": column(initial[0], log.test_accuracy),
        "test_loss": column(initial[1], log.test_loss),
        "train_loss": column(initial[2], log.train_loss),
        "staleness_mean": column(math.nan, _over_ready(staleness, mask, "mean")),
        "staleness_max": column(math.nan, _over_ready(staleness, mask, "max")),
        "power_sum": column(math.nan, _over_ready(log.amplitude, mask, "sum")),
        "weight_square_sum": column(math.nan, _over_ready(log.weight.astype(float) ** 2, mask, "sum")),
        "noise_std": column(math.nan, log.noise_std),
        "transmit_w_mean": column(math.nan, _over_ready(log.transmit_power_w, mask, "mean")),
        "transmit_w_max": column(math.nan, _over_ready(log.transmit_power_w, mask, "max")),
        "over_budget": column(math.nan, _over_ready(over, mask, "mean")),
    }


def _over_ready(values: NDArray[Any], mask: NDArray[np.bool_], how: str) -> NDArray[Any]:
    """Sum, mean or maximum over the devices of each event; NaN where nobody was ready."""
    count = mask.sum(axis=1)
    kept = np.where(mask, values, -np.inf if how == "max" else 0.0)
    total = kept.max(axis=1) if how == "max" else kept.sum(axis=1)
    total = total / np.maximum(count, 1) if how == "mean" else total
    return np.where(count > 0, total, np.nan)


def _device_records(timeline: Timeline, log: Any) -> Columns:
    events = len(log.finite)
    ready = timeline.ready[:events]
    n = int(ready.sum())
    mask = np.arange(log.weight.shape[1]) < ready[:, None]
    return {
        "round": timeline.event[:n] + 1,
        "device": timeline.device[:n],
        "version": timeline.version[:n],
        "staleness": timeline.staleness[:n],
        "start_s": timeline.start_s[:n],
        "finish_s": timeline.finish_s[:n],
        "time_s": timeline.time_s[timeline.event[:n]],
        "power": log.amplitude[mask],
        "weight": log.weight[mask],
        "similarity": log.similarity[mask],
        "transmit_w": log.transmit_power_w[mask],
    }


def environment(started: datetime) -> dict[str, Any]:
    """What somebody needs to know to run it again."""
    versions = {}
    for package in ("paota", "jax", "jaxlib", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {
        **versions,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "started": started.isoformat(timespec="seconds"),
    }
