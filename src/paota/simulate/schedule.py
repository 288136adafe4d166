"""The schedule of a run: algorithms and seeds side by side on the cores of the machine.

While one unit draws, or chooses amplitudes, another one trains. No draw and no bit depends on the other units. (Seeds
batched into one program were slower, and changed the last bits.)
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

import jax
import numpy as np

from .. import engine
from ..base.errors import Interrupted
from ..base.system import cores
from ..callbacks.base import CallbackError
from ..callbacks.group import Group
from ..results.checkpoint import Checkpoints
from ..results.result import Trajectory
from .preparation import PreparedRun
from .programs import Programs
from .threads import UnitThreads
from .unit import Unit

T = TypeVar("T")
EVENTS_IN_STEP = 10  # of an engine call, if several processes compute it together


class Schedule:
    """The units of a run, and the threads, the clock and the callbacks that they share.

    Units compute in threads. The thread that calls `trajectories` waits for them, and calls the callbacks.
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
        self.prepared, self.checkpoints, self._stop = prepared, checkpoints, stop
        self.callbacks = callbacks or Group(())
        events_per_call = 1 if self.callbacks.models else events_per_call
        if events_per_call is None and jax.process_count() > 1:
            events_per_call = EVENTS_IN_STEP
        self.programs = Programs(prepared, events_per_call)
        self.threads = UnitThreads()
        self.units = [Unit(self, number, entry, seed) for number, (entry, seed) in enumerate(prepared.units())]
        self._compiling, self._timing = threading.Lock(), threading.Lock()
        self._computing, self._clock_s, self._read_s = 0, 0.0, time.perf_counter()

    def trajectories(self) -> list[Trajectory]:
        """Run all units and return their trajectories in the order of the plan. A failure or a stop ends them all."""
        try:
            self._wait(self.threads.start([_in_same_precision(self._compile_ahead)], 1))
            units = [_in_same_precision(functools.partial(self._run, unit)) for unit in self.units]
            return self._wait(self.threads.start(units, self.side_by_side))
        finally:
            self.threads.close()

    def _wait(self, futures: Sequence[Future[T]]) -> list[T]:
        """Return all results. After a stop, units that do not end soon are abandoned, and their state is saved."""
        ended = self.threads.wait(futures, self._stop)
        failures = [failure for future in futures if future.done() and (failure := future.exception())]
        if not ended or any(isinstance(failure, CallbackError) for failure in failures):
            self.threads.close()
            for unit in self.units:
                unit.save()
        for failure in sorted(failures, key=lambda failure: isinstance(failure, Interrupted)):
            raise failure  # the cause, rather than units that stopped because of it
        if not all(future.done() for future in futures):
            raise Interrupted
        return [future.result() for future in futures]

    def _run(self, unit: Unit) -> Trajectory:
        if self.stopping:
            raise Interrupted
        finished = unit.run()
        self.threads.call(self.callbacks.finish, finished)
        return finished

    def _compile_ahead(self) -> None:
        """Compile the programs of all algorithms side by side, which is faster on several cores."""
        programs = self.programs
        programs.max_data_sets = self.side_by_side
        if len(self.units) == 1 or jax.device_count() > 1 or (self.checkpoints and self.checkpoints.load(0)):
            return  # nothing to gain, or processes that must act alike, or a resumed run that may need few programs
        first = self.prepared.seeds[0]  # the data of all seeds have the same shape
        jobs: dict[object, Callable[[], engine.Program]] = {}
        for entry in self.prepared.experiment.algorithms:
            problem, config = programs.problem(entry), engine.RoundConfig.of(entry)
            device_data, model = programs.device_data(entry, first), jax.eval_shape(problem.initial_model, first)
            for shape, seed in {programs.program_shape(entry, seed): seed for seed in self.prepared.seeds}.items():
                state = jax.eval_shape(functools.partial(programs.initial_state, config, shape=shape), model)
                timeline = self.prepared.timelines[entry.label, seed]
                events, count = engine.inputs_of(timeline, 0, shape, np.zeros(len(timeline), bool))
                run = engine.RunConstants(config, jax.random.key(seed), device_data)
                arguments = (run, state, events, np.int32(count))
                job = functools.partial(self._compile, entry.label, problem, shape, arguments)
                jobs.setdefault(engine.program_key(problem, shape, arguments), _in_same_precision(job))
        for future in self.threads.start(list(jobs.values()), cores()):
            future.result()

    def compiled(
        self, label: str, problem: engine.LearningProblem, shape: engine.ProgramShape, arguments: engine.CallArguments
    ) -> engine.Program:
        """Return the program for these arguments; the callbacks hear of it if it must be compiled first."""
        with self._compiling:
            return self._compile(label, problem, shape, arguments)

    def _compile(
        self, label: str, problem: engine.LearningProblem, shape: engine.ProgramShape, arguments: engine.CallArguments
    ) -> engine.Program:
        if engine.is_known(problem, shape, arguments):
            return engine.program(problem, shape, arguments)[0]
        if self.stopping:
            raise Interrupted
        self.threads.call(self.callbacks.compile, label, None)
        made, seconds = engine.program(problem, shape, arguments)
        self.threads.call(self.callbacks.compile, label, seconds)
        return made

    @functools.cached_property
    def side_by_side(self) -> int:
        """Units that run at once: one per core, unless they share JAX devices or do not fit into memory together."""
        if len(self.units) == 1 or jax.default_backend() != "cpu" or jax.device_count() > 1:
            return 1
        shapes = [self.programs.program_shape(unit.entry, unit.seed) for unit in self.units]
        if any(shape.block for shape in shapes):
            return 1
        num_parameters = self.programs.problem(self.units[0].entry).num_parameters
        most_bytes = max(
            engine.row_bytes(unit.entry.algorithm, num_parameters) * shape.places
            for unit, shape in zip(self.units, shapes, strict=True)
        )
        return max(1, min(len(self.units), cores(), engine.HELD_BYTES // most_bytes))

    @property
    def stopping(self) -> bool:
        """True after a stop was requested, or another unit has failed."""
        return self.threads.closing.is_set()

    def clock(self, change: int) -> float:
        """Return the seconds of a clock that is slower by the number of units that compute; `change` starts or ends one."""
        with self._timing:
            now = time.perf_counter()
            self._clock_s += (now - self._read_s) / max(self._computing, 1)
            self._read_s, self._computing = now, self._computing + change
            return self._clock_s


def _in_same_precision(function: Callable[[], T]) -> Callable[[], T]:
    """Return a function for another thread, which does not inherit `jax.enable_x64`."""
    x64 = bool(jax.numpy.zeros(()).dtype == np.float64)

    def call() -> T:
        with jax.enable_x64(x64):
            return function()

    return call
