"""One experiment from settings to result: data, timelines, then the engine, for every algorithm and seed.

Algorithms and seeds run side by side on the cores of the machine: while one draws, or decides on powers, another trains.
No draw and no bit depends on the company. (Seeds batched into one program were slower, and changed the last bits.)
"""

from __future__ import annotations

import functools
import math
import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import settings
from ..errors import Interrupted, UserError
from ..experiment import Contestant, Experiment, as_experiment
from ..runs import checkpoint
from ..runs.checkpoint import Checkpoints, Saved
from ..runs.results import Result, Trajectory
from ..timing.timeline import Timeline
from .planning import Plan, plan, uploads_of
from .records import device_records_of, metrics_of, recorded_devices, spending_of

__all__ = ["Plan", "Progress", "Silent", "Simulator", "environment", "execute", "identity", "plan", "run"]

EVENTS_A_CALL = 10


class Progress(Protocol):
    """What the host may tell a watcher; every method may do nothing. Never called by two threads at once."""

    def compiling(self, label: str) -> None: ...
    def compiled(self, label: str, seconds: float) -> None: ...
    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None: ...
    def finished(self, trajectory: Trajectory) -> None: ...


class Silent:
    def compiling(self, label: str) -> None: ...
    def compiled(self, label: str, seconds: float) -> None: ...
    def advanced(self, label: str, seed: int, round: int, rounds: int, accuracy: float) -> None: ...
    def finished(self, trajectory: Trajectory) -> None: ...


def run(
    experiment: Experiment | Mapping[str, Any] | str | Path | None = None,
    *,
    seeds: int = 1,
    progress: Progress | None = None,
    events_a_call: int = EVENTS_A_CALL,
) -> Result:
    """Run an experiment (an `Experiment`, a table, a TOML file; nothing means the paper) with `seeds` repetitions."""
    return execute(plan(as_experiment(experiment), seeds=seeds), progress=progress, events_a_call=events_a_call)


