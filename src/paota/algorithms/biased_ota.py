"""Biased over-the-air learning: amplitudes from channel statistics alone, which differ with the distance of devices.

Abrar, Michelusi: "Biased Over-the-Air Federated Learning under Wireless Heterogeneity", 2024. Both of its designs are here.
The paper assumes |update| <= G; here devices scale longer ones down. Both assume Rayleigh fading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from .base import Amplitudes, DeviceResult, Event, SynchronousAlgorithm

HALVINGS = 50


@dataclass(frozen=True, kw_only=True)
class BiasedOta(SynchronousAlgorithm):
    """Device k sends gamma_k dw_k / h_k if its budget allows that for |dw_k| = G, |h_k|^2 >= gamma_k^2 G^2 / P, else nothing.

    With E|h_k|^2 = Lambda_k the mean amplitude is a_k = gamma_k exp(-gamma_k^2 G^2 / (P Lambda_k)). The server knows only
    Lambda_k and divides by sum_k a_k. `design = "variance"` maximises each a_k, which minimises the noise:
    gamma_k^2 = P Lambda_k / (2 G^2); near devices then have more weight. `design = "unbiased"` sets all a_k to the largest
    value that the farthest device can reach.
    """

    design: str = setting("variance", options=("variance", "unbiased"), doc="Least noise or equal weights.")
    max_norm: float = setting(
        1.0, above=0, doc="G: largest norm of an update; longer ones are scaled down.", aliases=("G_max",)
    )
    payload = "update"
    inverts_channels: ClassVar[bool] = False  # the design assumes flat Rayleigh fading

    def signal(self, result: DeviceResult) -> Float[Array, " d"]:
        norm = jnp.linalg.norm(result.update)
        return result.update * jnp.minimum(1.0, self.max_norm / jnp.where(norm > 0, norm, 1.0))

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        mean_gain = jnp.broadcast_to(uplink.mean_gain, event.ready.shape)
        scale = jnp.sqrt(uplink.max_power_w * mean_gain) / self.max_norm  # gamma in these units: x
        x = jnp.full_like(scale, jnp.sqrt(0.5))  # where x exp(-x^2) is largest
        if self.design == "unbiased":
            x = smaller_root(jnp.min(jnp.where(event.ready, expected(x) * scale, jnp.inf)) / scale)
        sends = event.ready & (jnp.abs(uplink.channel) ** 2 >= x**2 * mean_gain)
        mean = jnp.sum(jnp.where(event.ready, expected(x) * scale, 0.0))
        return Amplitudes(jnp.where(sends, x * scale, 0.0), divisor=jnp.where(mean > 0, mean, 1.0))


def expected(x: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return x exp(-x^2), the mean amplitude of a device that sends x where |h|^2 / E|h|^2 >= x^2."""
    return x * jnp.exp(-(x**2))


def smaller_root(value: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return x in [0, sqrt(1/2)], where x exp(-x^2) rises, with x exp(-x^2) = value."""

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = (ends[0] + ends[1]) / 2
        below = expected(middle) < value
        return jnp.where(below, middle, ends[0]), jnp.where(below, ends[1], middle)

    low = jnp.zeros_like(value)
    return jax.lax.fori_loop(0, HALVINGS, halve, (low, jnp.full_like(value, jnp.sqrt(0.5))))[1]
