"""Virtual queues of Lyapunov optimisation: what every device has radiated beyond its mean so far.

Neely: "Stochastic Network Optimization with Application to Communication and Queueing Systems", 2010.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from .base import Event

Queues = Float[Array, " K"]  # in units of the mean that is allowed


def no_debts(num_devices: int) -> Queues:
    """Before the first event."""
    return jnp.zeros(num_devices)


def after(queues: Queues, event: Event, transmit_power_w: Float[Array, " n"] | None, mean_power_w: float) -> Queues:
    """Q_k <- max(Q_k + power_k / mean - 1, 0) for all K devices; whoever did not send has radiated nothing."""
    assert transmit_power_w is not None
    spent = jnp.where(event.ready, transmit_power_w / mean_power_w, 0.0)
    return jnp.maximum(queues.at[event.device].add(spent) - 1.0, 0.0)


def amplitude_at(power_w: float, event: Event, uplink: Uplink) -> Float[Array, " n"]:
    """|h_k| sqrt(power) / |payload_k|: how loud device k arrives when it radiates `power_w`."""
    norm = jnp.sqrt(event.energy)
    return jnp.abs(uplink.channel) * jnp.sqrt(power_w) / jnp.where(norm > 0, norm, 1.0)
