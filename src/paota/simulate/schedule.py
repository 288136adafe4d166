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
from ..callbacks.group import Group
from ..engine.sharding import mesh_of_all
from ..errors import CallbackError, Interrupted, UserError
from ..experiment import Contestant
from ..runs.checkpoint import Checkpoints
from ..runs.results import Trajectory
from ..training.caches import use_compile_cache
from ..training.learner import Learner, choose
from .crew import Crew
from .planning import Plan
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
        plan: Plan,
        *,
        callbacks: Group | None = None,
        events_a_call: int | None = None,
        checkpoints: Checkpoints | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        use_compile_cache()
        self.plan, self.callbacks, self.checkpoints, self._stop = plan, callbacks or Group(()), checkpoints, stop
        self.events_a_call = 1 if self.callbacks.models else events_a_call  # None: as many as take about a second
        if self.events_a_call is None and jax.process_count() > 1:
            self.events_a_call = EVENTS_IN_STEP
        self.crew = Crew()
        self.units = [Unit(self, number, *parts) for number, parts in enumerate(plan.units())]
        self._tasks: dict[str, engine.Task] = {}  # by label
        self._extremes_of: dict[str, tuple[int, int]] = {}  # by label
        self._samples: dict[Learner, dict[str, Any]] = {}
        self._fleets: dict[tuple[Learner, int], engine.Fleet] = {}
        self._shared = threading.RLock()  # for data and the clock
        self._compiling = threading.Lock()
        self._computing, self._clock_s, self._read = 0, 0.0, time.perf_counter()

    def task(self, contestant: Contestant) -> engine.Task:
        """What is learned, and what computes it for this algorithm; equal for algorithms that train alike."""
        with self._shared:
            if contestant.label not in self._tasks:
                self._tasks[contestant.label] = self._make_task(contestant)
            return self._tasks[contestant.label]

    def _make_task(self, contestant: Contestant) -> engine.Task:
        dataset = self.plan.dataset
        most = max(int(shards.sizes.max()) for shards in self.plan.shards.values())
        return engine.Task(
            model=self.plan.model,
            input_shape=tuple(dataset.input_shape),
            num_classes=dataset.num_classes,
            learner=learner_of(self.plan, contestant)[0],
            train_loss=self.plan.experiment.evaluation.train_loss,
            most_samples=None if contestant.training.epochs is None else 1 << (most - 1).bit_length(),  # few shapes
            mesh=mesh_of_all(),
        )

    def sizes(self, contestant: Contestant, seed: int) -> engine.Sizes:
        """Places for this seed's own largest event, since a sum over more of them may round differently.

        Versions and events, on which no bit depends, are those of all seeds, to compile few programs.
        """
        most = int(self.plan.timelines[contestant.label, seed].ready.max(initial=0))
        task = self.task(contestant)
        held = engine.row_bytes(contestant.algorithm, task.num_parameters)
        places, block = engine.event_places(most, held, task.mesh)
        if block is not None and contestant.algorithm.needs_payloads:
            raise UserError(
                f"'{contestant.label}' needs the models of all {most:,} devices of an event at once, which do not fit "
                "into memory; use fewer devices an event"
            )
        if block is not None and keeps_memory(contestant.algorithm):
            raise UserError(
                f"'{contestant.label}' has devices with a memory, and {most:,} of them in an event do not fit into memory "
                "at once; use fewer devices an event"
            )
        stalest, longest = self._extremes(contestant.label)
        versions = 1 << max(2, stalest.bit_length())  # few different shapes
        if self.events_a_call is not None:
            events = min(self.events_a_call, longest)
        elif 4 * versions * task.num_parameters > MOST_KEPT_BYTES:
            events = 1
        else:
            events = min(MOST_EVENTS, _power_of_two(longest), _power_of_two(max(1, MOST_PARTICIPATIONS // places)))
        return engine.Sizes(places=places, versions=versions, events=events, block=block)

    def _extremes(self, label: str) -> tuple[int, int]:
        """(the greatest staleness, the largest number of events) of all seeds."""
        with self._shared:
            if label not in self._extremes_of:
                timelines = [self.plan.timelines[label, seed] for seed in self.plan.seeds]
                self._extremes_of[label] = max(t.max_staleness for t in timelines), max(len(t) for t in timelines)
            return self._extremes_of[label]

    def fleet(self, contestant: Contestant, seed: int) -> engine.Fleet:
        """The data of one seed on the JAX device, as the algorithm's learner wants them; samples serve all seeds.

        Shards of all seeds are padded alike, and to few different lengths, to compile once.
        """
        learner = self.task(contestant).learner
        with self._shared:
            if learner not in self._samples:
                self._samples[learner] = engine.Fleet.samples(self.plan.dataset, learner)
            if (learner, seed) not in self._fleets:
                if len(self._fleets) >= self.side_by_side:  # memory does not grow with the number of seeds
                    del self._fleets[next(iter(self._fleets))]
                entries = _power_of_two(max(len(s.indices) for s in self.plan.shards.values()))
                made = engine.Fleet.of(self._samples[learner], self.plan.shards[seed], entries=entries)
                self._fleets[learner, seed] = made
            return self._fleets[learner, seed]

    def trajectories(self) -> list[Trajectory]:
        """Of all units, in the order of the plan. The first failure, or a wish to stop, ends them all."""
        compiling = self.crew.start([_in_same_precision(self._compile_ahead)], 1)
        try:
            self._attend(compiling)
            units = [_in_same_precision(functools.partial(self._run, unit)) for unit in self.units]
            return self._attend(self.crew.start(units, self.side_by_side))
        finally:
            self.crew.close()

    def _attend(self, futures: list[Future[Any]]) -> list[Any]:
        """What all of them give. After a wish to stop those that do not end soon are left behind, and what they did saved."""
        ended = self.crew.attend(futures, self._stop)
        failures = [failure for future in futures if future.done() and (failure := future.exception())]
        if not ended or any(isinstance(failure, CallbackError) for failure in failures):
            self.crew.close()
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
        self.crew.ask(self.callbacks.finish, finished)
        return finished

    def _compile_ahead(self) -> None:
        """Compile the programs of all algorithms side by side, which a machine with several cores does sooner."""
        if len(self.units) == 1 or jax.device_count() > 1 or (self.checkpoints and self.checkpoints.load(0)):
            return  # nothing to gain, or processes that must all do the same, or a resumed run that may need few of them
        first = self.plan.seeds[0]  # the data of all seeds have the same shape
        compiling: dict[Any, Callable[[], Any]] = {}
        for contestant in self.plan.experiment.contestants:
            task, rule = self.task(contestant), engine.Rule.of(contestant)
            fleet, model = self.fleet(contestant, first), jax.eval_shape(task.initial_model, first)
            for sizes, seed in {self.sizes(contestant, seed): seed for seed in self.plan.seeds}.items():
                state = jax.eval_shape(functools.partial(self.initial_state, rule, sizes=sizes), model)
                timeline = self.plan.timelines[contestant.label, seed]
                rows, count = engine.rows_of(timeline, 0, sizes, np.zeros(len(timeline), bool))
                arguments = (rule, jax.random.key(seed), fleet, state, rows, np.int32(count))
                key = engine.program_key(task, sizes, arguments)
                job = functools.partial(self._compile, contestant.label, task, sizes, arguments)
                compiling.setdefault(key, _in_same_precision(job))
        for future in self.crew.start(list(compiling.values()), cores()):
            future.result()

    def initial_state(self, rule: engine.Rule, model: Any, *, sizes: engine.Sizes) -> engine.State:
        """Before the first event, from the initial model [d]."""
        return engine.State.initial(rule, model, sizes.versions, self.plan.experiment.data.devices)

    def compiled(self, contestant: Contestant, task: engine.Task, sizes: engine.Sizes, arguments: Any) -> Any:
        """The program for these arguments; announced where it has to be compiled first."""
        with self._compiling:
            return self._compile(contestant.label, task, sizes, arguments)

    def _compile(self, label: str, task: engine.Task, sizes: engine.Sizes, arguments: Any) -> Any:
        if engine.is_known(task, sizes, arguments):
            return engine.program(task, sizes, arguments)[0]
        if self.stopping:
            raise Interrupted
        self.crew.ask(self.callbacks.compile, label, None)
        made, seconds = engine.program(task, sizes, arguments)
        self.crew.ask(self.callbacks.compile, label, seconds)
        return made

    @functools.cached_property
    def side_by_side(self) -> int:
        """Units that run at once: one a core, unless they share their devices, or would not fit into memory together."""
        if len(self.units) == 1 or jax.default_backend() != "cpu" or jax.device_count() > 1:
            return 1
        sizes = [self.sizes(unit.contestant, unit.seed) for unit in self.units]
        if any(size.block for size in sizes):
            return 1
        num_parameters = self.task(self.units[0].contestant).num_parameters
        most_bytes = max(
            engine.row_bytes(unit.contestant.algorithm, num_parameters) * size.places
            for unit, size in zip(self.units, sizes, strict=True)
        )
        return max(1, min(len(self.units), cores(), engine.HELD_BYTES // most_bytes))

    @property
    def stopping(self) -> bool:
        """Whether somebody has asked to stop, or another unit has failed."""
        return self.crew.closing.is_set()

    @property
    def left_behind(self) -> bool:
        """Whether nobody waits any more for what units compute."""
        return self.crew.closed

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


def learner_of(plan: Plan, contestant: Contestant) -> tuple[Learner, str]:
    """What trains and judges for one algorithm, and one line that says which and why."""
    data = plan.dataset
    shifted = contestant.algorithm.shifts_gradients
    return choose(plan.model, data.x_train, data.num_classes, contestant.training, data.scaling, shifted)


def learners_in_words(plan: Plan) -> str:
    """The lines of all algorithms: one for all, if they agree."""
    lines = {contestant.label: learner_of(plan, contestant)[1] for contestant in plan.experiment.contestants}
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
