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
from ..timing.schemes import Grouped
from .base import Algorithm, Amplitudes, Event, Heard, Step, average
from .staleness import FUNCTIONS, staleness_weight


@dataclass(frozen=True, kw_only=True)
class AirFedGa(Algorithm):
    """w <- (1 - b_t) w + b_t wbar, wbar the group's mean by samples as received, b_t = mixing * s(staleness).

    Inside the group p_k = c D_k with the largest common c that no device's cap forbids, so that the air itself weighs
    by samples. Groups by the latency of the first training.
    """

    groups: int = setting(5, low=1, doc="Groups of devices of similar speed.")
    mixing: float = setting(0.6, above=0, high=1, doc="Share of a fresh group in the new model.", also=("alpha",))
    staleness: str = setting("polynomial", options=FUNCTIONS, doc="The function that discounts a stale group.")
    a: float = setting(0.5, low=0, doc="Steepness of that function.")
    b: float = setting(4.0, low=0, doc="Staleness at which the hinge begins.")

    @property
    def scheme(self) -> Grouped:
        return Grouped(self.groups)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        p_max = amplitude_cap(uplink, event.energy, power.cap)
        c = jnp.min(jnp.where(event.ready, p_max / event.num_samples, jnp.inf))
        return average(c * event.num_samples, event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        stale = jnp.max(jnp.where(event.ready, event.staleness, 0))  # the same for the whole group
        b_t = self.mixing * staleness_weight(self.staleness, stale, self.a, self.b)
        return Step((1 - b_t) * event.model + b_t * heard.received, share=b_t)
