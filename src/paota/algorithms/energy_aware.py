"""Energy-aware scheduling: who sends is weighed against what it would cost, by queues of what devices have overdrawn.

After Sun, Zhou, Niu, Gündüz: "Dynamic Scheduling for Over-the-Air Federated Edge Learning With Energy Constraints", 2021.
Theirs are queues for each device's mean energy, drift plus penalty in every round, and alignment over the air. The
penalty V/n for n senders is our reading; they also count computing and schedule before training, from predicted norms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from .base import Amplitudes, Event, Heard, Step, SynchronousAlgorithm, average
from .queues import Queues, after, amplitude_at, debts, no_debts


@dataclass(frozen=True, kw_only=True)
class EnergyAware(SynchronousAlgorithm):
    """The senders minimise V / n + sum_k Q_k E_k; they arrive alike, and the server takes the mean of their updates.

    All arrive with t = min_k sqrt(threshold E|h_k|^2 P) / |dw_k|; E_k is what that costs device k in units of its mean.
    Only devices that can afford it are asked. The best set of n is that of the n least Q_k E_k, so that the best of all
    sets is found among prefixes. Transmissions keep every device's budget, whatever `power.cap` says.
    """

    mean_power_w: float = setting(5.0, above=0, doc="That a device may radiate in the mean of all rounds.")
    tradeoff: float = setting(100.0, above=0, doc="V: the larger, the more devices send.", aliases=("V",))
    threshold: float = setting(0.1, above=0, doc="The level is what all can afford at this share of the mean |h_k|^2.")
    payload: ClassVar[str] = "update"

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
    """The set that minimises V / n + (sum of its costs), of those who are able; nobody if nobody is."""
    order = jnp.argsort(jnp.where(able, cost, jnp.inf))
    total = jnp.cumsum(jnp.where(able, cost, jnp.inf)[order])
    n = jnp.arange(1, len(cost) + 1)
    best = jnp.argmin(tradeoff / n + total)
    rank = jnp.zeros_like(order).at[order].set(jnp.arange(len(cost)))
    return able & (rank <= best)
