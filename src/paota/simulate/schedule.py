"""Which units run when: algorithms and seeds side by side on the cores of the machine.

While one unit draws, or decides on powers, another trains. No draw and no bit depends on the company. (Seeds batched
into one program were slower, and changed the last bits.)
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np

from .. import engine
from ..algorithms.base import keeps_memory
from ..base.errors import Interrupted, UserError
from ..callbacks.base import CallbackError
from ..callbacks.group import Group
from ..engine.sharding import mesh_of_all
from ..experiment.experiment import AlgorithmConfig
from ..results.checkpoint import Checkpoints
from ..results.result import Trajectory
from ..training.caches import use_compile_cache
from ..training.learner import Learner, choose
from .preparation import PreparedRun
from .threads import UnitThreads
from .unit import Unit

MOST_EVENTS = 64  # an engine call: of a quick model they take well under a second, and more gain nothing
MOST_PARTICIPATIONS = 2**23  # ... and no more rows of devices than fit into memory
MOST_KEPT_BYTES = 2**28  # of a state that is kept while the engine makes the next one
EVENTS_IN_STEP = 10  # an engine call, where several processes compute it together and must do the same


class Schedule:
    """All units of a plan, and what they share: data on the JAX device, compiled programs, the clock, the callbacks.

    Units compute in threads of a crew; the thread that calls `trajectories` attends, and calls the callbacks.
    """

    def __init__(
        self,
        prepared: PreparedRun,
        *,
        callbacks: Group | None = None,
        events_per_call: int | None = None,
        checkpoints: Checkpoints | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        use_compile_cache()
        self.prepared, self.callbacks, self.checkpoints, self._stop = (
            prepared,
            callbacks or Group(()),
            checkpoints,
            stop,
        )
        self.events_per_call = 1 if self.callbacks.models else events_per_call  # None: as many as take about a second
        if self.events_per_call is None and jax.process_count() > 1:
            self.events_per_call = EVENTS_IN_STEP
        self.threads = UnitThreads()
        self.units = [Unit(self, number, *parts) for number, parts in enumerate(prepared.units())]
        self._problems: dict[str, engine.LearningProblem] = {}  # by label
        self._extremes_of: dict[str, tuple[int, int]] = {}  # by label
        self._samples: dict[Learner, dict[str, Any]] = {}
        self._device_data: dict[tuple[Learner, int], engine.DeviceData] = {}
        self._shared = threading.RLock()  # for data and the clock
        self._compiling = threading.Lock()
        self._computing, self._clock_s, self._read = 0, 0.0, time.perf_counter()

    def problem(self, entry: AlgorithmConfig) -> engine.LearningProblem:
        """What is learned, and what computes it for this algorithm; equal for algorithms that train alike."""
        with self._shared:
            if entry.label not in self._problems:
                self._problems[entry.label] = self._make_problem(entry)
            return self._problems[entry.label]

    def _make_problem(self, entry: AlgorithmConfig) -> engine.LearningProblem:
        dataset = self.prepared.dataset
        most = max(int(shards.sizes.max()) for shards in self.prepared.shards.values())
        return engine.LearningProblem(
            model=self.prepared.model,
            input_shape=tuple(dataset.input_shape),
            num_classes=dataset.num_classes,
            learner=learner_of(self.prepared, entry)[0],
            train_loss=self.prepared.experiment.evaluation.train_loss,
            most_samples=None if entry.training.epochs is None else 1 << (most - 1).bit_length(),  # few shapes
            mesh=mesh_of_all(),
        )

    def program_shape(self, entry: AlgorithmConfig, seed: int) -> engine.ProgramShape:
        """Places for this seed's own largest event, since a sum over more of them may round differently.

        Versions and events, on which no bit depends, are those of all seeds, to compile few programs.
        """
        most = int(self.prepared.timelines[entry.label, seed].ready.max(initial=0))
        problem = self.problem(entry)
        held = engine.row_bytes(entry.algorithm, problem.num_parameters)
        places, block = engine.event_places(most, held, problem.mesh)
        if block is not None and keeps_memory(entry.algorithm):
            raise UserError(
                f"'{entry.label}' has devices with a memory, and {most:,} of them in an event do not fit into memory "
                "at once; use fewer devices an event"
            )
        stalest, longest = self._extremes(entry.label)
        versions = 1 << max(2, stalest.bit_length())  # few different shapes
        if self.events_per_call is not None:
            events = min(self.events_per_call, longest)
        elif 4 * versions * problem.num_parameters > MOST_KEPT_BYTES:
            events = 1
        else:
            events = min(MOST_EVENTS, _power_of_two(longest), _power_of_two(max(1, MOST_PARTICIPATIONS // places)))
        return engine.ProgramShape(places=places, versions=versions, events=events, block=block)

    def _extremes(self, label: str) -> tuple[int, int]:
        """(the greatest staleness, the largest number of events) of all seeds."""
        with self._shared:
            if label not in self._extremes_of:
                timelines = [self.prepared.timelines[label, seed] for seed in self.prepared.seeds]
                self._extremes_of[label] = max(t.max_staleness for t in timelines), max(len(t) for t in timelines)
            return self._extremes_of[label]

    def device_data(self, entry: AlgorithmConfig, seed: int) -> engine.DeviceData:
        """The data of one seed on the JAX device, as the algorithm's learner wants them; samples serve all seeds.

        Shards of all seeds are padded alike, and to few different lengths, to compile once.
        """
        learner = self.problem(entry).learner
        with self._shared:
            if learner not in self._samples:
                self._samples[learner] = engine.DeviceData.samples(self.prepared.dataset, learner)
            if (learner, seed) not in self._device_data:
                if len(self._device_data) >= self.side_by_side:  # memory does not grow with the number of seeds
                    del self._device_data[next(iter(self._device_data))]
                entries = _power_of_two(max(len(s.indices) for s in self.prepared.shards.values()))
                made = engine.DeviceData.of(self._samples[learner], self.prepared.shards[seed], entries=entries)
                self._device_data[learner, seed] = made
            return self._device_data[learner, seed]

    def trajectories(self) -> list[Trajectory]:
        """Of all units, in the order of the plan. The first failure, or a wish to stop, ends them all."""
        compiling = self.threads.start([_in_same_precision(self._compile_ahead)], 1)
        try:
            self._attend(compiling)
            units = [_in_same_precision(functools.partial(self._run, unit)) for unit in self.units]
            return self._attend(self.threads.start(units, self.side_by_side))
        finally:
            self.threads.close()

    def _attend(self, futures: list[Future[Any]]) -> list[Any]:
        """What all of them give. After a wish to stop those that do not end soon are left behind, and what they did saved."""
        ended = self.threads.attend(futures, self._stop)
        failures = [failure for future in futures if future.done() and (failure := future.exception())]
        if not ended or any(isinstance(failure, CallbackError) for failure in failures):
            self.threads.close()
            for unit in self.units:
                unit.save()
        for failure in sorted(failures, key=lambda failure: isinstance(failure, Interrupted)):
            raise failure  # the reason rather than those who stopped because of it
        if not all(future.done() for future in futures):
            raise Interrupted
        return [future.result() for future in futures]

    def _run(self, unit: Unit) -> Trajectory:
        if self.stopping:
            raise Interrupted
        finished = unit.run()
        self.threads.ask(self.callbacks.finish, finished)
        return finished

    def _compile_ahead(self) -> None:
        """Compile the programs of all algorithms side by side, which a machine with several cores does sooner."""
        if len(self.units) == 1 or jax.device_count() > 1 or (self.checkpoints and self.checkpoints.load(0)):
            return  # nothing to gain, or processes that must all do the same, or a resumed run that may need few of them
        first = self.prepared.seeds[0]  # the data of all seeds have the same shape
        compiling: dict[Any, Callable[[], Any]] = {}
        for entry in self.prepared.experiment.algorithms:
            problem, config = self.problem(entry), engine.RoundConfig.of(entry)
            device_data, model = self.device_data(entry, first), jax.eval_shape(problem.initial_model, first)
            for program_shape, seed in {self.program_shape(entry, seed): seed for seed in self.prepared.seeds}.items():
                state = jax.eval_shape(
                    functools.partial(self.initial_state, config, program_shape=program_shape), model
                )
                timeline = self.prepared.timelines[entry.label, seed]
                rows, count = engine.inputs_of(timeline, 0, program_shape, np.zeros(len(timeline), bool))
                run = engine.RunConstants(config, jax.random.key(seed), device_data)
                arguments = (run, state, rows, np.int32(count))
                key = engine.program_key(problem, program_shape, arguments)
                job = functools.partial(self._compile, entry.label, problem, program_shape, arguments)
                compiling.setdefault(key, _in_same_precision(job))
        for future in self.threads.start(list(compiling.values()), cores()):
            future.result()

    def initial_state(
        self, config: engine.RoundConfig, model: Any, *, program_shape: engine.ProgramShape
    ) -> engine.State:
        """Before the first event, from the initial model [d]."""
        return engine.State.initial(config, model, program_shape.versions, self.prepared.experiment.data.devices)

    def compiled(
        self,
        entry: AlgorithmConfig,
        problem: engine.LearningProblem,
        program_shape: engine.ProgramShape,
        arguments: Any,
    ) -> Any:
        """The program for these arguments; announced where it has to be compiled first."""
        with self._compiling:
            return self._compile(entry.label, problem, program_shape, arguments)

    def _compile(
        self, label: str, problem: engine.LearningProblem, program_shape: engine.ProgramShape, arguments: Any
    ) -> Any:
        if engine.is_known(problem, program_shape, arguments):
            return engine.program(problem, program_shape, arguments)[0]
        if self.stopping:
            raise Interrupted
        self.threads.ask(self.callbacks.compile, label, None)
        made, seconds = engine.program(problem, program_shape, arguments)
        self.threads.ask(self.callbacks.compile, label, seconds)
        return made

    @functools.cached_property
    def side_by_side(self) -> int:
        """Units that run at once: one a core, unless they share their devices, or would not fit into memory together."""
        if len(self.units) == 1 or jax.default_backend() != "cpu" or jax.device_count() > 1:
            return 1
        program_shape = [self.program_shape(unit.entry, unit.seed) for unit in self.units]
        if any(size.block for size in program_shape):
            return 1
        num_parameters = self.problem(self.units[0].entry).num_parameters
        most_bytes = max(
            engine.row_bytes(unit.entry.algorithm, num_parameters) * size.places
            for unit, size in zip(self.units, program_shape, strict=True)
        )
        return max(1, min(len(self.units), cores(), engine.HELD_BYTES // most_bytes))

    @property
    def stopping(self) -> bool:
        """Whether somebody has asked to stop, or another unit has failed."""
        return self.threads.closing.is_set()

    @property
    def left_behind(self) -> bool:
        """Whether nobody waits any more for what units compute."""
        return self.threads.closed

    def clock(self, change: int) -> float:
        """Seconds of a clock that runs as many times slower as there are units computing; `change` begins or ends one."""
        with self._shared:
            now = time.perf_counter()
            self._clock_s += (now - self._read) / max(self._computing, 1)
            self._read, self._computing = now, self._computing + change
            return self._clock_s


def _power_of_two(number: int) -> int:
    """At least `number`, so that a program serves many lengths."""
    return 1 << (number - 1).bit_length()


def learner_of(prepared: PreparedRun, entry: AlgorithmConfig) -> tuple[Learner, str]:
    """What trains and judges for one algorithm, and one line that says which and why."""
    data = prepared.dataset
    shifted = entry.algorithm.shifts_gradients
    return choose(prepared.model, data.x_train, data.num_classes, entry.training, data.scaling, shifted)


def learners_in_words(prepared: PreparedRun) -> str:
    """The lines of all algorithms: one for all, if they agree."""
    lines = {entry.label: learner_of(prepared, entry)[1] for entry in prepared.experiment.algorithms}
    together = dict.fromkeys(lines.values())
    return next(iter(together)) if len(together) == 1 else "; ".join(f"{who}: {line}" for who, line in lines.items())


def cores() -> int:
    """That this process may use: what the system gives it, and no more than OMP_NUM_THREADS says, where that is set."""
    given = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(given, int(wanted))) if wanted.isdecimal() else given


def _in_same_precision(function: Callable[..., Any]) -> Callable[..., Any]:
    """To be called by another thread, which does not inherit whether `jax.enable_x64` is in force."""
    x64 = bool(jax.numpy.zeros(()).dtype == np.float64)

    def call(*arguments: Any) -> Any:
        with jax.enable_x64(x64):
            return function(*arguments)

    return call
