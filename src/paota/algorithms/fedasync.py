"""FedAsync: the server mixes every arriving model into the global one at once; stale models have less weight.

Xie, Koyejo, Gupta: "Asynchronous Federated Optimization", 2019. Its proximal term in the local loss is
`training.proximal`, so that all algorithms train alike by default (their rho = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.schemes import Asynchronous
from .base import Algorithm, Amplitudes, Event, Heard, Step, weights

FUNCTIONS = ("constant", "polynomial", "hinge")


@dataclass(frozen=True, kw_only=True)
class FedAsync(Algorithm):
    """w <- (1 - a_t) w + a_t w_k with a_t = mixing * s(staleness). Factors of different rounds are not multiplied."""

    mixing: float = setting(
        0.6, above=0, high=1, doc="alpha: share of a fresh arrival in the new model.", aliases=("alpha",)
    )
    staleness: str = setting("polynomial", options=FUNCTIONS, doc="Function that discounts a stale arrival.")
    a: float = setting(0.5, low=0, doc="Steepness of that function.")
    b: float = setting(4.0, low=0, doc="Staleness at which the hinge begins.")
    over_the_air: ClassVar[bool] = False
    scheme = Asynchronous()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        a_t = self.mixing * staleness_weight(self.staleness, event.staleness, self.a, self.b)
        arrived = jnp.maximum(event.ready.sum(), 1)  # always 1 on this timeline; several at once share the step
        return weights(a_t / arrived, event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        return Step((1 - heard.amplitude.sum()) * event.model + heard.received)


def staleness_weight(function: str, staleness: Int[Array, ...], a: float, b: float) -> Float[Array, ...]:
    """Return s(x), the weight of an update that is x versions stale; a fresh update has weight 1.

    Args:
        function: "constant": 1; "polynomial": (1 + x)^-a; "hinge": 1 up to x = b, then 1 / (a (x - b) + 1).
        staleness: x, [n].
        a: steepness.
        b: staleness at which the hinge begins.
    """
    x = staleness.astype(float)
    if function == "constant":
        return jnp.ones_like(x)
    if function == "polynomial":
        return (1.0 + x) ** -a
    return 1.0 / (a * jnp.maximum(x - b, 0.0) + 1.0)
