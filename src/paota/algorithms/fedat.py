"""FedAT: tiers of devices of similar speed, synchronous inside and asynchronous across; rare tiers have more weight.

Chai, Chen, Anwar, Zhao, Cheng, Rangwala: "FedAT: A High-Performance and Communication-Efficient Federated Learning System
with Asynchronous Tiers", 2021. Left out: its compression and the choice of devices inside a tier. Its proximal term
is `training.proximal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.schemes import Grouped
from .base import Algorithm, Amplitudes, Event, Heard, Step, normalise, weights


class TierModels(NamedTuple):
    """State of the server: the newest model and the count of arrivals of every tier, the fastest tier first."""

    model: Float[Array, "M d"]
    times: Float[Array, " M"]


@dataclass(frozen=True, kw_only=True)
class FedAt(Algorithm):
    """w = sum_m (T_(M+1-m) / T) w_m, where T_m counts the arrivals of tier m, T = sum T_m, and w_m is its mean by samples.

    The weight of the fastest tier is the count of the slowest, and vice versa. As printed, the fastest tiers therefore have
    no weight before the slowest have arrived for the first time.
    """

    tiers: int = setting(5, low=1, doc="Tiers M of devices of similar speed.", aliases=("num_tiers",))
    over_the_air: ClassVar[bool] = False

    @property
    def scheme(self) -> Grouped:
        return Grouped(self.tiers)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return weights(normalise(jnp.where(event.ready, event.num_samples, 0.0)), event)

    def init(self, model: Float[Array, " d"]) -> TierModels:
        return TierModels(jnp.tile(model, (self.tiers, 1)), jnp.zeros(self.tiers))

    def next_model(self, event: Event, heard: Heard) -> Step:
        model = event.state.model.at[event.group].set(heard.received)
        times = event.state.times.at[event.group].add(1.0)
        weight = normalise(times[::-1])
        return Step(weight @ model, state=TierModels(model, times), share=weight[event.group])
