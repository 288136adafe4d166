"""The compiled loop over aggregation events, which knows nothing of any particular algorithm.

For each event: take the start versions from a ring buffer of global models, train the event's devices, let the server
make the next version, store it, judge it. Many events run in one call; between calls the host may show progress, save
or stop.
"""

from __future__ import annotations

import functools
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Array, Float, Int

from ..air.downlink import as_heard
from ..air.uplink import within_budget
from ..algorithms.base import Algorithm
from . import sharding
from .blocks import Blocks
from .devices import Prepared, prepare, train
from .server import Judgement, Served, conclude, decide, evaluate, event_of, optimise, superpose, uplink_of
from .structures import PER_DEVICE, Fleet, Log, Row, Rule, Sizes, State, Task


def run_events(
    task: Task, sizes: Sizes, rule: Rule, seed: jax.Array, fleet: Fleet, state: State, rows: Row, count: jax.Array
) -> tuple[State, Log]:
    """The first `count` of `rows`, one after the other; the rest is padding, so that every call has the same shape."""

    def one_event(i: jax.Array, carry: tuple[State, Log]) -> tuple[State, Log]:
        state, log = carry
        row = jax.tree.map(lambda column: column[i], rows)
        state, entry = event(task, sizes, rule, seed, fleet, state, row)
        return state, jax.tree.map(lambda all_, one: all_.at[i].set(one), log, entry)

    row_shape = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], column.dtype), rows)
    _, entry_shape = jax.eval_shape(functools.partial(event, task, sizes, rule, seed, fleet), state, row_shape)
    log = jax.tree.map(lambda a: jnp.zeros((sizes.events, *a.shape), a.dtype), entry_shape)
    return jax.lax.fori_loop(0, count, one_event, (state, log))


def event(
    task: Task, sizes: Sizes, rule: Rule, seed: jax.Array, fleet: Fleet, state: State, row: Row
) -> tuple[State, Log]:
    """One aggregation: version `row.round` becomes the next one."""
    order = sharding.interleaved(task.mesh, sizes.places)
    if order is not None:
        row = jax.tree.map(lambda column: column[order] if column.ndim else column, row)
    served, loss = _aggregate(task, sizes, rule, seed, fleet, state, row)
    served, memory = optimise(rule.server, state.ring[row.round % sizes.versions], served, state.optimiser)
    judged = jax.lax.cond(
        row.evaluate,
        lambda: evaluate(task, served.model, fleet),
        lambda: Judgement.unknown(task.num_classes),
    )
    if task.train_loss == "batches":
        judged = judged._replace(train_loss=jnp.where(row.ready, loss, 0).sum() / row.ready.sum())
    log = Log(
        judged.test_accuracy, judged.test_loss, judged.train_loss, served.noise_std, jnp.isfinite(served.model).all(),
        judged.score_by_label, served.weight, served.amplitude, served.similarity, served.transmit_power_w,
        served.channel_gain,
    )  # fmt: skip
    if order is not None:
        back = np.argsort(order)
        log = log._replace(**{name: getattr(log, name)[back] for name in PER_DEVICE})
    ring = state.ring.at[(row.round + 1) % sizes.versions].set(served.model)
    spent_j = state.spent_j
    if rule.power.energy_budget_j is not None:  # a device takes part in an event once; padding has sent nothing
        spent_j = spent_j.at[row.device].add(served.transmit_power_w / rule.air.bandwidth_hz)
    return State(ring, served.state, memory, remembered(state.devices, row.device, served), spent_j), log


def remembered(kept: Any, device: Int[Array, " n"], served: Served) -> Any:
    """The memory [K, ...] of all devices after an event; those that have not sent keep theirs."""

    def write(old: jax.Array, new: jax.Array) -> jax.Array:
        nowhere = len(old)
        return old.at[jnp.where(served.weight != 0, device, nowhere)].set(new, mode="drop")

    return jax.tree.map(write, kept, served.memory)


