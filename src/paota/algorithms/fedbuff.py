"""FedBuff: the server collects B updates, then makes one step along their discounted mean.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: "Federated Learning with Buffered Asynchronous Aggregation", 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.schemes import Buffered
from .base import Algorithm, Amplitudes, Event, Heard, Step, weights
from .fedasync import staleness_weight


@dataclass(frozen=True, kw_only=True)
class FedBuff(Algorithm):
    """w <- w + eta_g/B sum_i (1 + tau_i)^(-1/2) dw_i after every B arrivals; the divisor is B, not the sum of discounts."""

    buffer_size: int = setting(10, low=1, doc="Arrivals B per aggregation.", aliases=("B", "buffer"))
    server_learning_rate: float = setting(1.0, above=0, doc="Server learning rate eta_g.", aliases=("server_lr",))
    over_the_air: ClassVar[bool] = False
    payload = "update"

    @property
    def scheme(self) -> Buffered:
        return Buffered(self.buffer_size)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return weights(staleness_weight("polynomial", event.staleness, 0.5, 0.0) / self.buffer_size, event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        return Step(event.model + self.server_learning_rate * heard.received)
