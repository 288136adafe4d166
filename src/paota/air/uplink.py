"""The multiple-access channel of one round: devices precode, transmit together, and the server receives the noisy sum.

Axes: n devices that take part (padded), d parameters, F subcarriers. Signals are in units in which a symbol of power 1 W
has amplitude 1, so powers are in W.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, Int, Key, Shaped

from ..base.units import dbm_to_w

BUDGET_ROUNDING = 1e-5  # of an energy budget: some 80 roundings in float32


class Uplink(NamedTuple):
    """The channel in one aggregation event.

    Precoders and power caps depend on `channel`, the estimate that devices and server share. If the estimate is not
    exact, `actual_channel` is the channel that the signals pass through. None means that the estimate is exact.
    """

    channel: Complex[Array, " n"]  # h_k, amplitude ratio, after combining the receive antennas
    ready: Bool[Array, " n"]  # b_k; padding is never ready
    noise_power_w: Float[Array, ""] | float  # sigma_n^2 = B * N0 in W
    max_power_w: Float[Array, ""] | Float[Array, " n"]  # P_max in W; [n] where budgets differ
    noise_key: Key[Array, ""]  # for the receiver noise of this round
    actual_channel: Complex[Array, " n"] | None = None  # amplitude ratio
    timing_offset: Float[Array, " n"] | None = None  # symbols in (-1, 1); positive is late
    mean_gain: Float[Array, " n"] | float = 1.0  # path gain E|h_k|^2, power ratio
    packed: bool = False  # two weights per symbol, one on each of the carrier's phases
    # Several subcarriers: `channel` is the effective channel of `precoding.precoded`, and a signal arrives on subcarrier f
    # with p_k times these factors.
    relative: Float[Array, "n F"] | None = None  # r_kf, as devices and server know it; None: 1
    met: Shaped[Array, "n F"] | None = None  # the same behind the true channel, complex if that differs; None: 1

    def gains(self, precoder: Complex[Array, " n"]) -> tuple[Float[Array, "n ..."], ...]:
        """Return the real factors of each superposition that the received signal consists of (see `receive`).

        The factors are [n], or [n, p] if they repeat every p parameters. Each superposition is
        `superposed(gain, payload)`, which is linear in the payloads, so partial sums may be added up.

        Args:
            precoder: phi_k of each device, amplitude ratio, [n].
        """
        actual = self.channel if self.actual_channel is None else self.actual_channel
        gain = jnp.where(self.ready, actual * precoder, 0.0)
        if self.met is not None:
            gain = jnp.repeat(gain[:, None] * self.met, 2 if self.packed else 1, axis=1)
        copies: tuple[Array, ...] = (gain,)
        if self.timing_offset is not None:
            # A rectangular pulse that is late by x of a symbol leaves 1-x of itself in its own sampling window and x in
            # the next one.
            late, early = jnp.maximum(self.timing_offset, 0.0), jnp.maximum(-self.timing_offset, 0.0)
            copies = (gain * (1 - late - early), gain * late, gain * early)
        return tuple(part(copy) for copy in copies for part in ((jnp.real, jnp.imag) if self.packed else (jnp.real,)))

    def share(self, amplitude: Float[Array, " n"]) -> Float[Array, " F"]:
        """Return sum_k p_k r_kf / sum_k p_k, the share of the amplitudes that arrives on each subcarrier.

        Args:
            amplitude: p_k, [n].
        """
        assert self.relative is not None
        total = amplitude.sum()
        return amplitude @ self.relative / jnp.where(total > 0, total, 1.0)

    def receive(self, superposed: tuple[Float[Array, " d"], ...]) -> Float[Array, " d"]:
        """Return y = sum_k h_k phi_k payload_k + n.  # Eq. Global_receive

        Payloads are real, so the receiver keeps the real part, in which n ~ CN(0, sigma^2) has variance sigma^2/2. With
        packed symbols it keeps both parts, each with that noise.

        Args:
            superposed: one superposition [d] for each entry of `gains`.
        """
        parts = iter(superposed)
        copies = [self._unpack(part, next(parts)) if self.packed else part for part in parts]
        signal = copies[0]
        if self.timing_offset is not None:
            signal += self._shift(copies[1], 1)
            signal += self._shift(copies[2], -1)
        return signal + jax.random.normal(self.noise_key, signal.shape) * jnp.sqrt(self.noise_power_w / 2)

    def transmit(self, precoder: Complex[Array, " n"], payload: Float[Array, "n d"]) -> Float[Array, " d"]:
        """Return the received signal if all devices send their payloads at once with these precoders.

        Args:
            precoder: phi_k of each device, [n].
            payload: what each device sends, [n, d].
        """
        return self.receive(tuple(superposed(gain, payload) for gain in self.gains(precoder)))

    def transmit_power_w(self, precoder: Complex[Array, " n"], energy: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return |phi_k payload_k|^2 in W, the quantity that Eq. individual_power limits.

        Args:
            precoder: phi_k, [n].
            energy: |payload_k|^2, [n].
        """
        return jnp.where(self.ready, jnp.abs(precoder) ** 2 * energy, 0.0)

    def without_fading(self) -> Uplink:
        """Return a plain additive-noise channel with known h = 1; symbol timing does not change."""
        flat = self._replace(channel=jnp.ones_like(self.channel), actual_channel=None, mean_gain=1.0)
        return flat._replace(relative=None, met=None)

    @staticmethod
    def _unpack(in_phase: Float[Array, " d"], crossing: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return the weights of packed symbols; a phase error leaks from each of the two weights into the other."""
        quadrature = jnp.pad(crossing, (0, crossing.size % 2)).reshape(
            -1, 2
        )  # a zero fills the last symbol of an odd d
        crossed = jnp.stack([-quadrature[:, 1], quadrature[:, 0]], axis=1)  # j (a + jb) = -b + ja
        return in_phase + crossed.ravel()[: in_phase.size]

    def _shift(self, signal: Float[Array, " d"], symbols: int) -> Float[Array, " d"]:
        """Return the signal one symbol later (1) or earlier (-1), filled with silence."""
        step = 2 if self.packed else 1
        silence = jnp.zeros(step, signal.dtype)
        if symbols > 0:
            return jnp.concatenate([silence, signal])[: signal.size]
        return jnp.concatenate([signal, silence])[-signal.size :]


def superposed(gain: Float[Array, "n ..."], payload: Float[Array, "n d"]) -> Float[Array, " d"]:
    """Return sum_k gain_k payload_k for gains [n], or [n, p] that repeat every p parameters."""
    if gain.ndim == 1:
        return gain @ payload
    return jnp.sum(gain[:, jnp.arange(payload.shape[1]) % gain.shape[1]] * payload, axis=0)


def per_subcarrier(squares: Float[Array, "n d"], subcarriers: int, packed: bool) -> Float[Array, "n F"]:
    """Return the sum over the parameters that travel on each subcarrier."""
    n, d = squares.shape
    each = 2 if packed else 1
    padded = jnp.pad(squares, ((0, 0), (0, -d % (subcarriers * each))))
    return padded.reshape(n, -1, subcarriers, each).sum(axis=(1, 3))


def subcarrier_of(num_parameters: int, subcarriers: int, packed: bool) -> Int[Array, " d"]:
    """Return the subcarrier on which each parameter travels."""
    return jnp.arange(num_parameters) // (2 if packed else 1) % subcarriers


def invert(amplitude: Float[Array, " n"], channel: Complex[Array, " n"]) -> Complex[Array, " n"]:
    """Return phi_k = p_k conj(h_k) / |h_k|^2: arrives with amplitude p_k and in phase.  # Eq. pre-processing_parameter"""
    return amplitude * jnp.conj(channel) / jnp.abs(channel) ** 2


def within_budget(uplink: Uplink, budget_j: float, spent_j: Float[Array, " n"], bandwidth_hz: float) -> Uplink:
    """Return the uplink of devices with energy budgets: P_max falls to the remaining energy, then to silence.

    A remainder below rounding counts as zero, because it comes from a transmission that was meant to use up the rest.

    Args:
        uplink: the channel without budgets.
        budget_j: energy that each device may radiate, in J.
        spent_j: energy that the devices have radiated so far, in J, [n].
        bandwidth_hz: bandwidth B; a block radiates |phi_k payload_k|^2 / B.
    """
    left_j = budget_j - spent_j
    left_w = left_j * bandwidth_hz
    return uplink._replace(
        ready=uplink.ready & (left_j > BUDGET_ROUNDING * budget_j),
        max_power_w=jnp.clip(left_w, 0.0, uplink.max_power_w),
    )


def noise_power_w(bandwidth_hz: float, n0_dbm_per_hz: float) -> float:
    """Return sigma_n^2 = B * N0 in W; inside a compiled program a traced scalar."""
    power_w: float = bandwidth_hz * dbm_to_w(n0_dbm_per_hz)
    return power_w
