"""The compiled half of a simulation: a loop over aggregation events that knows nothing of any particular algorithm.

For each event: take the start versions from a ring buffer of global models, train the event's devices side by side, hand
updates and air to the algorithm, store the next version, judge it. Many events run in one call; between calls the host
may show progress, save or stop. The ring buffer holds versions, not devices.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from . import settings
from .air.uplink import Uplink, noise_power_w
from .algorithms.base import Algorithm, Event, Outcome
from .experiment import Air, Power, Training
from .models.base import Model, cross_entropy
from .rng import Purpose, device_key
from .timing.timeline import Timeline

EVALUATION_BLOCK = 10_000  # samples judged at once; bounds the memory of a forward pass


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Everything that decides how an event is computed; its floats are inputs of the program, the rest its shape."""

    algorithm: Algorithm
    training: Training
    air: Air
    power: Power


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The static sizes of one compiled program."""

    input_shape: tuple[int, ...]
    num_classes: int
    max_ready: int  # devices an event, padded
    versions: int  # depth of the ring buffer
    events: int  # an engine call
    train_loss: str


class Fleet(NamedTuple):
    """All data, once: samples are stored once and devices hold indices into them."""

    x_train: jax.Array
    y_train: jax.Array
    x_test: jax.Array
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
        self.traces = 0
        example = jax.eval_shape(lambda: model.init(jax.random.key(0), shape.input_shape, shape.num_classes))
        flat, self.unravel = ravel_pytree(jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), example))
        self.num_parameters = flat.size
        self._step_many = jax.jit(self._run_events)
        self._judge = jax.jit(self._evaluate)

    def initial_model(self, seed: int) -> jax.Array:
        key = device_key(seed, Purpose.INITIAL_MODEL)
        return ravel_pytree(self.model.init(key, self.shape.input_shape, self.shape.num_classes))[0]

    def initial_state(self, model: jax.Array) -> State:
        ring = jnp.tile(model, (self.shape.versions, 1))
        return State(ring, self.template.algorithm.init(model))

    def judge(self, model: jax.Array, fleet: Fleet) -> tuple[jax.Array, jax.Array, jax.Array]:
        """(test accuracy, test loss, F(w)) of one model."""
        return self._judge(model, fleet)

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
        model = state.ring[row.round % depth]
        start = state.ring[row.version % depth]  # [n, d]
        local, batch_loss = self._train(rule.training, seed, fleet, start, row)
        event = Event(
            round=row.round,
            model=model,
            previous_model=state.ring[jnp.maximum(row.round - 1, 0) % depth],
            local_model=local,
            update=local - start,
            staleness=row.round - row.version,
            num_samples=fleet.shard_sizes[row.device].astype(model.dtype),
            ready=row.ready,
            num_devices=jnp.asarray(len(fleet.shard_sizes), model.dtype),
            state=state.server,
        )
        outcome: Outcome = rule.algorithm.aggregate(event, self._uplink(rule, seed, row), rule.power)
        anyone = row.ready.any()  # nobody: w^(r+1) = w^r exactly, with no noise
        new_model = jnp.where(anyone, outcome.model, model)
        server = jax.tree.map(lambda new, old: jnp.where(anyone, new, old), outcome.state, state.server)
        judged = jax.lax.cond(
            row.evaluate, lambda: self._evaluate(new_model, fleet), lambda: (jnp.full((), jnp.nan),) * 3
        )
        if self.shape.train_loss == "batches":
            judged = (*judged[:2], jnp.where(row.ready, batch_loss, 0).sum() / row.ready.sum())
        log = Log(
            *judged,
            jnp.where(anyone, outcome.noise_std, jnp.nan),
            jnp.isfinite(new_model).all(),
            outcome.weight,
            outcome.amplitude,
            outcome.similarity,
            outcome.transmit_power_w,
        )
        return State(state.ring.at[(row.round + 1) % depth].set(new_model), server), log

    def _train(
        self, training: Training, seed: jax.Array, fleet: Fleet, start: jax.Array, row: Any
    ) -> tuple[jax.Array, jax.Array]:
        """M mini-batch SGD steps of every device of the event: (w_k [n, d], mean loss seen [n]).  # Eq. local_update"""
        steps, batch = training.local_steps, training.batch_size
        size = fleet.shard_sizes[row.device]
        position = jax.vmap(
            lambda device, number, high: jax.random.randint(
                draw_key(seed, Purpose.BATCH, device, number), (steps, batch), 0, high
            )
        )(row.device, row.training, size)
        sample = fleet.shard_indices[fleet.shard_offsets[row.device][:, None, None] + position]  # [n, M, B]

        def loss(params: Any, indices: jax.Array) -> jax.Array:
            logits = self.model.apply(params, as_float(fleet.x_train[indices]))
            return cross_entropy(logits, fleet.y_train[indices]).mean()

        def step(params: Any, indices: jax.Array) -> tuple[Any, jax.Array]:
            value, gradient = jax.vmap(jax.value_and_grad(loss))(params, indices)
            return jax.tree.map(lambda w, g: w - training.learning_rate * g, params, gradient), value

        params = jax.vmap(self.unravel)(start)
        params, losses = jax.lax.scan(step, params, sample.swapaxes(0, 1))
        return jax.vmap(lambda p: ravel_pytree(p)[0])(params), losses.mean(axis=0)

    def _uplink(self, rule: Rule, seed: jax.Array, row: Any) -> Uplink:
        channel = jax.vmap(lambda device: rule.air.fading.draw(draw_key(seed, Purpose.CHANNEL, row.round, device)))(
            row.device
        )
        return Uplink(
            channel=channel,
            ready=row.ready,
            noise_power_w=noise_power_w(rule.air.bandwidth_hz, rule.air.n0_dbm_per_hz),
            max_power_w=rule.power.max_power_w,
            noise_key=draw_key(seed, Purpose.NOISE, row.round),
        )

    def _evaluate(self, model: jax.Array, fleet: Fleet) -> tuple[jax.Array, jax.Array, jax.Array]:
        params = self.unravel(model)

        def judge(x: jax.Array, y: jax.Array, weight: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Weighted (accuracy, loss) over all samples, block by block."""
            total = jnp.zeros(2)
            for first in range(0, len(x), EVALUATION_BLOCK):
                block = slice(first, first + EVALUATION_BLOCK)
                logits = self.model.apply(params, as_float(x[block]))
                right = (jnp.argmax(logits, axis=-1) == y[block]).astype(logits.dtype)
                total += jnp.stack([weight[block] @ right, weight[block] @ cross_entropy(logits, y[block])])
            return total[0], total[1]

        equal = jnp.full(len(fleet.y_test), 1.0 / len(fleet.y_test))
        test_accuracy, test_loss = judge(fleet.x_test, fleet.y_test, equal)
        if self.shape.train_loss == "batches":
            return test_accuracy, test_loss, jnp.full((), jnp.nan)
        return test_accuracy, test_loss, judge(fleet.x_train, fleet.y_train, fleet.sample_weight)[1]


def draw_key(seed: jax.Array, purpose: Purpose, *counters: jax.Array) -> jax.Array:
    """The key of one draw inside the program; `seed` is the experiment's root key."""
    key = jax.random.fold_in(seed, int(purpose))
    for counter in counters:
        key = jax.random.fold_in(key, counter)
    return key


def as_float(x: jax.Array) -> jax.Array:
    """Pixels 0..255 are stored as bytes (a quarter of the memory traffic) and scaled to [0, 1] where they are used."""
    return x.astype(float) / 255 if x.dtype == jnp.uint8 else x.astype(float)


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
    )
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
