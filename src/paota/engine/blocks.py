"""Events with more devices than memory: two passes over blocks of them, instead of one matrix [n, d].

The first pass trains every block and keeps the devices' scalars, and as many payloads as there is memory for. Between
the passes the server decides on amplitudes. The second pass superposes, training again whatever was not kept. A
digital rule that asks its devices nothing needs only the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..algorithms.base import Report
from .structures import HELD_BYTES, EventInputs

Gains = tuple[Float[Array, " n"], ...]
Sums = tuple[Float[Array, " d"], ...]


class DeviceSignals(NamedTuple):
    """What the devices of an event have, just before they send."""

    payload: Float[Array, "n d"]
    energy: Float[Array, " n"]  # |payload_k|^2
    report: Report  # [n] each
    ready: Bool[Array, " n"]  # whom no guard holds back
    loss: Float[Array, " n"]
    memory: Any = ()  # of the devices that send, from now on; [n, ...] each


class Blocks:
    """The devices of one event, `block` of them at a time; `prepare(row)` trains those of a part of the row."""

    def __init__(self, prepare: Callable[[EventInputs], DeviceSignals], inputs: EventInputs, block: int) -> None:
        self.prepare, self.inputs, self.block = prepare, inputs, block
        places = len(inputs.ready)
        self.shape = jax.eval_shape(prepare, self._part(0))
        self.used = (jnp.max(jnp.where(inputs.ready, jnp.arange(places) + 1, 0)) + block - 1) // block
        self.kept: jax.Array | None = None
        self.most_kept = min(HELD_BYTES // (4 * self.shape.payload.shape[1] * block), places // block)

    def first_pass(self) -> DeviceSignals:
        """The scalars of all devices; `payload` is empty."""
        keeping = jnp.minimum(self.used, self.most_kept)

        def scalars(i: jax.Array, carry: Any) -> Any:
            return self._store(carry, self._without_payload(self._of(i)), i)

        def both(i: jax.Array, carry: Any) -> Any:
            signals = self._of(i)
            done = self._store(carry[0], self._without_payload(signals), i)
            return done, self._store(carry[1], signals.payload, i)

        done = jax.tree.map(lambda a: jnp.zeros((len(self.inputs.ready), *a.shape[1:]), a.dtype), self._empty)
        if not self.most_kept:  # no memory for a single block
            return jax.lax.fori_loop(0, self.used, scalars, done)
        payload = self.shape.payload
        kept = jnp.zeros((self.most_kept * self.block, payload.shape[1]), payload.dtype)
        done, self.kept = jax.lax.fori_loop(0, keeping, both, (done, kept))
        return jax.lax.fori_loop(keeping, self.used, scalars, done)

    def untrained(self) -> DeviceSignals:
        """In place of the first pass, for a rule that needs nothing of it: the devices as the timeline names them."""
        none = jax.tree.map(lambda a: jnp.zeros((len(self.inputs.ready), *a.shape[1:]), a.dtype), self._empty)
        return none._replace(ready=jnp.asarray(self.inputs.ready))

    def second_pass(self, gains: Gains) -> tuple[Sums, jax.Array]:
        """`gain @ payload` for each of the gains, and the devices' losses [n]."""
        width = self.shape.payload.shape[1]

        def add(i: jax.Array, sums: Sums, payload: jax.Array) -> Sums:
            parts = (jax.lax.dynamic_slice_in_dim(gain, i * self.block, self.block) for gain in gains)
            return tuple(total + part @ payload for total, part in zip(sums, parts, strict=True))

        def again(i: jax.Array, carry: tuple[Sums, jax.Array]) -> tuple[Sums, jax.Array]:
            signals = self._of(i)
            return add(i, carry[0], signals.payload), self._store(carry[1], signals.loss, i)

        def from_memory(i: jax.Array, sums: Sums) -> Sums:
            assert self.kept is not None
            return add(i, sums, jax.lax.dynamic_slice_in_dim(self.kept, i * self.block, self.block))

        sums: Sums = tuple(jnp.zeros(width, self.shape.payload.dtype) for _ in gains)
        begin: Any = 0
        if self.kept is not None:
            begin = jnp.minimum(self.used, self.most_kept)
            sums = jax.lax.fori_loop(0, begin, from_memory, sums)
        losses = jnp.zeros(len(self.inputs.ready), self.shape.loss.dtype)
        return jax.lax.fori_loop(begin, self.used, again, (sums, losses))

    @property
    def _empty(self) -> Any:
        return jax.eval_shape(self._without_payload, self.shape)

    @staticmethod
    def _without_payload(signals: DeviceSignals) -> DeviceSignals:
        return signals._replace(payload=signals.payload[:, :0])

    def _of(self, i: jax.Array) -> DeviceSignals:
        return self.prepare(self._part(i * self.block))

    def _part(self, first: Any) -> EventInputs:
        return jax.tree.map(
            lambda column: jax.lax.dynamic_slice_in_dim(column, first, self.block) if jnp.ndim(column) else column,
            self.inputs,
        )

    def _store(self, whole: Any, part: Any, i: jax.Array) -> Any:
        return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, i * self.block, axis=0), whole, part)
