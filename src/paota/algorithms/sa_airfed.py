"""SA-AirFed: semi-asynchronous aggregation over the air with weights from a convex programme over staleness and noise.

Zheng, Deng, Yi, Shin, Nallanathan: "Over-the-Air Computation Enabled Semi-Asynchronous Wireless Federated Learning", 2025.
We did not have its full text. The paper chooses weights by a convex quadratic programme that balances staleness and noise.
The programme below is our reading of it, and its scheduling is PAOTA's.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..timing.schemes import Periodic
from .base import Algorithm, Amplitudes, Event

HALVINGS = 50


@dataclass(frozen=True, kw_only=True)
class SaAirFed(Algorithm):
    """min over weights alpha and t:  sum_k alpha_k^2 + (staleness / n) sum_k alpha_k s_k + N t^2,
    under sum alpha = 1, 0 <= alpha_k <= t p_k^max.

    Devices arrive with p_k = alpha_k / t and the server multiplies by t, so N t^2 is the noise in the model, with
    N = d sigma^2 / (2 E) in units of the mean |payload_k|^2 = E. The first term is the spread of the updates.
    """

    staleness: float = setting(0.5, low=0, doc="Cost of one version of staleness; 0: only noise and spread count.")
    payload: str = setting("update", options=("model", "update"), doc="Signal of a device.")
    scheme = Periodic()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        n = jnp.maximum(event.ready.sum(), 1.0)
        energy = jnp.sum(jnp.where(event.ready, event.energy, 0.0)) / n
        noise = event.model.size * uplink.noise_power_w / 2 / jnp.where(energy > 0, energy, 1.0)
        p_max = jnp.where(event.ready, amplitude_cap(uplink, event.energy, power.cap), 0.0)
        alpha, t = least_error(self.staleness / n * event.staleness, p_max, noise)
        return Amplitudes(jnp.where(event.ready, alpha / t, 0.0), divisor=1 / t)


def least_error(
    price: Float[Array, " n"], p_max: Float[Array, " n"], noise: Float[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """Return (alpha, t) that minimise sum alpha^2 + price . alpha + noise t^2; devices with p_max = 0 get no weight.

    For a given t, alpha_k = clip(mu - price_k / 2, 0, t p_k^max) with the mu that makes them sum to 1. The slope in t,
    2 noise t - sum_k 2 (mu - price_k / 2 - t p_k^max)+ p_k^max, rises. Bisection finds both mu and t. Without noise it
    returns the smallest of the best t, which gives the largest amplitudes.

    Args:
        price: cost of each device's staleness, [n].
        p_max: largest amplitudes, [n].
        noise: N.
    """

    def weights(t: Array) -> tuple[Float[Array, " n"], Array]:
        def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (ends[0] + ends[1]) / 2
            below = jnp.clip(middle - price / 2, 0.0, t * p_max).sum() < 1
            return jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)

        highest = jnp.max(jnp.where(p_max > 0, price / 2 + t * p_max, 0.0))
        _, mu = jax.lax.fori_loop(0, HALVINGS, halve, (jnp.zeros_like(highest), highest))
        return jnp.clip(mu - price / 2, 0.0, t * p_max), mu

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        t = (ends[0] + ends[1]) / 2
        mu = weights(t)[1]
        slope = noise * t - jnp.sum(jnp.maximum(mu - price / 2 - t * p_max, 0.0) * p_max)
        return jnp.where(slope < 0, t, ends[0]), jnp.where(slope < 0, ends[1], t)

    total = jnp.where(p_max.sum() > 0, p_max.sum(), 1.0)
    weakest = jnp.min(jnp.where(p_max > 0, p_max, jnp.inf))
    most = jnp.where(jnp.isfinite(weakest), 1 / weakest, 1.0)  # where no cap binds
    _, t = jax.lax.fori_loop(0, HALVINGS, halve, (1 / total, most))
    alpha, _ = weights(t)
    return alpha / jnp.where(alpha.sum() > 0, alpha.sum(), 1.0), t
