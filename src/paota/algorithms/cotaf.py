"""COTAF: synchronous rounds over the air with time-varying precoding.

Sery, Shlezinger, Cohen, Eldar: "Over-the-Air Federated Learning From Heterogeneous Data", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.settings import Power
from ..settings import setting
from .base import Amplitudes, Event, SynchronousAlgorithm


@dataclass(frozen=True, kw_only=True)
class Cotaf(SynchronousAlgorithm):
    """Every device sends sqrt(p_t) dw_k, and the server divides the sum by n sqrt(p_t).

    `fading = false` is the scheme as published for a plain additive-noise channel. There p_t = P / E|dw|^2: the budget is
    kept on average, `norm = "expected"`, with the mean over the round's devices for the expectation, which the paper
    takes as known. `norm = "largest"` keeps it for every device: p_t = P / max_k |dw_k|^2. `fading = true` inverts the
    fading channel inside each device's budget: p_t = P min_k |h_k|^2 / |dw_k|^2, over the devices with |h_k| >=
    `min_gain`; weaker ones stay silent.
    """

    fading: bool = setting(
        False, doc="Invert the fading channel inside the power budget; false: as published, without fading."
    )
    norm: str = setting(
        "largest",
        options=("largest", "expected"),
        doc="The budget is kept by every device, or on average as published.",
    )
    min_gain: float = setting(0.0, low=0, doc="With `fading`: devices with a weaker channel |h_k| stay silent.")
    payload: ClassVar[str] = "update"

    def assumed(self, uplink: Uplink) -> Uplink:
        return uplink if self.fading else uplink.without_fading()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        gain, energy = jnp.abs(uplink.channel), event.energy
        sends = event.ready & (gain >= self.min_gain) if self.fading else event.ready
        # p_t: the loudest common scaling that no device's budget forbids.
        most = uplink.max_power_w
        affordable = most * (gain**2 / jnp.where(energy > 0, energy, 1.0))
        p_t = jnp.min(jnp.where(sends & (energy > 0), affordable, jnp.inf))
        if self.norm == "expected" and not self.fading:
            mean = jnp.sum(jnp.where(sends, energy, 0.0)) / jnp.maximum(sends.sum(), 1)
            p_t = jnp.min(jnp.where(sends, most, jnp.inf)) / mean
        scale = jnp.where(jnp.isfinite(p_t), jnp.sqrt(p_t), 1.0)  # nobody has anything to say: any scale does
        return Amplitudes(jnp.where(sends, scale, 0.0), divisor=jnp.maximum(sends.sum(), 1) * scale)
