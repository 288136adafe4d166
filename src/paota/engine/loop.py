"""The compiled loop over aggregation events, which does not depend on any particular algorithm.

For each event it takes the start versions from a ring buffer of global models, trains the event's devices, plays the
round, stores the next version, and evaluates it. Many events run in one call. Between calls the host may show progress,
save or stop.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..air.downlink import AnalogDownlink, as_heard
from ..models.base import is_torch
from ..training.batches import draw_augmentation, draw_batches, draw_for_layers
from ..training.learner import LocalUpdates, TrainingInputs
from . import sharding
from .blocks import DeviceSignals
from .evaluation import ModelEvaluation, evaluate
from .round import RoundStart, device_memory, play_round, prepare
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

CallArguments: TypeAlias = tuple[RunConstants, State, EventInputs, np.int32]  # run, state, events, count
Program: TypeAlias = Callable[..., tuple[State, Log]]
MAX_PROGRAMS = 64  # stored in this process


def run_events(
    problem: LearningProblem, shape: ProgramShape, run: RunConstants, state: State, events: EventInputs,
    count: Int[Array, ""],
) -> tuple[State, Log]:  # fmt: skip
    """Play the first `count` of `events`, one after the other; the rest is padding, so that all calls have one shape."""

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
    """Play one aggregation event: version `inputs.round` becomes the next one."""
    config, key, data = run
    order = sharding.interleaved(problem.mesh, shape.places)
    if order is not None:
        inputs = jax.tree.map(lambda column: column[order] if column.ndim else column, inputs)
    start = RoundStart(
        inputs=inputs,
        model=state.ring[inputs.round % shape.versions],
        previous_model=state.ring[jnp.maximum(inputs.round - 1, 0) % shape.versions],
        num_samples=_num_samples(data, inputs, state),
        num_devices=jnp.asarray(len(data.shard_sizes), state.ring.dtype),
        state=state,
    )

    def devices(part: EventInputs) -> DeviceSignals:
        part_start = start._replace(inputs=part, num_samples=_num_samples(data, part, state))
        shift = None
        if config.algorithm.shifts_gradients:
            shift = jax.vmap(config.algorithm.gradient_shift, in_axes=(0, None))(
                device_memory(part_start), state.server
            )
        trained = train(problem, run, state.ring, part, shift)
        start_model = None
        if config.guards.max_update_norm is not None:
            ring_models = state.ring[part.version % shape.versions]
            start_model = as_heard(config.air, key, ring_models, part.version, part.device)
        return prepare(config, key, part_start, trained, start_model)

    outcome, after, loss = play_round(config, key, start, devices, block=shape.block)
    evaluation = jax.lax.cond(
        inputs.evaluate,
        lambda: evaluate(problem, outcome.model, data),
        lambda: ModelEvaluation.unknown(problem.num_classes),
    )
    if problem.train_loss == "batches":
        evaluation = evaluation._replace(train_loss=jnp.where(inputs.ready, loss, 0).sum() / inputs.ready.sum())
    log = Log(
        **evaluation._asdict(), finite=jnp.isfinite(outcome.model).all(), noise_std=outcome.noise_std,
        **{name: getattr(outcome, name) for name in (*PER_DEVICE, "left_out")}, own=outcome.metrics,
    )  # fmt: skip
    if order is not None:
        back = np.argsort(order)
        log = log._replace(**{name: getattr(log, name)[back] for name in PER_DEVICE})
        log = log._replace(left_out=None if log.left_out is None else log.left_out[back])
    return after._replace(ring=state.ring.at[(inputs.round + 1) % shape.versions].set(outcome.model)), log


def _num_samples(data: DeviceData, inputs: EventInputs, state: State) -> Float[Array, " n"]:
    return data.shard_sizes[inputs.device].astype(state.ring.dtype)


def train(
    problem: LearningProblem, run: RunConstants, ring: Float[Array, "V d"], inputs: EventInputs,
    shift: Float[Array, "n d"] | None = None,
) -> LocalUpdates:  # fmt: skip
    """Train every device of the event from the version with which it started.  # Eq. local_update

    `shift` is added to every gradient of a device.
    """

    def local(run: RunConstants, ring: jax.Array, columns: tuple[jax.Array, ...]) -> LocalUpdates:
        version, ready, device, number, shift = columns
        training, data = run.config.training, run.data
        position, steps = draw_batches(
            training, run.key, device, number, data.shard_sizes[device], problem.most_samples
        )
        sample = data.shard_indices[data.shard_offsets[device][:, None, None] + position]
        augmentation = draw_augmentation(training, run.key, device, number, *sample.shape[1:])
        rate = jnp.asarray(training.rate(version), ring.dtype)
        slot = version % len(ring)
        if isinstance(run.config.air.downlink, AnalogDownlink):  # every device starts from its own noisy model
            ring, slot = as_heard(run.config.air, run.key, ring[slot], version, device), jnp.arange(len(slot))
        draw = draw_for_layers(run.key, device, number) if is_torch(problem.model) else None
        training_inputs = TrainingInputs(slot, ready, sample, steps, rate, augmentation, shift, draw)
        return problem.learner.train(training, training_inputs, ring, data.x_train, data.y_train)

    columns = (inputs.version, inputs.ready, inputs.device, inputs.training, shift)
    return sharding.train(problem.mesh, local, (run, ring), columns)


_compiled: dict[object, Program] = {}
_lock = threading.Lock()


def program(problem: LearningProblem, shape: ProgramShape, arguments: CallArguments) -> tuple[Program, float]:
    """Compile `run_events` ahead of time for `arguments`; return the program and the seconds that this took.

    Later calls with the same structure and shapes get the same program in 0 s, whatever the numbers. A program of one
    event overwrites its state with the next one, which saves memory.
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


def program_key(problem: LearningProblem, shape: ProgramShape, arguments: CallArguments) -> object:
    """Return the key by which calls share a program: structure and shapes, not numbers."""
    leaves, structure = jax.tree.flatten(arguments)
    return problem, shape, structure, tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves)


def is_known(problem: LearningProblem, shape: ProgramShape, arguments: CallArguments) -> bool:
    """Return True if `program` has compiled it already."""
    return program_key(problem, shape, arguments) in _compiled


def known_programs() -> int:
    """Return the number of programs that this process has stored."""
    return len(_compiled)


def forget_programs() -> None:
    """Delete every stored program."""
    with _lock:
        _compiled.clear()
