"""One-bit over-the-air aggregation: every device sends the signs of its update, and the sign of the sum is a majority vote.

Zhu, Du, Gunduz, Huang: "One-Bit Over-the-Air Aggregation for Communication-Efficient Federated Edge Learning", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from .base import Amplitudes, DeviceResult, Event, Heard, Step, SynchronousAlgorithm, average


@dataclass(frozen=True, kw_only=True)
class MajorityVote(SynchronousAlgorithm):
    """w <- w + step sign(sum_k p_k sign(dw_k) + n): every weight goes one step of the same size, up or down.

    Truncated channel inversion: devices with |h_k|^2 >= threshold E|h_k|^2 arrive alike, with what the budget allows at
    the threshold to all of them; the others are silent. All send d symbols of the same size, so that only channels
    decide, and noise matters only where the vote is close.
    """

    step: float = setting(0.01, above=0, doc="By which every weight goes up or down.")
    threshold: float = setting(0.1, above=0, doc="Devices with |h_k|^2 below this share of its mean stay silent.")
    payload: ClassVar[str] = "update"

    def signal(self, result: DeviceResult) -> Float[Array, " d"]:
        return jnp.sign(result.update)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        sends = event.ready & (jnp.abs(uplink.channel) ** 2 >= self.threshold * uplink.mean_gain)
        cap = amplitude_cap(uplink, event.energy, power.cap)
        common = jnp.min(jnp.where(sends, cap, jnp.inf))
        return average(jnp.where(sends & jnp.isfinite(common), common, 0.0), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        return Step(event.model + self.step * jnp.sign(heard.received))
