"""COTAF: synchronous rounds over the air with time-varying precoding.

Sery, Shlezinger, Cohen, Eldar: "Over-the-Air Federated Learning From Heterogeneous Data", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from ..air.uplink import Uplink, invert
from ..power.settings import Power
from ..settings import setting
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World, normalise, not_applicable
from .local_sgd import synchronous_timeline


@dataclass(frozen=True, kw_only=True)
class Cotaf(Algorithm):
    """Every device sends sqrt(p_t) dw_k, and the server divides the sum by n sqrt(p_t).

    `fading = false` is the scheme as published for a plain additive-noise channel: p_t = P / max_k |dw_k|^2.
    `fading = true` inverts the fading channel inside the same power budget: p_t = P min_k |h_k|^2 / |dw_k|^2, over the
    devices with |h_k| >= `min_gain`; weaker ones stay silent.
    """

    participants: int | None = setting(None, low=1)
    fading: bool = False
    min_gain: float = setting(0.0, low=0)

    def timeline(self, world: World) -> Timeline:
        return synchronous_timeline(world, self.participants)

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        uplink = uplink if self.fading else uplink.without_fading()
        channel = uplink.channel
        sends = event.ready & (jnp.abs(channel) >= self.min_gain) if self.fading else event.ready
        energy = jnp.sum(event.update**2, axis=1)
        # p_t: the loudest common scaling that no device's budget forbids.
        affordable = jnp.where(
            sends & (energy > 0), jnp.abs(channel) ** 2 / jnp.where(energy > 0, energy, 1.0), jnp.inf
        )
        p_t = uplink.max_power_w * jnp.min(affordable)
        scale = jnp.where(jnp.isfinite(p_t), jnp.sqrt(p_t), 1.0)  # nobody has anything to say: any scale does

        weight = normalise(jnp.where(sends, 1.0, 0.0))
        precoder = invert(jnp.where(sends, scale, 0.0), channel)
        received = uplink.transmit(precoder, event.update) / (jnp.maximum(sends.sum(), 1) * scale)
        return Outcome(
            model=jnp.where(sends.any(), event.model + received, event.model),
            weight=weight,
            amplitude=jnp.where(sends, scale, 0.0),
            similarity=not_applicable(event),
            transmit_power_w=uplink.transmit_power_w(precoder, event.update),
            noise_std=jnp.sqrt(uplink.noise_power_w / 2) / (jnp.maximum(sends.sum(), 1) * scale),
        )
