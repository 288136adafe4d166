"""One unit of work: one algorithm with one seed, from its initial model (or its checkpoint) to its tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import engine
from ..engine.sharding import replicate
from ..errors import Interrupted, UserError
from ..experiment import Contestant
from ..runs.checkpoint import Checkpoints, Saved
from ..runs.results import Trajectory
from .planning import Plan
from .records import trajectory_of

Observer = Callable[[str, int, int, NDArray[Any]], None]  # label, seed, version, its model [d]


class Unit:
    """Calls the engine until the timeline ends. What it shares with other units comes from the `Schedule` it is of."""

    def __init__(self, schedule: Any, number: int, contestant: Contestant, seed: int) -> None:
        self.schedule, self.number, self.contestant, self.seed = schedule, number, contestant, seed
        plan: Plan = schedule.plan
        self.timeline = plan.timelines[contestant.label, seed]
        self.judged = _evaluate_flags(len(self.timeline), plan.judged_every[contestant.label, seed])
        self.checkpoints: Checkpoints | None = schedule.checkpoints
        self.rule = engine.Rule.of(contestant)
        self.logs: list[Any] = []
        self.done = self.saved = 0
        self.compute_s = 0.0

    def run(self) -> Trajectory:
        """Until the end, a divergence, or a wish to stop (`Interrupted`)."""
        schedule = self.schedule
        task, sizes = schedule.task(self.contestant), schedule.sizes(self.contestant)
        fleet = schedule.fleet(self.contestant, self.seed)
        model = task.initial_model(self.seed)
        initial = [float(value) for value in engine.judge(task, model, fleet)[:3]]
        state = self._begin(engine.State.initial(self.rule, model, sizes.versions))
        schedule.advanced(self, initial[0], state.ring[self.done % sizes.versions])
        while self.done < len(self.timeline) and not self._diverged:
            rows, count = engine.rows_of(self.timeline, self.done, sizes, self.judged)
            arguments = replicate(
                task.mesh, (self.rule, jax.random.key(self.seed), fleet, state, rows, np.int32(count))
            )
            state = self._call(schedule.compiled(self.contestant, task, sizes, arguments), arguments, count)
            schedule.advanced(self, _last_known(self.logs[-1].test_accuracy), state.ring[self.done % sizes.versions])
            stopping = schedule.stopping
            if self.checkpoints and (self.checkpoints.due(self.number) or stopping):
                self._save(state)
            if stopping:
                raise Interrupted
        if self.checkpoints and self.saved < self.done:
            self._save(state)
        log = jax.tree.map(lambda *parts: np.concatenate(parts), *self.logs)
        return trajectory_of(
            schedule.plan, self.contestant, self.seed, self.timeline, log, initial,
            model=np.asarray(state.ring[self.done % sizes.versions]),
            diverged_round=self.done if self._diverged else None, compute_s=self.compute_s,
        )  # fmt: skip

    def _call(self, step: Any, arguments: tuple[Any, ...], count: int) -> engine.State:
        begin = self.schedule.clock(+1)
        try:
            state, log = jax.block_until_ready(step(*arguments))
        finally:
            self.compute_s += self.schedule.clock(-1) - begin
        log = jax.tree.map(lambda column: np.asarray(column)[:count], log)
        bad = np.flatnonzero(~log.finite)
        if len(bad):  # until the first model that is not finite, including it
            log = jax.tree.map(lambda column: column[: bad[0] + 1], log)
        self.logs.append(log)
        self.done += len(log.finite)
        made: engine.State = state
        return made

    @property
    def _diverged(self) -> bool:
        return bool(self.logs) and not self.logs[-1].finite.all()

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

    def _save(self, state: engine.State) -> None:
        assert self.checkpoints is not None
        self.logs[:] = [jax.tree.map(lambda *parts: np.concatenate(parts), *self.logs)]
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
        self.checkpoints.save(self.number, Saved(leaves, self.logs[0]._asdict(), self.done, self.compute_s))
        self.saved = self.done


def _evaluate_flags(events: int, every: int) -> NDArray[np.bool_]:
    """Every `every`-th version and the last one."""
    flags = (np.arange(events) + 1) % every == 0
    flags[-1] = True
    return flags


def _last_known(values: NDArray[Any]) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else math.nan
