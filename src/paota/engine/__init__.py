"""The compiled half of a simulation: a loop over aggregation events that knows nothing of any particular algorithm.

For each event: take the start versions from a ring buffer of global models, let the learner train the event's devices,
hand updates and air to the algorithm, store the next version, judge it. Many events run in one call; between calls the
host may show progress, save or stop. The ring buffer holds versions, not devices; where the models of an event's
devices do not fit into memory, they come block by block.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding

from .. import settings
from ..air.channel import make_uplink
from ..air.settings import Air
from ..air.uplink import Uplink
from ..algorithms.base import Algorithm, Event, Outcome
from ..faults.settings import Faults, Guards
from ..faults.signals import Checked, corrupt_and_guard, disturb
from ..models.base import Model
from ..power.settings import Power
from ..rng import Purpose, device_key, draw_key
from ..timing.timeline import Timeline
from ..training import caches
from ..training.learner import GenericLearner, Learner, Trained
from ..training.learner import as_float as as_float
from ..training.settings import Training
from . import sharding, streaming

caches.use_compile_cache()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Everything that decides how an event is computed; its floats are inputs of the program, the rest its shape."""

    algorithm: Algorithm
    training: Training
    air: Air
    power: Power
    faults: Faults = field(default_factory=Faults)
    guards: Guards = field(default_factory=Guards)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The static sizes of one compiled program."""

    input_shape: tuple[int, ...]
    num_classes: int
    max_ready: int  # devices an event, padded
    versions: int  # depth of the ring buffer
    events: int  # an engine call
    train_loss: str
    learner: Learner | None = None  # None: the generic one
    block: int | None = None  # devices whose models are held at once; None: all of the event
    mesh: Mesh | None = None  # JAX devices that share the work; None: one


class Fleet(NamedTuple):
    """All data: samples are stored once, `x_*` as the learner encodes them, and devices hold indices into them."""

    x_train: Any
    y_train: jax.Array
    x_test: Any
    y_test: jax.Array
    shard_indices: jax.Array
    shard_offsets: jax.Array  # [K]
    shard_sizes: jax.Array  # [K]
    sample_weight: jax.Array  # share of each training sample in F (Eq. sys_FL_task), sums to 1


class Rows(NamedTuple):
    """Events in the form the program wants, [events] or [events, max_ready]."""

    round: np.ndarray
    evaluate: np.ndarray
    ready: np.ndarray
    device: np.ndarray
    version: np.ndarray
    training: np.ndarray
    time_s: np.ndarray


class State(NamedTuple):
    """What one event hands to the next."""

    ring: jax.Array  # [versions, d]; version v stands at v mod versions
    server: Any


class Log(NamedTuple):
    """What is recorded of each event; the last four for each device that took part."""

    test_accuracy: jax.Array
    test_loss: jax.Array
    train_loss: jax.Array
    noise_std: jax.Array
    finite: jax.Array
    weight: jax.Array
    amplitude: jax.Array
    similarity: jax.Array
    transmit_power_w: jax.Array


class Program:
    """One compiled simulation. Instances are shared by all experiments that differ only in numbers."""

    def __init__(self, template: Rule, model: Model, shape: Shape) -> None:
        self.template, self.model, self.shape = template, model, shape
        self.learner = shape.learner or GenericLearner(model, shape.input_shape, shape.num_classes)
        self.traces = 0
        example = jax.eval_shape(lambda: model.init(jax.random.key(0), shape.input_shape, shape.num_classes))
        flat, self.unravel = ravel_pytree(jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), example))
        self.num_parameters = flat.size
        everywhere = None if shape.mesh is None else NamedSharding(shape.mesh, sharding.EVERYWHERE)
        # The state is handed on: the next call may write where the last one left it.
        self._step_many = jax.jit(self._run_events, donate_argnames="state", out_shardings=everywhere)
        self._judge = jax.jit(self._evaluate, out_shardings=everywhere)

    def initial_model(self, seed: int) -> jax.Array:
        key = device_key(seed, Purpose.INITIAL_MODEL)
        return ravel_pytree(self.model.init(key, self.shape.input_shape, self.shape.num_classes))[0]

    def initial_state(self, model: jax.Array) -> State:
        ring = jnp.tile(model, (self.shape.versions, 1))
        return State(ring, self.template.algorithm.init(model))

    def judge(self, model: jax.Array, fleet: Fleet) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(test accuracy, test loss, F(w)) of one model."""
        return self._judge(self.place(model), self.place(fleet))

    def place(self, tree: Any) -> Any:
        """Arrays where the program expects them: on every JAX device that shares the work."""
        return sharding.replicate(self.shape.mesh, tree)

    def compile(self, *arguments: Any) -> Any:
        """Ahead of time, so that compiling can be announced and kept out of the measured speed."""
        return self._step_many.lower(*arguments).compile()

    def _run_events(
        self, numbers: dict[str, jax.Array], seed: jax.Array, fleet: Fleet, state: State, rows: Rows, count: jax.Array
    ) -> tuple[State, Log]:
        """The first `count` of `rows`; the rest is padding, so that every call has the same shape."""
        self.traces += 1
        rule: Rule = settings.replace_floats(self.template, numbers)

        def one_event(i: jax.Array, carry: tuple[State, Log]) -> tuple[State, Log]:
            state, log = carry
            row = jax.tree.map(lambda column: column[i], rows)
            state, entry = self._event(rule, seed, fleet, state, row)
            return state, jax.tree.map(lambda all_, one: all_.at[i].set(one), log, entry)

        row_shape = jax.tree.map(lambda column: jax.ShapeDtypeStruct(column.shape[1:], column.dtype), rows)
        _, entry_shape = jax.eval_shape(functools.partial(self._event, rule, seed, fleet), state, row_shape)
        log = jax.tree.map(lambda a: jnp.zeros((self.shape.events, *a.shape), a.dtype), entry_shape)
        return jax.lax.fori_loop(0, count, one_event, (state, log))

    def _event(self, rule: Rule, seed: jax.Array, fleet: Fleet, state: State, row: Any) -> tuple[State, Log]:
        depth = self.shape.versions
        order = sharding.dealt(self.shape.mesh, self.shape.max_ready)
        if order is not None:
            row = jax.tree.map(lambda column: column[order] if column.ndim else column, row)

        def serve(local: jax.Array, update: jax.Array, loss: jax.Array) -> tuple[Outcome, jax.Array]:
            outcome = self.aggregate(
                rule, seed, row, state.ring[row.round % depth], state.ring[jnp.maximum(row.round - 1, 0) % depth],
                None, local, num_samples=fleet.shard_sizes[row.device], num_devices=len(fleet.shard_sizes),
                state=state.server, update=update,
            )  # fmt: skip
            return outcome, jnp.squeeze(loss, axis=1)

        outcome, batch_loss = self._with_trained(rule.training, seed, fleet, state.ring, row, serve)
        new_model, server = outcome.model, outcome.state
        accuracy, test_loss, train_loss = jax.lax.cond(
            row.evaluate, lambda: self._evaluate(new_model, fleet), lambda: (jnp.full((), jnp.nan),) * 3
        )
        if self.shape.train_loss == "batches":
            train_loss = jnp.where(row.ready, batch_loss, 0).sum() / row.ready.sum()
        log = Log(
            accuracy,
            test_loss,
            train_loss,
            outcome.noise_std,
            jnp.isfinite(new_model).all(),
            outcome.weight,
            outcome.amplitude,
            outcome.similarity,
            outcome.transmit_power_w,
        )
        if order is not None:
            back = np.argsort(order)
            log = jax.tree.map(lambda column: column[back] if column.ndim else column, log)
        return State(state.ring.at[(row.round + 1) % depth].set(new_model), server), log

    def aggregate(
        self, rule: Rule, seed: jax.Array, row: Any, model: jax.Array, previous_model: jax.Array,
        start: jax.Array | None, local: jax.Array, *, num_samples: jax.Array, num_devices: int, state: Any,
        update: jax.Array | None = None,
    ) -> Outcome:  # fmt: skip
        """The server's half of an event; a deployment (`paota.flower`) calls it with what real devices have trained.

        Give the devices' `start` [n, d], or their `update` where it is known already.
        """
        if update is None:
            assert start is not None
            update = local - start
        work = Checked(local, update, row.ready)
        work = corrupt_and_guard(rule.faults, rule.guards, seed, row.device, work)
        row = row._replace(ready=work.ready)
        event = Event(
            round=row.round,
            model=model,
            previous_model=previous_model,
            local_model=work.local_model,
            update=work.update,
            staleness=row.round - row.version,
            num_samples=num_samples.astype(model.dtype),
            ready=row.ready,
            num_devices=jnp.asarray(num_devices, model.dtype),
            state=state,
        )
        outcome = rule.algorithm.aggregate(event, self._uplink(rule, seed, row), rule.power)
        anyone = row.ready.any()  # nobody: w^(r+1) = w^r exactly, with no noise
        kept = jax.tree.map(lambda new, old: jnp.where(anyone, new, old), outcome.state, state)
        noise_std = jnp.where(anyone, outcome.noise_std, jnp.nan)
        return outcome._replace(model=jnp.where(anyone, outcome.model, model), noise_std=noise_std, state=kept)

    def _train(
        self, training: Training, seed: jax.Array, fleet: Fleet, start: jax.Array, row: Any
    ) -> tuple[jax.Array, jax.Array]:
        """(w_k [n, d], mean loss seen [n]) of devices that start from models of their own, `start` [n, d]."""
        everyone = row._replace(ready=jnp.ones(len(start), bool))
        trained = self._train_devices(training, seed, fleet, start, jnp.arange(len(start)), everyone)
        return trained.local_model, trained.loss

    def _with_trained(
        self, training: Training, seed: jax.Array, fleet: Fleet, ring: jax.Array, row: Any, serve: Any
    ) -> tuple[Outcome, jax.Array]:
        """`serve(local, update, loss [n, 1])` of all devices of the event, or the same block by block of devices."""
        columns = (row.version % self.shape.versions, row.ready, row.device, row.training)

        def train(*columns: jax.Array) -> tuple[jax.Array, ...]:
            slot, ready, device, number = columns
            part = row._replace(ready=ready, device=device, training=number)
            trained = self._train_devices(training, seed, fleet, ring, slot, part)
            return trained.local_model, trained.update, trained.loss[:, None]

        block = self.shape.block
        if block is None:
            served: tuple[Outcome, jax.Array] = serve(*train(*columns))
            return served

        def part(first: jax.Array) -> tuple[jax.Array, ...]:
            return tuple(jax.lax.dynamic_slice_in_dim(column, first, block) for column in columns)

        def restore(first: jax.Array, kept: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            local, loss = kept
            return local, local - ring[part(first)[0]], loss

        places = self.shape.max_ready
        return streaming.in_blocks(  # type: ignore[no-any-return]
            serve,
            lambda first: train(*part(first)),
            rows=places,
            block=block,
            used=jnp.max(jnp.where(row.ready, jnp.arange(places) + 1, 0)),
            memory=streaming.Memory(
                blocks=HELD_BYTES // (4 * ring.shape[1] * block),
                keep=lambda trained: (trained[0], trained[2]),  # the update follows from the model
                restore=restore,
            ),
        )

    def _train_devices(
        self, training: Training, seed: jax.Array, fleet: Fleet, ring: jax.Array, slot: jax.Array, row: Any
    ) -> Trained:
        """M mini-batch SGD steps of every device of the event, from `ring[slot]`.  # Eq. local_update"""
        shape = (training.local_steps, training.batch_size)
        rate = jnp.asarray(training.learning_rate, ring.dtype)

        def train(
            seed: jax.Array, fleet: Fleet, ring: jax.Array, rate: jax.Array,
            slot: jax.Array, ready: jax.Array, device: jax.Array, number: jax.Array,
        ) -> Trained:  # fmt: skip
            position = jax.vmap(
                lambda k, n, high: jax.random.randint(draw_key(seed, Purpose.BATCH, k, n), shape, 0, high)
            )(device, number, fleet.shard_sizes[device])
            sample = fleet.shard_indices[fleet.shard_offsets[device][:, None, None] + position]  # [n, M, B]
            return self.learner.train(rate, ring, slot, ready, sample, fleet.x_train, fleet.y_train)

        columns = (slot, row.ready, row.device, row.training)
        return sharding.train(self.shape.mesh, train, (seed, fleet, ring, rate), columns)

    def _uplink(self, rule: Rule, seed: jax.Array, row: Any) -> Uplink:
        uplink = make_uplink(
            rule.air, rule.power, seed, round=row.round, time_s=row.time_s, device=row.device, ready=row.ready
        )
        return disturb(rule.faults, seed, row.round, row.device, uplink)

    def _evaluate(self, model: jax.Array, fleet: Fleet) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(test accuracy, test loss, F(w)); F is Eq. sys_FL_task, or NaN where the mini-batches' loss stands for it."""
        judge = functools.partial(sharding.judge, self.shape.mesh, self.learner, model)
        accuracy, loss = judge(fleet.x_test, fleet.y_test, jnp.full(len(fleet.y_test), 1.0 / len(fleet.y_test)))
        if self.shape.train_loss == "batches":
            return accuracy, loss, jnp.full((), jnp.nan)
        return accuracy, loss, judge(fleet.x_train, fleet.y_train, fleet.sample_weight)[1]


HELD_BYTES = 3 * 2**29  # of devices' models, the most that an event keeps in memory
BLOCK_BYTES = 2**24  # of devices' models in a block, where they do not all fit


def sizes(devices: int, num_parameters: int, mesh: Mesh | None) -> tuple[int, int | None]:
    """(places for the devices of an event, devices held at once or None for all of them).

    Few different sizes, and whole vectors: then zeros at the end change no sum.
    """
    unit = math.lcm(16 if devices > 1 else 1, 1 if mesh is None else mesh.size)
    if _round_up(devices, unit) * row_bytes(num_parameters) <= HELD_BYTES:
        return _round_up(devices, unit), None
    block = _round_up(BLOCK_BYTES // row_bytes(num_parameters), unit)
    return _round_up(devices, block), block


def row_bytes(num_parameters: int) -> int:
    """Of one device of an event: its model and its update."""
    return 2 * 4 * num_parameters


def _round_up(number: int, unit: int) -> int:
    return max(1, -(-number // unit)) * unit


@functools.lru_cache(maxsize=32)
def _program(template: Rule, model: Model, shape: Shape) -> Program:
    return Program(template, model, shape)


def program_for(rule: Rule, model: Model, shape: Shape) -> Program:
    """The program for `rule`, shared with every rule that has the same structure."""
    blank = settings.replace_floats(rule, dict.fromkeys(settings.floats(rule), 0.0))
    return _program(blank, model, shape)


def rows_of(timeline: Timeline, first: int, shape: Shape, evaluate: np.ndarray) -> tuple[Rows, int]:
    """Events `first`, `first`+1, ... of a timeline, padded to the program's shape, and how many there are."""
    count = min(shape.events, len(timeline) - first)
    rows = Rows(
        round=first + np.arange(shape.events, dtype=np.int32),
        evaluate=np.zeros(shape.events, bool),
        ready=np.zeros((shape.events, shape.max_ready), bool),
        device=np.zeros((shape.events, shape.max_ready), np.int32),
        version=np.zeros((shape.events, shape.max_ready), np.int32),
        training=np.zeros((shape.events, shape.max_ready), np.int32),
        time_s=np.zeros(shape.events, np.float32),
    )
    rows.time_s[:count] = timeline.time_s[first : first + count]
    rows.evaluate[:count] = evaluate[first : first + count]
    for i in range(count):
        flat = slice(timeline.offsets[first + i], timeline.offsets[first + i + 1])
        n = flat.stop - flat.start
        rows.ready[i, :n] = True
        rows.device[i, :n] = timeline.device[flat]
        rows.version[i, :n] = timeline.version[flat]
        rows.training[i, :n] = timeline.training[flat]
        rows.version[i, n:] = first + i  # padding must name a version that the ring buffer still holds
    return rows, count
