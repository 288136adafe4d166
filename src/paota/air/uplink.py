"""The multiple-access channel as an algorithm sees it: precode, transmit together, receive the noisy sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..base.units import dbm_to_w

BUDGET_ROUNDING = 1e-5  # of an energy budget: some 80 roundings in float32


class Uplink(NamedTuple):
    """The air in one aggregation event. Axes: n devices that take part (padded), d parameters.

    `channel` is what devices and server believe, and what precoders and power caps are made from. Where the air has
    errors, `actual_channel` is what the signals really meet; None means that the belief is exact.
    """

    channel: jax.Array  # h_k, complex [n], after combining the receive antennas
    ready: jax.Array  # b_k, bool [n]; padding is never ready
    noise_power_w: jax.Array  # sigma_n^2 = B * N0
    max_power_w: jax.Array  # P_max; [n] where budgets differ
    noise_key: jax.Array
    actual_channel: jax.Array | None = None  # complex [n]
    timing_offset: jax.Array | None = None  # symbols in (-1, 1), positive is late, [n]
    mean_gain: jax.Array | float = 1.0  # E|h_k|^2: path gain, [n]
    packed: bool = False  # two weights a symbol, one on each of the carrier's phases

    def gains(self, precoder: jax.Array) -> tuple[jax.Array, ...]:
        """Real factors [n], one array for each superposition that the receiver's signal is made of (see `receive`).

        Linear in the payloads: each superposition is `gain @ payload`, and parts of the devices may be added up.
        """
        actual = self.channel if self.actual_channel is None else self.actual_channel
        gain = jnp.where(self.ready, actual * precoder, 0.0)
        copies: tuple[jax.Array, ...] = (gain,)
        if self.timing_offset is not None:
            # A rectangular pulse that comes late by x of a symbol leaves 1-x of itself in its own sampling window and
            # x in the next one.
            late, early = jnp.maximum(self.timing_offset, 0.0), jnp.maximum(-self.timing_offset, 0.0)
            copies = (gain * (1 - late - early), gain * late, gain * early)
        return tuple(part(copy) for copy in copies for part in ((jnp.real, jnp.imag) if self.packed else (jnp.real,)))

    def receive(self, superposed: tuple[jax.Array, ...]) -> jax.Array:
        """y = sum_k h_k phi_k payload_k + n, [d], from the superpositions [d] of `gains`.  # Eq. Global_receive

        Payloads are real, so the receiver keeps the real part: of n ~ CN(0, sigma^2) it sees the variance sigma^2/2.
        Packed, it keeps both parts, each with that noise.
        """
        parts = iter(superposed)
        copies = [self._read(part, next(parts)) if self.packed else part for part in parts]
        signal = copies[0]
        if self.timing_offset is not None:
            signal += self._shift(copies[1], 1)
            signal += self._shift(copies[2], -1)
        return signal + jax.random.normal(self.noise_key, signal.shape) * jnp.sqrt(self.noise_power_w / 2)

    def transmit(self, precoder: jax.Array, payload: jax.Array) -> jax.Array:
        """What is received [d] when all devices send their `payload` [n, d] at once with these precoders [n]."""
        return self.receive(tuple(gain @ payload for gain in self.gains(precoder)))

    def transmit_power_w(self, precoder: jax.Array, energy: jax.Array) -> jax.Array:
        """|phi_k payload_k|^2, what Eq. individual_power limits, [n]; `energy` is |payload_k|^2."""
        return jnp.where(self.ready, jnp.abs(precoder) ** 2 * energy, 0.0)

    def without_fading(self) -> Uplink:
        """A plain additive-noise channel, h = 1 and known; symbol timing stays as it is."""
        return self._replace(channel=jnp.ones_like(self.channel), actual_channel=None, mean_gain=1.0)

    @staticmethod
    def _read(in_phase: jax.Array, crossing: jax.Array) -> jax.Array:
        """Two weights a symbol: a phase error leaks from each into the other."""
        quadrature = _pairs(crossing)
        crossed = jnp.stack([-quadrature[:, 1], quadrature[:, 0]], axis=1)  # j (a + jb) = -b + ja
        return in_phase + crossed.ravel()[: in_phase.size]

    def _shift(self, signal: jax.Array, symbols: int) -> jax.Array:
        """The signal one symbol later (1) or earlier (-1), silence moving in."""
        step = 2 if self.packed else 1
        silence = jnp.zeros(step, signal.dtype)
        if symbols > 0:
            return jnp.concatenate([silence, signal])[: signal.size]
        return jnp.concatenate([signal, silence])[-signal.size :]


def invert(amplitude: jax.Array, channel: jax.Array) -> jax.Array:
    """phi_k = p_k conj(h_k) / |h_k|^2: arrives with amplitude p_k and in phase.  # Eq. pre-processing_parameter"""
    return amplitude * jnp.conj(channel) / jnp.abs(channel) ** 2


def within_budget(uplink: Uplink, budget_j: float, spent_j: jax.Array, bandwidth_hz: Any) -> Uplink:
    """The uplink of devices that have spent `spent_j` [n] of their budget: P_max falls to what is left, then to silence.

    A remainder below rounding is no budget: it comes from the last transmission, which was meant to use up the rest.
    """
    left_j = budget_j - spent_j
    left_w = left_j * bandwidth_hz  # |phi_k payload_k|^2 / B is the energy of a block
    return uplink._replace(
        ready=uplink.ready & (left_j > BUDGET_ROUNDING * budget_j),
        max_power_w=jnp.clip(left_w, 0.0, uplink.max_power_w),
    )


def noise_power_w(bandwidth_hz: Any, n0_dbm_per_hz: Any) -> Any:
    """sigma_n^2 = B * N0."""
    return bandwidth_hz * dbm_to_w(n0_dbm_per_hz)


def _pairs(weights: jax.Array) -> jax.Array:
    """[d] -> [ceil(d/2), 2], a zero filling the last symbol of an odd d."""
    return jnp.pad(weights, (0, weights.size % 2)).reshape(-1, 2)
