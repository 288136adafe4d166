"""Virtual queues of Lyapunov optimisation: what every device has radiated beyond its mean so far.

Neely: "Stochastic Network Optimization with Application to Communication and Queueing Systems", 2010. A queue falls by one
mean in every round, also in those in which nobody sends and the server's state is not asked: hence the round beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..air.uplink import Uplink
from .base import Event


class Queues(NamedTuple):
    """What the K devices owe at the beginning of a round, in units of the mean that is allowed."""

    debt: Float[Array, " K"]
    round: Int[Array, ""]


def no_debts(num_devices: int) -> Queues:
    """Before the first event."""
    return Queues(jnp.zeros(num_devices), jnp.zeros((), jnp.int32))


def debts(queues: Queues, event: Event) -> Float[Array, " K"]:
    """Q_k in this event: since the queues were made up, rounds may have gone by in which nobody sent."""
    return jnp.maximum(queues.debt - (event.round - queues.round), 0.0)


def after(queues: Queues, event: Event, transmit_power_w: Float[Array, " n"] | None, mean_power_w: float) -> Queues:
    """Q_k <- max(Q_k + power_k / mean - 1, 0) for all K devices; whoever did not send has radiated nothing."""
    assert transmit_power_w is not None
    spent = jnp.where(event.ready, transmit_power_w / mean_power_w, 0.0)
    owed = debts(queues, event).at[event.device].add(spent) - 1.0
    return Queues(jnp.maximum(owed, 0.0), jnp.asarray(event.round + 1, queues.round.dtype))


def amplitude_at(power_w: float, event: Event, uplink: Uplink) -> Float[Array, " n"]:
    """|h_k| sqrt(power) / |payload_k|: how loud device k arrives when it radiates `power_w`."""
    norm = jnp.sqrt(event.energy)
    return jnp.abs(uplink.channel) * jnp.sqrt(power_w) / jnp.where(norm > 0, norm, 1.0)
