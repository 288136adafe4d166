"""Energy-aware scheduling: virtual queues of radiated energy decide which devices send.

After Sun, Zhou, Niu, Gündüz: "Dynamic Scheduling for Over-the-Air Federated Edge Learning With Energy Constraints", 2021.
The queues for each device's mean energy, the drift plus penalty in every round and the alignment over the air are theirs.
The penalty V/n for n senders is our reading. They also count computing, and schedule before training from predicted norms.
The queues follow Neely: "Stochastic Network Optimization with Application to Communication and Queueing Systems", 2010.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from .base import Amplitudes, Event, Heard, Step, SynchronousAlgorithm, average


@dataclass(frozen=True, kw_only=True)
class EnergyAware(SynchronousAlgorithm):
    """The senders minimise V / n + sum_k Q_k E_k; they arrive alike, and the server takes the mean of their updates.

    All arrive with t = min_k sqrt(threshold E|h_k|^2 P) / |dw_k|; E_k is the resulting energy of device k in units of its
    mean. Only devices that can afford it take part. The best set of n devices has the n least Q_k E_k, so the best of all
    sets is a prefix of that order. Transmissions keep every device's budget for any `power.cap`.
    """

    mean_power_w: float = setting(5.0, above=0, doc="Power that a device may radiate on average over all rounds.")
    tradeoff: float = setting(100.0, above=0, doc="V: the larger, the more devices send.", aliases=("V",))
    threshold: float = setting(
        0.1, above=0, doc="Share of the mean |h_k|^2 at which all devices can afford the common amplitude."
    )
    payload = "update"

    def init_for(self, model: Float[Array, " d"], num_devices: int) -> Queues:
        return no_debts(num_devices)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        gain = jnp.abs(uplink.channel) ** 2
        norm = jnp.sqrt(event.energy)
        typical = jnp.sqrt(self.threshold * uplink.mean_gain * uplink.max_power_w) / jnp.where(norm > 0, norm, 1.0)
        level = jnp.min(jnp.where(event.ready, typical, jnp.inf))
        able = event.ready & (level**2 * event.energy <= gain * uplink.max_power_w)
        cost = (level / amplitude_at(self.mean_power_w, event, uplink)) ** 2
        sends = cheapest(debts(event.state, event)[event.device] * cost, able, self.tradeoff)
        return average(jnp.where(sends & jnp.isfinite(level), level, 0.0), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        queues = after(event.state, event, heard.transmit_power_w, self.mean_power_w)
        return super().next_model(event, heard)._replace(state=queues)


def cheapest(cost: Float[Array, " n"], able: Bool[Array, " n"], tradeoff: float) -> Bool[Array, " n"]:
    """Return the set of able devices that minimises V / n + (sum of its costs); empty if no device is able."""
    order = jnp.argsort(jnp.where(able, cost, jnp.inf))
    total = jnp.cumsum(jnp.where(able, cost, jnp.inf)[order])
    n = jnp.arange(1, len(cost) + 1)
    best = jnp.argmin(tradeoff / n + total)
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(len(cost)))
    return able & (rank <= best)


class Queues(NamedTuple):
    """Virtual queues of Lyapunov optimisation: radiated power of the K devices beyond the allowed mean, in its units.

    A queue falls by one mean in every round. The server's state does not change in rounds without senders, hence `round`.
    """

    debt: Float[Array, " K"]
    round: Int[Array, ""]  # round at whose beginning `debt` was computed


def no_debts(num_devices: int) -> Queues:
    """Return the queues before the first event."""
    return Queues(jnp.zeros(num_devices), jnp.zeros((), jnp.int32))


def debts(queues: Queues, event: Event) -> Float[Array, " K"]:
    """Return Q_k in this event, after rounds without senders since the queues were computed."""
    return jnp.maximum(queues.debt - (event.round - queues.round), 0.0)


def after(queues: Queues, event: Event, transmit_power_w: Float[Array, " n"] | None, mean_power_w: float) -> Queues:
    """Return Q_k <- max(Q_k + power_k / mean - 1, 0) for all K devices; silent devices have radiated nothing."""
    assert transmit_power_w is not None
    spent = jnp.where(event.ready, transmit_power_w / mean_power_w, 0.0)
    owed = debts(queues, event).at[event.device].add(spent) - 1.0
    return Queues(jnp.maximum(owed, 0.0), jnp.asarray(event.round + 1, queues.round.dtype))


def amplitude_at(power_w: float, event: Event, uplink: Uplink) -> Float[Array, " n"]:
    """Return |h_k| sqrt(power) / |payload_k|, the amplitude of device k if it radiates `power_w`."""
    norm = jnp.sqrt(event.energy)
    return jnp.abs(uplink.channel) * jnp.sqrt(power_w) / jnp.where(norm > 0, norm, 1.0)
