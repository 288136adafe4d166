"""Sparsification over the air: all devices send the same k weights, large ones that were sent longest ago.

Du, Zhu, Li, Yang: "Age-Aware Partial Gradient Update Strategy for Federated Learning Over the Air" (AgeTop-k), 2025. The
server chooses the weights. With as many candidates as are kept it is plain top-k. Two details are ours: weights that were
never sent count as the largest, and all devices arrive with the amplitude that the weakest can afford.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from .base import Amplitudes, DeviceResult, Event, Heard, Step, SynchronousAlgorithm, average


class Coordinates(NamedTuple):
    """Records of the server about every weight; it broadcasts `chosen` with the model."""

    chosen: Bool[Array, " d"]  # to be sent in this round
    age: Float[Array, " d"]  # rounds since it was sent
    size: Float[Array, " d"]  # size of its mean update when it was last sent; infinite before


@dataclass(frozen=True, kw_only=True)
class AgeTopK(SynchronousAlgorithm):
    """w <- w + (mean dw_k on the chosen weights). The next choice: of the r largest, the k that were sent longest ago."""

    kept: float = setting(
        0.2, above=0, high=1, doc="k / d: share of the weights that are sent.", aliases=("k", "sparsity")
    )
    candidates: float = setting(
        0.5,
        above=0,
        high=1,
        doc="r / d: share of the weights among which age decides; `kept` or less: top-k.",
        aliases=("r",),
    )
    payload = "update"

    def symbols(self, num_parameters: int, packed: bool) -> int:
        sent = max(1, math.floor(self.kept * num_parameters + 0.5))
        return -(-sent // 2) if packed else sent

    def announced_bits(self, num_parameters: int) -> int:
        return num_parameters  # one bit per weight: chosen or not

    def init(self, model: Float[Array, " d"]) -> Coordinates:
        nothing = jnp.zeros_like(model)
        return self._choose(nothing, jnp.full_like(model, jnp.inf))

    def signal(self, result: DeviceResult) -> Float[Array, " d"]:
        return jnp.where(result.state.chosen, result.update, 0.0)

    def sensitivity(self, clip_norm: float) -> float:
        return 2 * clip_norm  # a part of the update is no longer than the whole

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        cap = amplitude_cap(uplink, event.energy, power.cap)
        level = jnp.min(jnp.where(event.ready, cap, jnp.inf))
        return average(jnp.where(jnp.isfinite(level), level, 0.0) * jnp.ones_like(cap), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        chosen, age, size = event.state
        update = jnp.where(chosen, heard.received, 0.0)  # the server ignores the others
        age = jnp.where(chosen, 0.0, age + 1)
        return Step(event.model + update, state=self._choose(age, jnp.where(chosen, jnp.abs(update), size)))

    def _choose(self, age: Float[Array, " d"], size: Float[Array, " d"]) -> Coordinates:
        k = jnp.maximum(1.0, jnp.floor(self.kept * age.size + 0.5))
        r = jnp.maximum(k, jnp.floor(self.candidates * age.size + 0.5))
        large = rank(-size) < r
        return Coordinates(rank(jnp.where(large, -age, 1.0)) < k, age, size)


def rank(key: Float[Array, " d"]) -> Float[Array, " d"]:
    """Return the rank of each key, 0 for the smallest; equal keys keep their order."""
    order = jnp.argsort(key, stable=True)
    return jnp.zeros_like(key).at[order].set(jnp.arange(key.size, dtype=key.dtype))
