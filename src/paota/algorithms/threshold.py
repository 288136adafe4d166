"""Threshold power control: a device inverts its channel when it can afford it, else sends at full power.

Cao, Zhu, Xu, Huang: "Optimized Power Control for Over-the-Air Computation in Fading Channels", 2020 (static channels).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.policy import amplitude_cap
from ..power.settings import Power
from .base import Amplitudes, Event, SynchronousAlgorithm


@dataclass(frozen=True, kw_only=True)
class Threshold(SynchronousAlgorithm):
    """p_k = min(t, q_k) with quality q_k = p_k^max; the server adds y / (n t) to w^r. Devices send updates.

    t (their sqrt(eta)) makes the mean squared error sum_k (p_k/t - 1)^2 + sigma^2/t^2 least, for signals of unit power.
    """

    payload: ClassVar[str] = "update"

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        quality = jnp.where(event.ready, amplitude_cap(uplink, event.energy, power.cap), 0.0)
        t = aligned_level(quality, event, uplink)
        n = jnp.maximum(event.ready.sum(), 1)
        return Amplitudes(jnp.minimum(t, quality), divisor=n * t)  # weights below 1/n where somebody cannot reach t


def aligned_level(quality: jax.Array, event: Event, uplink: Uplink) -> jax.Array:
    """The level t of least error for the ready devices of an event with these qualities [n] in this air."""
    n = jnp.maximum(event.ready.sum(), 1)
    energy = jnp.sum(jnp.where(event.ready, event.energy, 0.0))
    signal_power = energy / (n * event.model.size)  # of a symbol, mean over the devices
    noise = uplink.noise_power_w / 2 / jnp.where(signal_power > 0, signal_power, 1.0)
    return inversion_level(quality, event.ready, noise)


def inversion_level(quality: jax.Array, ready: jax.Array, noise: jax.Array) -> jax.Array:
    """t = min_m (sigma^2 + sum_(i<=m) q_i^2) / sum_(i<=m) q_i over the m weakest devices, q sorted upwards.

    The error is convex in 1/t, and where its slope is zero t is this ratio over the devices that cannot reach t. Adding
    the next device lowers the ratio exactly while that device is below it: hence the minimum.
    """
    ordered = jnp.sort(jnp.where(ready, quality, jnp.inf))
    known = jnp.isfinite(ordered)
    q = jnp.where(known, ordered, 0.0)
    total = jnp.cumsum(q)
    ratio = (noise + jnp.cumsum(q**2)) / jnp.where(total > 0, total, 1.0)
    return jnp.min(jnp.where(known & (total > 0), ratio, jnp.inf))
