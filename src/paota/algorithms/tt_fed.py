"""TT-Fed: the server aggregates every dT whoever is done, in tiers by how many periods they took.

Zhou, Deng, Xia, Wu, Bennis: "Time-Triggered Federated Learning Over Wireless Networks", 2022. It is the scheme that
PAOTA's timing comes from. Its joint choice of users and bandwidth is left out: everybody who is done takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import Periodic
from .base import Algorithm, Amplitudes, Event, normalise, weights
from .staleness import staleness_weight


@dataclass(frozen=True, kw_only=True)
class TtFed(Algorithm):
    """w^(r+1) = sum_m lambda_m wbar_m, wbar_m the mean by samples D_k of the models in tier m (staleness m).

    lambda_m is proportional to (1 + m)^-discount, times the tier's samples if `tier_weight = "samples"`; `"equal"` lets
    every tier that is present count once, however many devices it has. Devices staler than the last tier join it.
    """

    tiers: int = setting(8, low=1, high=1024, doc="Tiers of staleness.")
    tier_weight: str = setting("samples", options=("samples", "equal"), doc="A tier counts by its samples, or once.")
    discount: float = setting(0.5, low=0, doc="A tier m counts (1 + m)^-discount.")
    over_the_air: ClassVar[bool] = False
    scheme = Periodic()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        tier = jnp.minimum(event.staleness, self.tiers - 1)
        samples = jnp.where(event.ready, event.num_samples, 0.0)
        in_tier = jax.ops.segment_sum(samples, tier, self.tiers)  # D_m
        present = in_tier > 0
        raw = jnp.where(present, staleness_weight("polynomial", jnp.arange(self.tiers), self.discount, 0.0), 0.0)
        tier_weight = normalise(raw * in_tier if self.tier_weight == "samples" else raw)  # lambda_m
        return weights(tier_weight[tier] * samples / jnp.where(present, in_tier, 1.0)[tier], event)
