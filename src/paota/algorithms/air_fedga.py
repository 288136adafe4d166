"""Air-FedGA: groups of devices of similar speed aggregate over the air and reach the server asynchronously.

Ma, Zhou, Hou, Liu, Xu, Miao, Jia: "Air-FedGA: A Grouping Asynchronous Federated Learning Mechanism Exploiting
Over-the-air Computation", 2025. We did not have its full text. Groups, alike scaling of power and the
server's denoising factor are the paper's; their exact form is our reading.
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
from .fedasync import FUNCTIONS, staleness_weight


@dataclass(frozen=True, kw_only=True)
class AirFedGa(Algorithm):
    """w <- (1 - b_t) w + b_t wbar, wbar the group's mean by samples as received, b_t = mixing * s(staleness).

    Inside the group p_k = c D_k with the largest common c that all caps allow, so the air itself weights by samples. The
    latency of the first training decides the group. The server divides by c D, where D is the samples of the group. With
    `denoising` it divides by sqrt(eta) D, which minimises (c/sqrt(eta) - 1)^2 |wbar|^2 + d sigma^2 / (2 eta D^2):
    sqrt(eta) = c + d sigma^2 / (2 c D^2 |wbar|^2), with the mean of |w_k| for |wbar|.
    """

    groups: int = setting(5, low=1, doc="Groups of devices of similar speed.")
    denoising: bool = setting(False, doc="The server divides for the least error instead of the mean.")
    mixing: float = setting(0.6, above=0, high=1, doc="Share of a fresh group in the new model.", aliases=("alpha",))
    staleness: str = setting("polynomial", options=FUNCTIONS, doc="Function that discounts a stale group.")
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
