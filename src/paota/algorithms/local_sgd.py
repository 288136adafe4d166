"""Local SGD: synchronous rounds and a lossless uplink, the paper's ideal reference (McMahan et al., "FedAvg", 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import synchronous
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World, digital_outcome, normalise


@dataclass(frozen=True, kw_only=True)
class LocalSgd(Algorithm):
    """`participants` devices a round (default: PAOTA's mean number of ready ones), equal weights or by samples D_k."""

    participants: int | None = setting(None, low=1)
    weighting: str = setting("equal", options=("equal", "samples"))
    over_the_air: ClassVar[bool] = False

    def timeline(self, world: World) -> Timeline:
        return synchronous_timeline(world, self.participants)

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        raw = event.num_samples if self.weighting == "samples" else jnp.ones_like(event.num_samples)
        weight = normalise(jnp.where(event.ready, raw, 0.0))
        return digital_outcome(event, weight @ event.local_model, weight)  # w^(r+1) = sum_k alpha_k w_k


def synchronous_timeline(world: World, participants: int | None) -> Timeline:
    n = min(participants or world.match_participants(), world.latencies.devices)
    return synchronous(world.latencies, participants=n, horizon=world.horizon)
