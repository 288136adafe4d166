"""The multiple-access channel as an algorithm sees it: precode, transmit together, receive the noisy sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..units import dbm_to_w


class Uplink(NamedTuple):
    """The air in one aggregation event. Axes: n devices that take part (padded), d parameters."""

    channel: jax.Array  # h_k, complex [n], known to devices and server (perfect CSI)
    ready: jax.Array  # b_k, bool [n]; padding is never ready
    noise_power_w: jax.Array  # sigma_n^2 = B * N0
    max_power_w: jax.Array  # P_max
    noise_key: jax.Array

    def transmit(self, precoder: jax.Array, payload: jax.Array) -> jax.Array:
        """y = sum_k h_k phi_k payload_k + n, [d].  # Eq. Global_receive

        Payloads are real, so the receiver keeps the real part: of n ~ CN(0, sigma^2) it sees the variance sigma^2/2.
        """
        gain = jnp.where(self.ready, jnp.real(self.channel * precoder), 0.0)
        noise = jax.random.normal(self.noise_key, payload.shape[1:]) * jnp.sqrt(self.noise_power_w / 2)
        return gain @ payload + noise

    def transmit_power_w(self, precoder: jax.Array, payload: jax.Array) -> jax.Array:
        """|phi_k payload_k|^2, what Eq. individual_power limits, [n]."""
        return jnp.where(self.ready, jnp.abs(precoder) ** 2 * jnp.sum(payload**2, axis=1), 0.0)


def invert(amplitude: jax.Array, channel: jax.Array) -> jax.Array:
    """phi_k = p_k conj(h_k) / |h_k|^2: arrives with amplitude p_k and in phase.  # Eq. pre-processing_parameter"""
    return amplitude * jnp.conj(channel) / jnp.abs(channel) ** 2


def noise_power_w(bandwidth_hz: Any, n0_dbm_per_hz: Any) -> Any:
    """sigma_n^2 = B * N0."""
    return bandwidth_hz * dbm_to_w(n0_dbm_per_hz)
