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
from jaxtyping import Array, Float

from ..air.downlink import as_heard
from . import sharding
from .blocks import DeviceSignals
from .evaluation import ModelEvaluation, evaluate
from .local_training import train
from .round import RoundStart, memory_of, play_round, prepare
from .structures import (
    PER_DEVICE,
    DeviceData,
    EventInputs,
    LearningProblem,
    Log,
    ProgramShape,
    RunConstants,
    State,
)


def run_events(
    problem: LearningProblem,
    shape: ProgramShape,
    run: RunConstants,
    state: State,
    events: EventInputs,
    count: jax.Array,
) -> tuple[State, Log]:
    """The first `count` of `events`, one after the other; the rest is padding, so that every call has the same shape."""

    def one_event(i: jax.Array, carry: tuple[State, Log]) -> tuple[State, Log]:
        state, log = carry
        inputs = jax.tree.map(lambda column: column[i], events)
        state, entry = event(problem, shape, run, state, inputs)
        return state, jax.tree.map(lambda all_, one: all_.at[i].set(one), log, entry)

    inputs_shape = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], column.dtype), events)
    _, entry_shape = jax.eval_shape(functools.partial(event, problem, shape, run), state, inputs_shape)
    log = jax.tree.map(lambda a: jnp.zeros((shape.events, *a.shape), a.dtype), entry_shape)
    return jax.lax.fori_loop(0, count, one_event, (state, log))


def event(
    problem: LearningProblem, shape: ProgramShape, run: RunConstants, state: State, inputs: EventInputs
) -> tuple[State, Log]:
    """One aggregation: version `inputs.round` becomes the next one."""
    config, key, data = run
    order = sharding.interleaved(problem.mesh, shape.places)
    if order is not None:
        inputs = jax.tree.map(lambda column: column[order] if column.ndim else column, inputs)
    before = RoundStart(
        inputs=inputs,
        model=state.ring[inputs.round % shape.versions],
        previous_model=state.ring[jnp.maximum(inputs.round - 1, 0) % shape.versions],
        num_samples=_num_samples(data, inputs, state.ring.dtype),
        num_devices=jnp.asarray(len(data.shard_sizes), state.ring.dtype),
        state=state,
    )

    def devices(part: EventInputs) -> DeviceSignals:
        mine = before._replace(inputs=part, num_samples=_num_samples(data, part, state.ring.dtype))
        shift = None
        if config.algorithm.shifts_gradients:
            shift = jax.vmap(config.algorithm.gradient_shift, in_axes=(0, None))(memory_of(mine), state.server)
        trained = train(problem, run, state.ring, part, shift)
        start = None
        if config.guards.max_update_norm is not None:
            start = as_heard(config.air, key, state.ring[part.version % shape.versions], part.version, part.device)
        return prepare(config, key, mine, trained, start)

    outcome, after, loss = play_round(config, key, before, devices, block=shape.block)
    evaluation = jax.lax.cond(
        inputs.evaluate,
        lambda: evaluate(problem, outcome.model, data),
        lambda: ModelEvaluation.unknown(problem.num_classes),
    )
    if problem.train_loss == "batches":
        evaluation = evaluation._replace(train_loss=jnp.where(inputs.ready, loss, 0).sum() / inputs.ready.sum())
    log = Log(
        evaluation.test_accuracy, evaluation.test_loss, evaluation.train_loss, outcome.noise_std,
        jnp.isfinite(outcome.model).all(), evaluation.score_by_label, outcome.weight, outcome.amplitude,
        outcome.similarity, outcome.transmit_power_w, outcome.channel_gain,
    )  # fmt: skip
    if order is not None:
        back = np.argsort(order)
        log = log._replace(**{name: getattr(log, name)[back] for name in PER_DEVICE})
    return after._replace(ring=state.ring.at[(inputs.round + 1) % shape.versions].set(outcome.model)), log


def _num_samples(data: DeviceData, inputs: EventInputs, kind: Any) -> Float[Array, " n"]:
    return data.shard_sizes[inputs.device].astype(kind)


_compiled: dict[Any, Any] = {}
_lock = threading.Lock()
MAX_PROGRAMS = 64  # kept in this process


def program(problem: LearningProblem, shape: ProgramShape, arguments: tuple[Any, ...]) -> tuple[Any, float]:
    """`run_events` compiled ahead of time for `arguments` (run, state, events, count), and the seconds it took.

    Kept for every later call of the same structure and shapes, whatever the numbers; then the seconds are 0. A program
    of one event takes its state over and writes the next one there, which spares memory.
    """
    key = program_key(problem, shape, arguments)
    with _lock:
        if key in _compiled:
            return _compiled[key], 0.0
    begin = time.perf_counter()
    donated = 1 if shape.events == 1 else ()
    shared = sharding.everywhere(problem.mesh)
    step = jax.jit(functools.partial(run_events, problem, shape), donate_argnums=donated, out_shardings=shared)
    made = step.lower(*arguments).compile()
    seconds = time.perf_counter() - begin
    with _lock:
        while len(_compiled) >= MAX_PROGRAMS:
            del _compiled[next(iter(_compiled))]
        _compiled[key] = made
    return made, seconds


def program_key(problem: LearningProblem, shape: ProgramShape, arguments: tuple[Any, ...]) -> Any:
    """What two calls must share to share a program."""
    leaves, structure = jax.tree.flatten(arguments)
    return problem, shape, structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def is_known(problem: LearningProblem, shape: ProgramShape, arguments: tuple[Any, ...]) -> bool:
    """Whether `program` has it already."""
    return program_key(problem, shape, arguments) in _compiled


def known_programs() -> int:
    """How many programs this process has compiled and kept."""
    return len(_compiled)


def forget_programs() -> None:
    """Let go of every compiled program."""
    with _lock:
        _compiled.clear()
