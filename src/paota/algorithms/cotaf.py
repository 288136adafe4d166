"""COTAF: synchronous rounds over the air with time-varying precoding.

Sery, Shlezinger, Cohen, Eldar: "Over-the-Air Federated Learning From Heterogeneous Data", 2021.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from .base import Amplitudes, Event, Heard, Step, SynchronousAlgorithm


@dataclass(frozen=True, kw_only=True)
class Cotaf(SynchronousAlgorithm):
    """Every device sends sqrt(p_t) dw_k, and the server divides the sum by n sqrt(p_t).

    `fading = false` is the published scheme for a plain additive-noise channel. There p_t = P / max_k E|dw_k|^2 with known
    expectations, so devices keep the budget on average. `norm = "largest"` uses the actual |dw_k|^2, so all devices keep
    the budget in every round. `norm = "expected"` uses a running mean of each device's |dw_k|^2, in which every round
    counts half as much as the next. `fading = true` inverts the fading channel inside each device's budget:
    p_t = P min_k |h_k|^2 / |dw_k|^2, over the devices with |h_k| >= `min_gain`; weaker ones are silent.
    """

    fading: bool = setting(
        False, doc="Invert the fading channel inside the power budget; false: as published, without fading."
    )
    norm: str = setting(
        "largest",
        options=("largest", "expected"),
        doc="Devices keep the budget in every round, or on average as published.",
    )
    min_gain: float = setting(0.0, low=0, doc="With `fading`: devices with a weaker channel |h_k| are silent.")
    payload = "update"

    @property
    def _remembers(self) -> bool:
        return self.norm == "expected" and not self.fading

    def init_for(self, model: Float[Array, " d"], num_devices: int) -> PyTree[Array]:
        return jnp.zeros(num_devices) if self._remembers else ()  # mean |dw_k|^2; 0: never received

    def assumed(self, uplink: Uplink) -> Uplink:
        return uplink if self.fading else uplink.without_fading()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        gain = jnp.abs(uplink.channel)
        energy = self._expected(event) if self._remembers else event.energy
        sends = event.ready & (gain >= self.min_gain) if self.fading else event.ready
        # p_t: the largest common scaling that all budgets allow.
        most = uplink.max_power_w
        affordable = most * (gain**2 / jnp.where(energy > 0, energy, 1.0))
        p_t = jnp.min(jnp.where(sends & (energy > 0), affordable, jnp.inf))
        scale = jnp.where(jnp.isfinite(p_t), jnp.sqrt(p_t), 1.0)  # all updates are zero: any scale works
        return Amplitudes(jnp.where(sends, scale, 0.0), divisor=jnp.maximum(sends.sum(), 1) * scale)

    def next_model(self, event: Event, heard: Heard) -> Step:
        step = super().next_model(event, heard)
        if not self._remembers:
            return step
        change = jnp.where(event.ready, self._expected(event) - event.state[event.device], 0.0)
        return step._replace(state=event.state.at[event.device].add(change))

    def _expected(self, event: Event) -> Float[Array, " n"]:
        """Return E|dw_k|^2 as known in this round."""
        before = event.state[event.device]
        return jnp.where(before > 0, (before + event.energy) / 2, event.energy)
