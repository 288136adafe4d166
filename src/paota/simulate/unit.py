"""One unit of work: one algorithm with one seed, from its initial model (or its checkpoint) to its tables."""

from __future__ import annotations

import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import engine
from ..base.errors import Interrupted, UserError
from ..callbacks.group import CallbackReply
from ..engine.sharding import replicate
from ..experiment.experiment import AlgorithmConfig
from ..results.checkpoint import Checkpoints, Saved
from ..results.result import Trajectory
from .preparation import PreparedRun, costs_of
from .records import rounds_of, trajectory_of

CALL_S = 1.0  # that an engine call should last: so often the host looks, tells and saves


class Unit:
    """Calls the engine until the timeline ends. What it shares with other units comes from the `Schedule` it is of.

    `state`, `logs` and `done` change together, after the callbacks have heard of the rounds: whatever is saved, they
    know, and would stop where they have stopped.
    """

    def __init__(self, schedule: Any, number: int, entry: AlgorithmConfig, seed: int) -> None:
        self.schedule, self.number, self.entry, self.seed = schedule, number, entry, seed
        prepared: PreparedRun = schedule.prepared
        self.timeline = prepared.timelines[entry.label, seed]
        every_s = prepared.experiment.evaluation.every_s
        if every_s is None:
            self.evaluated = _evaluate_flags(len(self.timeline), prepared.evaluated_every[entry.label, seed])
        else:
            self.evaluated = _flags_on_grid(self.timeline.time_s, every_s)
        self.checkpoints: Checkpoints | None = schedule.checkpoints
        self.config = engine.RoundConfig.of(entry)
        self.costs = costs_of(prepared, entry, seed)
        self.logs: list[Any] = []
        self.done = self.saved = 0
        self.begun = self.stopped = False
        self.compute_s = 0.0
        self._lock = threading.Lock()  # for what is saved
        self._lent = False  # the engine is writing where the state stands

    def run(self) -> Trajectory:
        """Until the end, a divergence, a callback's wish to stop it, or a wish to stop everything (`Interrupted`)."""
        schedule = self.schedule
        self.problem, self.program_shape = schedule.problem(self.entry), schedule.program_shape(self.entry, self.seed)
        self.device_data = schedule.device_data(self.entry, self.seed)
        model = self.problem.initial_model(self.seed)
        self.num_parameters = model.size
        *initial, by_label = engine.evaluate_model(self.problem, model, self.device_data)
        self.initial, self.num_labels = [float(value) for value in initial], len(by_label)
        self.state = self._begin(schedule.initial_state(self.config, model, program_shape=self.program_shape))
        self.events = schedule.events_per_call or 1  # of the next call
        self.begun = True
        self._tell_the_beginning()
        while not self.over:
            self._advance()
            if self.checkpoints and (self.checkpoints.due(self.number) or schedule.stopping):
                self.save()
            if schedule.stopping:
                raise Interrupted
        if self.checkpoints:
            self.save()
        return self.trajectory()

    @property
    def over(self) -> bool:
        """Whether no further round is to be computed."""
        return self.done == len(self.timeline) or self.stopped or self._diverged

    @property
    def _diverged(self) -> bool:
        return bool(self.logs) and not self.logs[-1].finite.all()

    def trajectory(self) -> Trajectory:
        """The tables of what is done."""
        log = self._whole_log()
        return trajectory_of(
            self.schedule.prepared, self.entry, self.seed, self.timeline, log, self.initial,
            model=self._model_of(self.state, self.done),
            diverged_round=self.done if self._diverged else None, compute_s=self.compute_s,
            stopped_round=self.done if self.stopped and self.done < len(self.timeline) else None,
        )  # fmt: skip

    def _advance(self) -> None:
        """One engine call: compute, tell, and keep what has been told."""
        begin = time.perf_counter()
        state, log = self._compute(self.events)
        self._adapt(len(log.finite), time.perf_counter() - begin)
        reply = self._tell(log, state, self.done)
        kept = reply.round - self.done
        if kept < len(log.finite):  # stopped in the midst of the call: compute it again up to there, to the same bits
            state, log = self._compute(kept)
        with self._lock:
            if self.schedule.left_behind:
                raise Interrupted
            self.state, self.stopped, self._lent = state, reply.stop, False
            self.logs.append(log)
            self.done += kept
        if reply.error:
            raise reply.error

    def _compute(self, events: int) -> tuple[engine.State, Any]:
        """The state after at most so many further events, or after the first model that is not finite; and their log."""
        rows, count = engine.inputs_of(self.timeline, self.done, self.program_shape, self.evaluated, most=events)
        run = engine.RunConstants(self.config, jax.random.key(self.seed), self.device_data)
        arguments = replicate(self.problem.mesh, (run, self.state, rows, np.int32(count)))
        step = self.schedule.compiled(self.entry, self.problem, self.program_shape, arguments)
        self._lent = self.program_shape.events == 1
        begin = self.schedule.clock(+1)
        try:
            state, log = jax.block_until_ready(step(*arguments))
        finally:
            self.compute_s += self.schedule.clock(-1) - begin
        log = _first(jax.tree.map(np.asarray, log), count)
        bad = np.flatnonzero(~log.finite)
        # What came after it has overwritten the model that is not finite: compute it again.
        return self._compute(int(bad[0]) + 1) if len(bad) and bad[0] + 1 < count else (state, log)

    def _adapt(self, events: int, seconds: float) -> None:
        """As many events in the next call as take about a second, where nobody has said how many."""
        if self.schedule.events_per_call is None:
            wanted = int(events * CALL_S / max(seconds, 1e-9))
            self.events = max(1, min(wanted, 4 * events, self.program_shape.events))

    def _tell(self, log: Any, state: engine.State, first: int, initial: Any = None) -> CallbackReply:
        """Tell the callbacks of the events after the first `first`, which are in `log` and led to `state`."""
        schedule, last = self.schedule, first + len(log.finite)
        if not schedule.callbacks:
            return CallbackReply(last)
        rounds = rounds_of(
            self.entry, self.seed, self.timeline.part(first, len(log.finite)), log, initial,
            rounds=len(self.timeline), num_parameters=self.num_parameters, costs=self.costs,
            model=self._model_of(state, last) if schedule.callbacks.models else None,
        )  # fmt: skip
        reply: CallbackReply = schedule.threads.ask(schedule.callbacks.rounds, list(rounds))
        return reply

    def _tell_the_beginning(self) -> None:
        """Round 0 and all that a checkpoint holds. A wish to stop among these comes too late: the unit ends here."""
        reply = self._tell(self._whole_log(), self.state, 0, self.initial)
        self.stopped = reply.stop
        if reply.error:
            raise reply.error

    def _model_of(self, state: engine.State, version: int) -> NDArray[Any]:
        return np.array(state.ring[version % self.program_shape.versions])

    def _whole_log(self) -> Any:
        if not self.logs:
            none, nobody = np.zeros(0, np.float32), np.zeros((0, self.program_shape.places), np.float32)
            columns = {name: nobody if name in engine.PER_DEVICE else none for name in engine.Log._fields}
            columns |= {"finite": none.astype(bool), "score_by_label": np.zeros((0, self.num_labels), np.float32)}
            self.logs = [engine.Log(**columns)]  # type: ignore[arg-type]
        self.logs[:] = [jax.tree.map(lambda *parts: np.concatenate(parts), *self.logs)]
        return self.logs[0]

    def _begin(self, state: engine.State) -> engine.State:
        """From the unit's checkpoint if there is one, else from scratch."""
        saved = self.checkpoints.load(self.number) if self.checkpoints else None
        if saved is None:
            return state
        leaves, structure = jax.tree.flatten(state)
        if [np.shape(leaf) for leaf in leaves] != [leaf.shape for leaf in saved.state]:
            raise UserError(f"checkpoint {self.number} holds a state of another shape: it belongs to another run")
        self.logs = [engine.Log(**saved.log)]  # type: ignore[arg-type]  # on the host a log holds NumPy arrays
        self.done = self.saved = saved.done
        self.compute_s = saved.compute_s
        restored: engine.State = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in saved.state])
        return restored

    def save(self) -> None:
        """Write a checkpoint of what is done, unless there is one. By any thread, at any time.

        Of a very large state that the engine is at work on, the last checkpoint must do.
        """
        with self._lock:
            if self.saved == self.done or self.checkpoints is None or self._lent:
                return
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.state)]
            saved = Saved(leaves, self._whole_log()._asdict(), self.done, self.compute_s)
            self.checkpoints.save(self.number, saved)
            self.saved = self.done


def _first(log: Any, events: int) -> Any:
    return jax.tree.map(lambda column: column[:events], log)


def _evaluate_flags(events: int, every: int) -> NDArray[np.bool_]:
    """Every `every`-th version and the last one."""
    flags = (np.arange(events) + 1) % every == 0
    flags[-1] = True
    return flags


def _flags_on_grid(time_s: NDArray[np.float64], every_s: float) -> NDArray[np.bool_]:
    """The version in force at every multiple of `every_s`, and the last one: what everybody can be compared at."""
    cell = np.ceil(time_s / every_s - 1e-9)  # the next point of the grid, at or after each event
    return np.append(cell[1:] > cell[:-1], True)
