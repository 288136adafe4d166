"""FedAsync: every arriving model is mixed into the global one at once, the less the staler it is.

Xie, Koyejo, Gupta: "Asynchronous Federated Optimization", 2019. Its proximal term in the local loss is left out, so
that all algorithms train alike (their rho = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.schemes import Asynchronous
from .base import Algorithm, Amplitudes, Event, Heard, Step, weights
from .staleness import FUNCTIONS, staleness_weight


@dataclass(frozen=True, kw_only=True)
class FedAsync(Algorithm):
    """w <- (1 - a_t) w + a_t w_k with a_t = mixing * s(staleness). The factor is made anew each time, not cumulated."""

    mixing: float = setting(
        0.6, above=0, high=1, doc="alpha: share of a fresh arrival in the new model.", aliases=("alpha",)
    )
    staleness: str = setting("polynomial", options=FUNCTIONS, doc="The function that discounts a stale arrival.")
    a: float = setting(0.5, low=0, doc="Steepness of that function.")
    b: float = setting(4.0, low=0, doc="Staleness at which the hinge begins.")
    over_the_air: ClassVar[bool] = False
    scheme = Asynchronous()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        a_t = self.mixing * staleness_weight(self.staleness, event.staleness, self.a, self.b)
        arrived = jnp.maximum(event.ready.sum(), 1)  # always 1 on this timeline; several at once would share the step
        return weights(a_t / arrived, event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        return Step((1 - heard.amplitude.sum()) * event.model + heard.received)