def _aggregate(
    task: Task, sizes: Sizes, rule: Rule, seed: jax.Array, fleet: Fleet, state: State, row: Row
) -> tuple[Served, Float[Array, " n"]]:
    """Devices, then server; and the devices' losses."""
    model = state.ring[row.round % sizes.versions]
    previous = state.ring[jnp.maximum(row.round - 1, 0) % sizes.versions]

    def num_samples(row: Row) -> Float[Array, " n"]:
        return fleet.shard_sizes[row.device].astype(model.dtype)

    def devices(row: Row) -> Prepared:
        memory = jax.tree.map(lambda column: column[row.device], state.devices)
        shift = None
        if rule.algorithm.shifts_gradients:
            shift = jax.vmap(rule.algorithm.gradient_shift, in_axes=(0, None))(memory, state.server)
        trained = train(task, rule.training, seed, fleet, state.ring, row, shift, rule.air)
        start = None
        if rule.guards.max_update_norm is not None:
            start = as_heard(rule.air, seed, state.ring[row.version % sizes.versions], row.version, row.device)
        return prepare(rule, seed, row, trained, model, previous, num_samples(row), memory, state.server, start)

    blocks = None if sizes.block is None else Blocks(devices, row, sizes.block)
    prepared = devices(row) if blocks is None else blocks.untrained() if asks_nothing(rule) else blocks.first_pass()
    num_devices = jnp.asarray(len(fleet.shard_sizes), model.dtype)
    uplink = uplink_of(rule, seed, row, prepared.ready, model.size)
    if rule.power.energy_budget_j is not None:
        uplink = within_budget(uplink, rule.power.energy_budget_j - state.spent_j[row.device], rule.air.bandwidth_hz)
        prepared = prepared._replace(ready=uplink.ready)
    event = event_of(row, prepared, model, previous, num_samples(row), num_devices, state.server)
    decision = decide(rule.algorithm, rule.power, event, uplink)
    if blocks is None:
        sums = superpose(decision.gains, prepared.payload)
        everything = prepared.payload if rule.algorithm.needs_payloads else None
        served = conclude(rule.algorithm, event, decision, sums, everything)
        return served._replace(memory=prepared.memory), prepared.loss
    sums, loss = blocks.second_pass(decision.gains)
    return conclude(rule.algorithm, event, decision, sums), loss if asks_nothing(rule) else prepared.loss


def asks_nothing(rule: Rule) -> bool:
    """Whether weights follow from the timeline alone: a digital rule without reports, and no guard that holds back."""
    plain = type(rule.algorithm).report is Algorithm.report
    return plain and not rule.algorithm.over_the_air and not rule.guards.reject_non_finite


_compiled: dict[Any, Any] = {}
_lock = threading.Lock()
MAX_PROGRAMS = 64  # kept in this process


def program(task: Task, sizes: Sizes, arguments: tuple[Any, ...]) -> tuple[Any, float]:
    """`run_events` compiled ahead of time for `arguments` (rule, seed, fleet, state, rows, count), and the seconds it took.

    Kept for every later call of the same structure and shapes, whatever the numbers; then the seconds are 0. A program
    of one event takes its state over and writes the next one there, which spares memory.
    """
    key = program_key(task, sizes, arguments)
    with _lock:
        if key in _compiled:
            return _compiled[key], 0.0
    begin = time.perf_counter()
    donated = 3 if sizes.events == 1 else ()
    step = jax.jit(functools.partial(run_events, task, sizes), donate_argnums=donated, out_shardings=_everywhere(task))
    made = step.lower(*arguments).compile()
    seconds = time.perf_counter() - begin
    with _lock:
        while len(_compiled) >= MAX_PROGRAMS:
            del _compiled[next(iter(_compiled))]
        _compiled[key] = made
    return made, seconds


def program_key(task: Task, sizes: Sizes, arguments: tuple[Any, ...]) -> Any:
    """What two calls must share to share a program."""
    leaves, structure = jax.tree.flatten(arguments)
    return task, sizes, structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def is_known(task: Task, sizes: Sizes, arguments: tuple[Any, ...]) -> bool:
    """Whether `program` has it already."""
    return program_key(task, sizes, arguments) in _compiled


def known_programs() -> int:
    """How many programs this process has compiled and kept."""
    return len(_compiled)


def forget_programs() -> None:
    """Let go of every compiled program."""
    with _lock:
        _compiled.clear()


def judge(task: Task, model: Float[Array, " d"], fleet: Fleet) -> Judgement:
    """`evaluate`, compiled."""
    return _judge(task)(*sharding.replicate(task.mesh, (model, fleet)))


@functools.lru_cache(maxsize=MAX_PROGRAMS)
def _judge(task: Task) -> Any:
    return jax.jit(functools.partial(evaluate, task), out_shardings=_everywhere(task))


def _everywhere(task: Task) -> Any:
    return None if task.mesh is None else NamedSharding(task.mesh, sharding.EVERYWHERE)
