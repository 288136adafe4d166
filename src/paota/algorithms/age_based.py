"""Age-based scheduling: every round uses the devices whose last participation is the oldest.

Yang, Arafa, Quek, Poor: "Age-Based Scheduling Policy for Federated Learning in Mobile Edge Networks", 2020. Left out:
the preference for good channels among devices of similar age, by the number of subchannels that each would need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.schemes import OldestFirst
from .base import Algorithm, Amplitudes, Event, normalise, weights


@dataclass(frozen=True, kw_only=True)
class AgeBased(Algorithm):
    """w + mean dw_k over the `participants` devices of the greatest age; age <- 0 for them, age + 1 for all others.

    This choice minimises the largest age, and any sum of f(age) with rising f.
    """

    participants: int | None = setting(
        None, low=1, doc="Devices that count in a round; absent: as many as PAOTA has ready on average."
    )
    payload = "update"
    over_the_air: ClassVar[bool] = False

    @property
    def scheme(self) -> OldestFirst:
        return OldestFirst(self.participants)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return weights(normalise(event.ready.astype(jnp.float32)), event)
