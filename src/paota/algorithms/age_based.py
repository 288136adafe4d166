"""Age-based scheduling: every round asks the devices that have not been heard for longest.

Yang, Arafa, Quek, Poor: "Age-Based Scheduling Policy for Federated Learning in Mobile Edge Networks", 2020. Left out: that
good channels are preferred among devices of similar age, by how many subchannels each would need.
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

    That makes the largest age, and any sum of f(age) with f rising, as small as it can be.
    """

    participants: int | None = setting(
        None, low=1, doc="Devices that count in a round; absent: as many as PAOTA has ready on average."
    )
    payload: ClassVar[str] = "update"
    over_the_air: ClassVar[bool] = False

    @property
    def scheme(self) -> OldestFirst:
        return OldestFirst(self.participants)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return weights(normalise(event.ready.astype(jnp.float32)), event)
