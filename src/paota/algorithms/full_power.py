"""Everybody at full power: only the phase is corrected, so the air weighs each device by its channel.

The baseline of Cao, Zhu, Xu, Huang: "Optimized Power Control for Over-the-Air Computation in Fading Channels", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..settings import setting
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World, superpose
from .local_sgd import synchronous_timeline


@dataclass(frozen=True, kw_only=True)
class FullPower(Algorithm):
    """p_k = |h_k| sqrt(P) / |payload_k|, weights p_k / sum p: the physical budget, whatever `power.cap` says."""

    participants: int | None = setting(None, low=1)
    payload: str = setting("model", options=("model", "update"))

    def timeline(self, world: World) -> Timeline:
        return synchronous_timeline(world, self.participants)

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        payload = event.local_model if self.payload == "model" else event.update
        p = jnp.where(event.ready, amplitude_cap(uplink, payload, "physical"), 0.0)
        received = superpose(event, uplink, p, payload)
        return received if self.payload == "model" else received._replace(model=event.model + received.model)