def execute(
    plan: Plan,
    *,
    progress: Progress | None = None,
    events_a_call: int = EVENTS_A_CALL,
    checkpoints: Checkpoints | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Result:
    """Run a plan. With `checkpoints` it goes on where they end; `stop` is asked after every engine call."""
    started = datetime.now(UTC)
    simulator = Simulator(plan, progress or Silent(), events_a_call, checkpoints, stop)
    simulator.compile_ahead()
    trajectories = simulator.trajectories()
    recorded = min(recorded_devices(timeline) for timeline in plan.timelines.values())
    whole = recorded >= min(int(t.device.max(initial=0)) + 1 for t in plan.timelines.values())
    records = "all devices" if whole else f"devices 0 to {recorded - 1}: more would not fit"
    info = {**environment(started), "learner": simulator.learner[1], "device_records": records}
    return Result(experiment=plan.experiment, trajectories=trajectories, info=info)


def identity(plan: Plan) -> dict[str, Any]:
    """What must not change between a checkpoint and its resumption, for the bits to be the same."""
    from ..training.learner import choose

    versions = {name: _version(name) for name in ("paota", "jax", "jaxlib")}
    versions["learner"] = choose(plan.experiment.model, plan.dataset.x_train, plan.dataset.num_classes)[1]
    return {"format": checkpoint.FORMAT, **versions, "seeds": plan.seeds, "experiment": plan.experiment.to_dict()}


class Simulator:
    """Runs the units (algorithm, seed) of a plan on the engine; programs are shared between seeds."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        events_a_call: int,
        checkpoints: Checkpoints | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.plan, self.progress, self.events_a_call = plan, progress, events_a_call
        self.checkpoints, self.stop = checkpoints, stop
        self._compiled: dict[int, Any] = {}
        self._fleets: dict[tuple[int, Any], Any] = {}
        self._shared = threading.RLock()  # for data, the clock and the watcher
        self._compiling = threading.Lock()
        self._abandoned = threading.Event()
        self._computing, self._clock_s, self._read = 0, 0.0, time.perf_counter()

    @functools.cached_property
    def learner(self) -> tuple[Any, str]:
        """What trains and judges, and one line that says which and why."""
        from ..training.learner import choose

        return choose(self.plan.experiment.model, self.plan.dataset.x_train, self.plan.dataset.num_classes)

    def compile_ahead(self) -> None:
        """Compile the programs of all algorithms side by side, which a machine with several cores does sooner."""
        import jax

        from .. import engine

        contestants, seed = self.plan.experiment.contestants, self.plan.seeds[0]
        if len(contestants) == 1 or jax.device_count() > 1 or (self.checkpoints and self.checkpoints.load(0)):
            return  # nothing to gain, or processes that must all do the same, or a resumed run that may need few of them
        fleet = self._fleet(seed, self.learner[0])
        compiling: dict[int, tuple[str, Future[tuple[Any, float]]]] = {}
        with ThreadPoolExecutor(cores()) as pool:
            for contestant in contestants:
                program = self._program(contestant)
                if id(program) in compiling:
                    continue
                numbers = {k: jax.numpy.asarray(v, float) for k, v in settings.floats(_rule(contestant)).items()}
                state = jax.eval_shape(lambda p=program: p.initial_state(p.initial_model(seed)))
                timeline = self.plan.timelines[contestant.label, seed]
                rows, count = engine.rows_of(timeline, 0, program.shape, np.zeros(len(timeline), bool))
                arguments = (numbers, jax.random.key(seed), fleet, state, rows, np.int32(count))
                self.progress.compiling(contestant.label)
                compiling[id(program)] = contestant.label, pool.submit(_as_here(_timed), program.compile, arguments)
        for key, (label, future) in compiling.items():
            self._compiled[key], seconds = future.result()
            self.progress.compiled(label, seconds)

    def trajectories(self) -> list[Trajectory]:
        """Of all units, in the order of the plan. The first failure, or a wish to stop, ends them all."""
        units = list(enumerate(self.plan.units()))
        if self.side_by_side == 1:
            return [self.trajectory(unit, *parts) for unit, parts in units]
        with ThreadPoolExecutor(self.side_by_side) as pool:
            futures = [pool.submit(_as_here(self._one_of_many), unit, *parts) for unit, parts in units]
            try:
                wait(futures)
            except BaseException:
                self._abandoned.set()
                raise
        failures = [failure for future in futures if (failure := future.exception())]
        for failure in sorted(failures, key=lambda failure: isinstance(failure, Interrupted)):
            raise failure  # the reason rather than those who stopped because of it
        return [future.result() for future in futures]

    def _one_of_many(self, unit: int, contestant: Contestant, seed: int) -> Trajectory:
        if self._abandoned.is_set():
            raise Interrupted
        try:
            return self.trajectory(unit, contestant, seed)
        except BaseException:
            self._abandoned.set()
            raise

    @functools.cached_property
    def side_by_side(self) -> int:
        """Units that run at once: one a core, unless they share their devices, or would not fit into memory together."""
        import jax

        from .. import engine

        units = sum(1 for _ in self.plan.units())
        if units == 1 or jax.default_backend() != "cpu" or jax.device_count() > 1:
            return 1
        shapes = [self._program(contestant).shape for contestant in self.plan.experiment.contestants]
        if any(shape.block for shape in shapes):
            return 1
        most_bytes = max(engine.row_bytes(self._num_parameters) * shape.max_ready for shape in shapes)
        return max(1, min(units, cores(), engine.HELD_BYTES // most_bytes))

    def trajectory(self, unit: int, contestant: Contestant, seed: int) -> Trajectory:
        import jax
        import jax.numpy as jnp

        from .. import engine

        program = self._program(contestant)
        fleet = self._fleet(seed, self.learner[0])
        rule = _rule(contestant)
        timeline = self.plan.timelines[contestant.label, seed]
        evaluate = _evaluate_flags(len(timeline), self.plan.judged_every[contestant.label])
        numbers = {name: jnp.asarray(value, float) for name, value in settings.floats(rule).items()}
        root = jax.random.key(seed)

        model = program.initial_model(seed)
        first_judgement = [float(v) for v in program.judge(model, fleet)]
        state, logs, done, compute_s = self._begin(unit, program.initial_state(model))
        saved = done
        while done < len(timeline) and not _diverged(logs):
            rows, count = engine.rows_of(timeline, done, program.shape, evaluate)
            arguments = program.place((numbers, root, fleet, state, rows, np.int32(count)))
            step = self._compile(contestant, program, arguments)
            begin = self._share(+1)
            try:
                state, log = jax.block_until_ready(step(*arguments))
            finally:
                compute_s += self._share(-1) - begin
            logs.append(_up_to_divergence(jax.tree.map(lambda column, n=count: np.asarray(column)[:n], log)))
            done += len(logs[-1].finite)
            with self._shared:
                self.progress.advanced(contestant.label, seed, done, len(timeline), _last_known(logs[-1].test_accuracy))
            stopping = self.stop() or self._abandoned.is_set()
            if self.checkpoints and (self.checkpoints.due(unit) or stopping):
                self._save(unit, state, logs, saved := done, compute_s)
            if stopping:
                raise Interrupted
        if self.checkpoints and saved < done:
            self._save(unit, state, logs, done, compute_s)
        log = jax.tree.map(lambda *parts: np.concatenate(parts), *logs)
        last = np.asarray(state.ring[done % program.shape.versions])
        diverged = done if _diverged(logs) else None
        finished = self.record(contestant, seed, timeline, log, first_judgement, last, diverged, compute_s)
        with self._shared:
            self.progress.finished(finished)
        return finished

    def _share(self, change: int) -> float:
        """A clock that runs as many times slower as there are units computing; `change` begins or ends one of them."""
        with self._shared:
            now = time.perf_counter()
            self._clock_s += (now - self._read) / max(self._computing, 1)
            self._read, self._computing = now, self._computing + change
            return self._clock_s

    def record(
        self, contestant: Contestant, seed: int, timeline: Timeline, log: Any, initial: list[float], model: NDArray[Any],
        diverged: int | None, compute_s: float,
    ) -> Trajectory:  # fmt: skip
        """The tables of what has happened; a deployment (`paota.flower`) makes its own with it."""
        uploads = uploads_of(self.plan.experiment, contestant, self.plan.dataset, seed)
        spent = spending_of(contestant, timeline, log, len(model), uploads)
        return Trajectory(
            label=contestant.label,
            algorithm=contestant.algorithm_name,
            seed=seed,
            metrics=metrics_of(timeline, log, initial, contestant, spent),
            devices=device_records_of(timeline, log, spent),
            model=model,
            diverged_round=diverged,
            compute_s=compute_s,
        )

    def _begin(self, unit: int, state: Any) -> tuple[Any, list[Any], int, float]:
        """(state, logs, events done, seconds computed): from the unit's checkpoint if there is one, else from scratch."""
        import jax

        from ..engine import Log

        saved = self.checkpoints.load(unit) if self.checkpoints else None
        if saved is None:
            return state, [], 0, 0.0
        leaves, structure = jax.tree.flatten(state)
        if [np.shape(leaf) for leaf in leaves] != [leaf.shape for leaf in saved.state]:
            raise UserError(f"checkpoint {unit} holds a state of another shape: it belongs to another run")
        restored = [jax.numpy.asarray(leaf) for leaf in saved.state]
        log = Log(**saved.log)  # type: ignore[arg-type]  # on the host a log holds NumPy arrays
        return jax.tree.unflatten(structure, restored), [log], saved.done, saved.compute_s

    def _save(self, unit: int, state: Any, logs: list[Any], done: int, compute_s: float) -> None:
        import jax

        assert self.checkpoints is not None
        logs[:] = [jax.tree.map(lambda *parts: np.concatenate(parts), *logs)]
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
        self.checkpoints.save(unit, Saved(leaves, logs[0]._asdict(), done, compute_s))

    def _program(self, contestant: Contestant) -> Any:
        """Sized for the largest event and the greatest staleness over all seeds, so that it is compiled once."""
        from .. import engine
        from ..engine import sharding

        timelines = [self.plan.timelines[contestant.label, seed] for seed in self.plan.seeds]
        mesh = sharding.mesh_of_all()
        most = max(int(t.ready.max(initial=0)) for t in timelines)
        max_ready, block = engine.sizes(most, self._num_parameters, mesh)
        shape = engine.Shape(
            input_shape=tuple(self.plan.dataset.input_shape),
            num_classes=self.plan.dataset.num_classes,
            max_ready=max_ready,
            versions=1 << max(1, *(t.max_staleness.bit_length() for t in timelines)),  # few different shapes
            events=min(self.events_a_call, max(len(t) for t in timelines)),
            train_loss=self.plan.experiment.evaluation.train_loss,
            learner=self.learner[0],
            block=block,
            mesh=mesh,
        )
        return engine.program_for(_rule(contestant), self.plan.experiment.model, shape)

    @functools.cached_property
    def _num_parameters(self) -> int:
        import jax

        dataset = self.plan.dataset
        shapes = jax.eval_shape(
            lambda: self.plan.experiment.model.init(jax.random.key(0), tuple(dataset.input_shape), dataset.num_classes)
        )
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    def _compile(self, contestant: Contestant, program: Any, arguments: tuple[Any, ...]) -> Any:
        with self._compiling:
            if id(program) not in self._compiled:
                with self._shared:
                    self.progress.compiling(contestant.label)
                self._compiled[id(program)], seconds = _timed(program.compile, arguments)
                with self._shared:
                    self.progress.compiled(contestant.label, seconds)
            return self._compiled[id(program)]

    def _fleet(self, seed: int, learner: Any = None) -> Any:
        """The data on the JAX device, as `learner` wants it. Shards of all seeds are padded alike, to compile once."""
        import jax
        import jax.numpy as jnp

        from .. import engine

        with self._shared:
            if (seed, learner) in self._fleets:
                return self._fleets[seed, learner]
            dataset, shards = self.plan.dataset, self.plan.shards[seed]
            longest = max(len(s.indices) for s in self.plan.shards.values())
            share = np.bincount(shards.indices, minlength=len(dataset.y_train)) / len(shards.indices)
            if not self._fleets:
                x = dataset.x_train, dataset.x_test
                x_train, x_test = x if learner is None else map(learner.encode, x)
                samples = {"x_train": x_train, "y_train": dataset.y_train, "x_test": x_test, "y_test": dataset.y_test}
                self._samples: dict[str, Any] = jax.tree.map(jnp.asarray, samples)
            elif len(self._fleets) >= self.side_by_side:  # memory does not grow with the number of seeds
                del self._fleets[next(iter(self._fleets))]
            fleet = engine.Fleet(
                **self._samples,
                shard_indices=jnp.asarray(np.pad(shards.indices, (0, longest - len(shards.indices)))),
                shard_offsets=jnp.asarray(shards.offsets[:-1].astype(np.int32)),
                shard_sizes=jnp.asarray(shards.sizes.astype(np.int32)),
                sample_weight=jnp.asarray(share, float),
            )
            self._fleets[seed, learner] = fleet
            return fleet


def cores() -> int:
    """That this process may use: what the system gives it, and no more than OMP_NUM_THREADS says, where that is set."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(given, int(wanted))) if wanted.isdecimal() else given


def _as_here(function: Callable[..., Any]) -> Callable[..., Any]:
    """To be called by another thread, which does not inherit whether `jax.enable_x64` is in force."""
    import jax

    x64 = bool(jax.numpy.zeros(()).dtype == np.float64)

    def call(*arguments: Any) -> Any:
        with jax.enable_x64(x64):
            return function(*arguments)

    return call


def _timed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, float]:
    begin = time.perf_counter()
    return function(*arguments), time.perf_counter() - begin


def _rule(contestant: Contestant) -> Any:
    from ..engine import Rule

    c = contestant
    return Rule(
        algorithm=c.algorithm,
        training=c.training,
        air=c.air,
        power=c.power,
        faults=c.faults.in_signals(),
        guards=replace(c.guards, max_staleness=None),  # the timeline has seen to it
    )


def _evaluate_flags(events: int, every: int) -> NDArray[np.bool_]:
    """Every `every`-th version and the last one."""
    flags = (np.arange(events) + 1) % every == 0
    flags[-1] = True
    return flags


def _diverged(logs: list[Any]) -> bool:
    return bool(logs) and not logs[-1].finite.all()


def _up_to_divergence(log: Any) -> Any:
    """The log until the first model that is not finite, including it."""
    import jax

    bad = np.flatnonzero(~log.finite)
    return log if not len(bad) else jax.tree.map(lambda column: column[: bad[0] + 1], log)


def _last_known(values: NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else math.nan


def environment(started: datetime) -> dict[str, Any]:
    """What somebody needs to know to run it again."""
    versions = {name: _version(name) for name in ("paota", "jax", "jaxlib", "numpy")}
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
