"""One unit of work: one algorithm with one seed, from its initial model (or its checkpoint) to its tables."""

from __future__ import annotations

import threading
import time
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .. import engine
from ..base.errors import Interrupted, UserError
from ..callbacks.group import CallbackReply, Group
from ..engine.sharding import replicate
from ..experiment.experiment import AlgorithmConfig
from ..results.checkpoint import Checkpoints, Saved
from ..results.result import Trajectory
from .programs import Programs
from .records import rounds_of, trajectory_of
from .threads import UnitThreads

OWN = "own."  # before the name of a metric of the user's own, in a checkpoint
CALL_S = 1.0  # target length of an engine call, between which the host shows progress and saves


class UnitHost(Protocol):
    """The part of the `Schedule` that units use."""

    programs: Programs
    callbacks: Group
    checkpoints: Checkpoints | None
    threads: UnitThreads

    @property
    def stopping(self) -> bool: ...

    def compiled(
        self, label: str, problem: engine.LearningProblem, shape: engine.ProgramShape, arguments: engine.CallArguments
    ) -> engine.Program: ...

    def clock(self, change: int) -> float: ...


class Unit:
    """Calls the engine until the timeline ends.

    `state`, `logs` and `done` change together, after the callbacks have seen the rounds: the callbacks know everything
    that is saved, and stop a resumed run where they stopped the first one.
    """

    def __init__(self, host: UnitHost, number: int, entry: AlgorithmConfig, seed: int) -> None:
        self.host, self.number, self.entry, self.seed = host, number, entry, seed
        self.prepared = host.programs.prepared
        self.checkpoints = host.checkpoints
        self.timeline = self.prepared.timelines[entry.label, seed]
        every_s = self.prepared.experiment.evaluation.every_s
        if every_s is None:
            self.evaluated = _evaluate_flags(len(self.timeline), self.prepared.evaluated_every[entry.label, seed])
        else:
            self.evaluated = _flags_on_grid(self.timeline.time_s, every_s)
        self.config = engine.RoundConfig.of(entry)
        self.logs: list[engine.Log] = []
        self.own: dict[int, dict[str, float]] = {}  # metrics that callbacks added, by round
        self.done = self.saved = 0  # events
        self.begun = self.stopped = False
        self.compute_s = 0.0
        self._lock = threading.Lock()  # for what is saved
        self._lent = False  # the engine is overwriting the state

    def run(self) -> Trajectory:
        """Run to the end, a divergence, or a callback's stop; raise `Interrupted` if the whole run stops."""
        host, programs = self.host, self.host.programs
        self.problem, self.shape = programs.problem(self.entry), programs.program_shape(self.entry, self.seed)
        self.device_data = programs.device_data(self.entry, self.seed)
        model = self.problem.initial_model(self.seed)
        self.num_parameters = model.size
        *initial, by_label = engine.evaluate_model(self.problem, model, self.device_data)
        self.initial, self.num_labels = [float(value) for value in initial], len(by_label)
        self.state = self._begin(programs.initial_state(self.config, model, self.shape))
        self.events = programs.events_per_call or 1  # of the next call
        self.begun = True
        self._report_the_past()
        while not self.over:
            self._advance()
            if self.checkpoints and (self.checkpoints.due(self.number) or host.stopping):
                self.save()
            if host.stopping:
                raise Interrupted
        if self.checkpoints:
            self.save()
        return self.trajectory()

    @property
    def kept(self) -> bool:
        """True if there is a trajectory so far: it has begun, and the engine is not overwriting its state."""
        return self.begun and not self._lent

    @property
    def over(self) -> bool:
        """True if no further round will be computed."""
        return self.done == len(self.timeline) or self.stopped or self._diverged

    @property
    def _diverged(self) -> bool:
        return bool(self.logs) and not self.logs[-1].finite.all()

    def trajectory(self) -> Trajectory:
        """Return the tables of all rounds so far."""
        log = self._whole_log()
        return trajectory_of(
            self.prepared, self.entry, self.seed, self.timeline, log, self.initial,
            model=self._model_of(self.state, self.done),
            diverged_round=self.done if self._diverged else None, compute_s=self.compute_s,
            stopped_round=self.done if self.stopped and self.done < len(self.timeline) else None, own=self.own,
        )  # fmt: skip

    def _advance(self) -> None:
        """Make one engine call, report its rounds to the callbacks, and store the result."""
        begin = time.perf_counter()
        state, log = self._compute(self.events)
        self._adapt(len(log.finite), time.perf_counter() - begin)
        reply = self._report(log, state, self.done)
        count = reply.round - self.done
        if count < len(log.finite):  # stopped within the call: compute it again up to there, with the same bits
            state, log = self._compute(count)
        with self._lock:
            if self.host.threads.closed:
                raise Interrupted
            self.state, self.stopped, self._lent = state, reply.stop, False
            self.logs.append(log)
            self.done += count
        if reply.error:
            raise reply.error

    def _compute(self, events: int) -> tuple[engine.State, engine.Log]:
        """Return state and log after at most this many events, or after the first model that is not finite."""
        inputs, count = engine.inputs_of(self.timeline, self.done, self.shape, self.evaluated, most=events)
        run = engine.RunConstants(self.config, jax.random.key(self.seed), self.device_data)
        arguments = replicate(self.problem.mesh, (run, self.state, inputs, np.int32(count)))
        step = self.host.compiled(self.entry.label, self.problem, self.shape, arguments)
        self._lent = self.shape.events == 1
        begin = self.host.clock(+1)
        try:
            state, log = jax.block_until_ready(step(*arguments))
        finally:
            self.compute_s += self.host.clock(-1) - begin
        log = jax.tree.map(lambda column: np.asarray(column)[:count], log)
        bad = np.flatnonzero(~log.finite)
        # Later events have overwritten the model that is not finite: compute it again.
        return self._compute(int(bad[0]) + 1) if len(bad) and bad[0] + 1 < count else (state, log)

    def _adapt(self, events: int, seconds: float) -> None:
        """Choose the events of the next call so that it takes about a second, unless their number is given."""
        if self.host.programs.events_per_call is None:
            wanted = int(events * CALL_S / max(seconds, 1e-9))
            self.events = max(1, min(wanted, 4 * events, self.shape.events))

    def _report(
        self, log: engine.Log, state: engine.State, first: int, initial: list[float] | None = None
    ) -> CallbackReply:
        """Report to the callbacks the events after the first `first`, which are in `log` and led to `state`."""
        callbacks, last = self.host.callbacks, first + len(log.finite)
        if not callbacks:
            return CallbackReply(last)
        rounds = rounds_of(
            self.entry, self.seed, self.timeline.part(first, len(log.finite)), log, initial,
            rounds=len(self.timeline), num_parameters=self.num_parameters,
            costs=self.prepared.costs[self.entry.label, self.seed],
            model=self._model_of(state, last) if callbacks.models else None,
        )  # fmt: skip
        given = list(rounds)
        reply = self.host.threads.call(callbacks.rounds, given)
        self.own |= {round.round: round.metrics.own for round in given if round.metrics.own}  # type: ignore[attr-defined]
        return reply

    def _report_the_past(self) -> None:
        """Report round 0 and all rounds of a checkpoint. If a callback stops at one of these, the unit ends here."""
        reply = self._report(self._whole_log(), self.state, 0, self.initial)
        self.stopped = reply.stop
        if reply.error:
            raise reply.error

    def _model_of(self, state: engine.State, version: int) -> Float[np.ndarray, " d"]:
        return np.array(state.ring[version % self.shape.versions])

    def _whole_log(self) -> engine.Log:
        if not self.logs:
            widths = dict.fromkeys(engine.PER_DEVICE, self.shape.places) | {"score_by_label": self.num_labels}
            shapes = {name: (0, widths[name]) if name in widths else (0,) for name in engine.Log._fields}
            columns = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
            del columns["own"], columns["left_out"]  # not known before the first event
            self.logs = [engine.Log(**columns | {"finite": np.zeros(0, bool)})]  # type: ignore[arg-type]  # of the host
        logs = [log for log in self.logs if len(log.finite)] or self.logs
        self.logs[:] = [jax.tree.map(lambda *parts: np.concatenate(parts), *logs)]
        return self.logs[0]

    def _begin(self, state: engine.State) -> engine.State:
        """Return the state of the unit's checkpoint if there is one, else `state`."""
        saved = self.checkpoints.load(self.number) if self.checkpoints else None
        if saved is None:
            return state
        leaves, structure = jax.tree.flatten(state)
        if [np.shape(leaf) for leaf in leaves] != [leaf.shape for leaf in saved.state]:
            raise UserError(f"checkpoint {self.number} holds a state of another shape: it belongs to another run")
        own = {name.removeprefix(OWN): column for name, column in saved.log.items() if name.startswith(OWN)}
        columns = {name: column for name, column in saved.log.items() if not name.startswith(OWN)}
        self.logs = [engine.Log(**columns, own=own)]  # type: ignore[arg-type]  # of the host
        self.done = self.saved = saved.done
        self.compute_s = saved.compute_s
        return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in saved.state])

    def save(self) -> None:
        """Write a checkpoint of the finished events, unless there is one. Any thread may call this at any time.

        While the engine overwrites a very large state, the last checkpoint remains.
        """
        with self._lock:
            if self.saved == self.done or self.checkpoints is None or self._lent:
                return
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.state)]
            log = self._whole_log()._asdict()
            log |= {OWN + name: column for name, column in log.pop("own").items()}
            log = {name: column for name, column in log.items() if column is not None}
            saved = Saved(leaves, log, self.done, self.compute_s)
            self.checkpoints.save(self.number, saved)
            self.saved = self.done


def _evaluate_flags(events: int, every: int) -> Bool[np.ndarray, " R"]:
    """Return flags of every `every`-th version and the last one."""
    flags = (np.arange(events) + 1) % every == 0
    flags[-1] = True
    return flags


def _flags_on_grid(time_s: Float[np.ndarray, " R"], every_s: float) -> Bool[np.ndarray, " R"]:
    """Return flags of the version in force at every multiple of `every_s`, and the last one."""
    cell = np.ceil(time_s / every_s - 1e-9)  # the next point of the grid, at or after each event
    return np.append(cell[1:] > cell[:-1], True)
