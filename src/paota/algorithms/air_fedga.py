"""Air-FedGA: groups of similar speed compute over the air inside, and reach the server asynchronously.

Ma, Zhou, Hou, Liu, Xu, Miao, Jia: "Air-FedGA: A Grouping Asynchronous Federated Learning Mechanism Exploiting
Over-the-air Computation", 2025. Its optimised grouping and power scaling are replaced by the plain ones stated below.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import grouped
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World, superpose
from .staleness import FUNCTIONS, staleness_weight


@dataclass(frozen=True, kw_only=True)
class AirFedGa(Algorithm):
    """w <- (1 - b_t) w + b_t wbar, wbar the group's mean by samples as received, b_t = mixing * s(staleness).

    Inside the group p_k = c D_k with the largest common c that no device's cap forbids, so that the air itself weighs
    by samples. Groups by the latency of the first training.
    """

    groups: int = setting(5, low=1)
    mixing: float = setting(0.6, above=0, high=1)
    staleness: str = setting("polynomial", options=FUNCTIONS)
    a: float = setting(0.5, low=0)
    b: float = setting(4.0, low=0)

    def timeline(self, world: World) -> Timeline:
        return grouped(world.latencies, groups=self.groups, updates=world.match_updates(), horizon=world.horizon)

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        p_max = amplitude_cap(uplink, event.local_model, power.cap)
        c = jnp.min(jnp.where(event.ready, p_max / event.num_samples, jnp.inf))
        p = jnp.where(event.ready, c * event.num_samples, 0.0)
        group = superpose(event, uplink, p, event.local_model)  # wbar + noise, weights D_k / sum D

        stale = jnp.max(jnp.where(event.ready, event.staleness, 0))  # the same for the whole group
        b_t = self.mixing * staleness_weight(self.staleness, stale, self.a, self.b)
        return group._replace(
            model=(1 - b_t) * event.model + b_t * group.model,
            weight=b_t * group.weight,
            noise_std=b_t * group.noise_std,
        )
