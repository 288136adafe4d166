"""Air-FedGA: groups of similar speed compute over the air inside, and reach the server asynchronously.

Ma, Zhou, Hou, Liu, Xu, Miao, Jia: "Air-FedGA: A Grouping Asynchronous Federated Learning Mechanism Exploiting
Over-the-air Computation", 2025. Its full text was not at hand: that groups are made, that devices scale
their power alike and that the server has a denoising factor of its own is the paper's, how is our reading.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..timing.schemes import Grouped
from .base import Algorithm, Amplitudes, Event, Heard, Step, average
from .staleness import FUNCTIONS, staleness_weight


@dataclass(frozen=True, kw_only=True)
class AirFedGa(Algorithm):
    """w <- (1 - b_t) w + b_t wbar, wbar the group's mean by samples as received, b_t = mixing * s(staleness).

    Inside the group p_k = c D_k with the largest common c that no device's cap forbids, so that the air itself weighs
    by samples. Groups are made by the latency of the first training. The server divides by c D, D the group's samples,
    or with `denoising` by sqrt(eta) D, which makes the error (c/sqrt(eta) - 1)^2 |wbar|^2 + d sigma^2 / (2 eta D^2) least:
    sqrt(eta) = c + d sigma^2 / (2 c D^2 |wbar|^2), with the mean of |w_k| for |wbar|.
    """

    groups: int = setting(5, low=1, doc="Groups of devices of similar speed.")
    denoising: bool = setting(False, doc="The server divides for the least error, not for the mean.")
    mixing: float = setting(0.6, above=0, high=1, doc="Share of a fresh group in the new model.", aliases=("alpha",))
    staleness: str = setting("polynomial", options=FUNCTIONS, doc="The function that discounts a stale group.")
    a: float = setting(0.5, low=0, doc="Steepness of that function.")
    b: float = setting(4.0, low=0, doc="Staleness at which the hinge begins.")

    @property
    def scheme(self) -> Grouped:
        return Grouped(self.groups)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        p_max = amplitude_cap(uplink, event.energy, power.cap)
        c = jnp.min(jnp.where(event.ready, p_max / event.num_samples, jnp.inf))
        mean = average(c * event.num_samples, event)
        if not self.denoising:
            return mean
        samples = jnp.where(event.ready, event.num_samples, 0.0)
        size = jnp.sum(samples * jnp.sqrt(event.energy)) / jnp.maximum(samples.sum(), 1.0)  # |wbar|, at most
        noise = event.model.size * uplink.noise_power_w / 2
        return mean._replace(divisor=mean.divisor + noise / jnp.maximum(mean.divisor * size**2, 1e-30))

    def next_model(self, event: Event, heard: Heard) -> Step:
        stale = jnp.max(jnp.where(event.ready, event.staleness, 0))  # the same for the whole group
        b_t = self.mixing * staleness_weight(self.staleness, stale, self.a, self.b)
        return Step((1 - b_t) * event.model + b_t * heard.received, share=b_t)
