"""FedBuff: the server collects B updates, then takes one step along their discounted mean.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: "Federated Learning with Buffered Asynchronous Aggregation", 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import buffered
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World, digital_outcome
from .staleness import staleness_weight


@dataclass(frozen=True, kw_only=True)
class FedBuff(Algorithm):
    """w <- w + eta_g/B sum_i (1 + tau_i)^(-1/2) dw_i after every B arrivals. Divided by B, not by the discounts."""

    buffer_size: int = setting(10, low=1)  # B (K in the paper)
    server_learning_rate: float = setting(1.0, above=0)  # eta_g
    over_the_air: ClassVar[bool] = False

    def timeline(self, world: World) -> Timeline:
        return buffered(
            world.latencies, buffer_size=self.buffer_size, updates=world.match_updates(), horizon=world.horizon
        )

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        discount = staleness_weight("polynomial", event.staleness, 0.5, 0.0)
        weight = jnp.where(event.ready, discount / self.buffer_size, 0.0)
        return digital_outcome(event, event.model + self.server_learning_rate * (weight @ event.update), weight)
