"""Local SGD: synchronous rounds and a lossless uplink, the paper's ideal reference (McMahan et al., "FedAvg", 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from .base import Amplitudes, Event, SynchronousAlgorithm, normalise, weights


@dataclass(frozen=True, kw_only=True)
class LocalSgd(SynchronousAlgorithm):
    """w^(r+1) = sum_k alpha_k w_k with equal weights, or by samples D_k."""

    weighting: str = setting(
        "equal", options=("equal", "samples"), doc="Equal weights, or weights by the samples of a device."
    )
    over_the_air: ClassVar[bool] = False

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        raw = event.num_samples if self.weighting == "samples" else jnp.ones_like(event.num_samples)
        return weights(normalise(jnp.where(event.ready, raw, 0.0)), event)
