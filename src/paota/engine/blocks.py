"""Events whose devices do not fit into memory together: two passes over blocks instead of one matrix [n, d].

The first pass trains every block and stores the devices' scalars, and as many payloads as fit into memory. Then the
server chooses amplitudes. The second pass superposes, and trains again the devices whose payloads were not stored. A
digital algorithm that needs no reports runs only the second pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..air.uplink import superposed
from ..algorithms.base import Report
from .structures import HELD_BYTES, EventInputs

Gains = tuple[Float[Array, "n ..."], ...]
Sums = tuple[Float[Array, " d"], ...]


class DeviceSignals(NamedTuple):
    """The devices' signals just before they transmit."""

    payload: Float[Array, "n d"]
    energy: Float[Array, " n"]  # |payload_k|^2
    report: Report  # [n] each
    ready: Bool[Array, " n"]  # False also for devices that a guard stops
    loss: Float[Array, " n"]
    memory: PyTree = ()  # new memory of the devices that send, [n, ...] each
    spectrum: Float[Array, "n F"] | None = None  # energy on each subcarrier, if there are several


class Blocks:
    """The devices of one event, `block` of them at a time; `prepare(inputs)` trains the devices of a part of the event."""

    def __init__(self, prepare: Callable[[EventInputs], DeviceSignals], inputs: EventInputs, block: int) -> None:
        self.prepare, self.inputs, self.block = prepare, inputs, block
        places = len(inputs.ready)
        self.shape = jax.eval_shape(prepare, self._part(0))
        self.used = (jnp.max(jnp.where(inputs.ready, jnp.arange(places) + 1, 0)) + block - 1) // block
        self.stored: jax.Array | None = None
        self.most_stored = min(HELD_BYTES // (4 * self.shape.payload.shape[1] * block), places // block)

    def first_pass(self) -> DeviceSignals:
        """Train all devices and return their scalars; `payload` is empty."""
        storing = jnp.minimum(self.used, self.most_stored)

        def scalars(i: jax.Array, done: DeviceSignals) -> DeviceSignals:
            return self._store(done, self._without_payload(self._of(i)), i)

        def both(i: jax.Array, carry: tuple[DeviceSignals, jax.Array]) -> tuple[DeviceSignals, jax.Array]:
            signals = self._of(i)
            done = self._store(carry[0], self._without_payload(signals), i)
            return done, self._store(carry[1], signals.payload, i)

        done = jax.tree.map(lambda a: jnp.zeros((len(self.inputs.ready), *a.shape[1:]), a.dtype), self._empty)
        if not self.most_stored:  # no memory for a single block
            return jax.lax.fori_loop(0, self.used, scalars, done)
        payload = self.shape.payload
        payloads = jnp.zeros((self.most_stored * self.block, payload.shape[1]), payload.dtype)
        done, self.stored = jax.lax.fori_loop(0, storing, both, (done, payloads))
        return jax.lax.fori_loop(storing, self.used, scalars, done)

    def untrained(self) -> DeviceSignals:
        """Return the devices without training them, for an algorithm that does not need the first pass."""
        none = jax.tree.map(lambda a: jnp.zeros((len(self.inputs.ready), *a.shape[1:]), a.dtype), self._empty)
        return none._replace(ready=jnp.asarray(self.inputs.ready))

    def second_pass(self, gains: Gains) -> tuple[Sums, jax.Array]:
        """Return `gain @ payload` for each of the gains, and the devices' losses [n]."""
        width = self.shape.payload.shape[1]

        def add(i: jax.Array, sums: Sums, payload: jax.Array) -> Sums:
            parts = (jax.lax.dynamic_slice_in_dim(gain, i * self.block, self.block) for gain in gains)
            return tuple(total + superposed(part, payload) for total, part in zip(sums, parts, strict=True))

        def train_again(i: jax.Array, carry: tuple[Sums, jax.Array]) -> tuple[Sums, jax.Array]:
            signals = self._of(i)
            return add(i, carry[0], signals.payload), self._store(carry[1], signals.loss, i)

        def from_memory(i: jax.Array, sums: Sums) -> Sums:
            assert self.stored is not None
            return add(i, sums, jax.lax.dynamic_slice_in_dim(self.stored, i * self.block, self.block))

        sums: Sums = tuple(jnp.zeros(width, self.shape.payload.dtype) for _ in gains)
        begin: jax.Array | int = 0
        if self.stored is not None:
            begin = jnp.minimum(self.used, self.most_stored)
            sums = jax.lax.fori_loop(0, begin, from_memory, sums)
        losses = jnp.zeros(len(self.inputs.ready), self.shape.loss.dtype)
        return jax.lax.fori_loop(begin, self.used, train_again, (sums, losses))

    @property
    def _empty(self) -> DeviceSignals:
        return jax.eval_shape(self._without_payload, self.shape)

    @staticmethod
    def _without_payload(signals: DeviceSignals) -> DeviceSignals:
        return signals._replace(payload=signals.payload[:, :0])

    def _of(self, i: jax.Array) -> DeviceSignals:
        return self.prepare(self._part(i * self.block))

    def _part(self, first: jax.Array | int) -> EventInputs:
        return jax.tree.map(
            lambda column: jax.lax.dynamic_slice_in_dim(column, first, self.block) if jnp.ndim(column) else column,
            self.inputs,
        )

    def _store(self, whole: PyTree, part: PyTree, i: jax.Array) -> PyTree:
        return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, i * self.block, axis=0), whole, part)
