"""BAA: synchronous rounds over the air with truncated channel inversion.

Zhu, Wang, Huang: "Broadband Analog Aggregation for Low-Latency Federated Edge Learning", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.settings import Power
from ..settings import setting
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World, superpose
from .local_sgd import synchronous_timeline


@dataclass(frozen=True, kw_only=True)
class Baa(Algorithm):
    """phi_k = sqrt(rho0) conj(h_k)/|h_k|^2 where |h_k|^2 >= g_th E|h_k|^2, else silent; the server takes the mean.

    sqrt(rho0), the amplitude at which all arrive: with `power.cap = "paper"` the printed number, with "physical" what
    the budget allows at the threshold to every device, min_k sqrt(g_th E|h_k|^2 P) / |payload_k|.
    """

    participants: int | None = setting(None, low=1)
    threshold: float = setting(0.1, above=0)  # g_th; Rayleigh fading silences 1 - e^(-g_th) of the devices
    payload: str = setting("model", options=("model", "update"))

    def timeline(self, world: World) -> Timeline:
        return synchronous_timeline(world, self.participants)

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        payload = event.local_model if self.payload == "model" else event.update
        level = self.threshold * uplink.mean_gain
        sends = event.ready & (jnp.abs(uplink.channel) ** 2 >= level)
        p = jnp.where(sends, self.amplitude(event, uplink, power, payload, level), 0.0)
        received = superpose(event, uplink, p, payload)
        model = received.model if self.payload == "model" else event.model + received.model
        return received._replace(model=jnp.where(sends.any(), model, event.model))

    def amplitude(
        self, event: Event, uplink: Uplink, power: Power, payload: jax.Array, level: jax.Array | float
    ) -> jax.Array:
        if power.cap == "paper":
            return uplink.max_power_w
        norm = jnp.linalg.norm(payload, axis=1)
        affordable = jnp.sqrt(level * uplink.max_power_w) / jnp.where(norm > 0, norm, 1.0)
        return jnp.min(jnp.where(event.ready, affordable, jnp.inf))
