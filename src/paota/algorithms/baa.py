"""BAA: synchronous rounds over the air with truncated channel inversion.

Zhu, Wang, Huang: "Broadband Analog Aggregation for Low-Latency Federated Edge Learning", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..base.units import db_to_ratio
from ..power.settings import Power
from .base import Amplitudes, Event, SynchronousAlgorithm, average


@dataclass(frozen=True, kw_only=True)
class Baa(SynchronousAlgorithm):
    """phi_k = sqrt(rho0) conj(h_k)/|h_k|^2 where |h_k|^2 >= g_th E|h_k|^2, else silent; the server takes the mean.

    All devices arrive with amplitude sqrt(rho0). With `power.cap = "paper"` it is the printed number. With "physical" it is
    the amplitude that every device can afford at the threshold, min_k sqrt(g_th E|h_k|^2 P) / |payload_k|. Cell-interior
    scheduling silences devices with a path loss above `interior_loss_db`, so they do not set that amplitude.
    """

    threshold: float = setting(
        0.1, above=0, doc="g_th: devices with |h_k|^2 below this share of its mean are silent.", aliases=("g_th",)
    )
    interior_loss_db: float | None = setting(
        None, doc="Cell-interior scheduling: devices with more path loss in dB are silent; absent: all are scheduled."
    )
    payload: str = setting("model", options=("model", "update"), doc="Signal of a device.")

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        level = self.threshold * uplink.mean_gain
        inside = jnp.ones_like(event.ready)
        if self.interior_loss_db is not None:
            inside &= uplink.mean_gain >= db_to_ratio(-self.interior_loss_db)
        event = event._replace(ready=event.ready & inside)
        sends = jnp.abs(uplink.channel) ** 2 >= level
        return average(jnp.where(sends, self._common(event, uplink, power, level), 0.0), event)

    def _common(
        self, event: Event, uplink: Uplink, power: Power, level: Float[Array, ...] | float
    ) -> Float[Array, ...]:
        """Return the amplitude of all senders."""
        if power.cap == "paper":
            return uplink.max_power_w
        norm = jnp.sqrt(event.energy)
        affordable = jnp.sqrt(level * uplink.max_power_w) / jnp.where(norm > 0, norm, 1.0)
        return jnp.min(jnp.where(event.ready, affordable, jnp.inf))
