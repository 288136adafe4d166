"""Threshold power control, in which a device inverts its channel if it can afford it, and its baseline of full power.

Cao, Zhu, Xu, Huang: "Optimized Power Control for Over-the-Air Computation in Fading Channels", 2020. Both cases of the paper:
static channels, and with `fading` a budget on average over time with regularised channel inversion.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from .base import Amplitudes, Event, Heard, Step, SynchronousAlgorithm, average


@dataclass(frozen=True, kw_only=True)
class FullPower(SynchronousAlgorithm):
    """p_k = |h_k| sqrt(P) / |payload_k|, weights p_k / sum p: devices correct only the phase, so channels set the weights.

    Transmissions use the physical budget for any `power.cap`.
    """

    payload: str = setting("model", options=("model", "update"), doc="Signal of a device.")

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return average(amplitude_cap(uplink, event.energy, "physical"), event)


@dataclass(frozen=True, kw_only=True)
class Threshold(SynchronousAlgorithm):
    """p_k = min(t, q_k) with quality q_k = p_k^max; the server adds y / (n t) to w^r. Devices send updates.

    t (their sqrt(eta)) minimises the mean squared error sum_k (p_k/t - 1)^2 + sigma^2/t^2 for signals of unit power.

    With `fading` a device keeps its budget over all its rounds together, at a price mu_k: p_k = t q_k^2 / (q_k^2 + mu_k t^2),
    and t minimises sum_k mu_k t^2 / (q_k^2 + mu_k t^2) + sigma^2/t^2. The paper computes the prices from the distribution
    of the channels. Here they adapt during the run, mu_k <- mu_k exp(`price_step` (power / P - 1)).
    """

    fading: bool = setting(False, doc="Devices keep their budgets on average over time, not in every round.")
    price_step: float = setting(0.3, above=0, doc="With `fading`: speed at which a device's price of power adapts.")
    payload = "update"

    def init_for(self, model: Float[Array, " d"], num_devices: int) -> PyTree[Array]:
        return jnp.ones(num_devices) if self.fading else ()

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        if self.fading:
            return self._regularised(event, uplink)
        quality = jnp.where(event.ready, amplitude_cap(uplink, event.energy, power.cap), 0.0)
        t = aligned_level(quality, event, uplink)
        n = jnp.maximum(event.ready.sum(), 1)
        return Amplitudes(jnp.minimum(t, quality), divisor=n * t)  # weights below 1/n for devices that cannot reach t

    def _regularised(self, event: Event, uplink: Uplink) -> Amplitudes:
        quality = jnp.where(event.ready, amplitude_cap(uplink, event.energy, "physical"), 0.0)
        price = event.state[event.device]
        t = regularised_level(quality, price, event.ready, relative_noise(event, uplink))
        p = t * quality**2 / (quality**2 + price * t**2)
        return Amplitudes(jnp.where(event.ready, p, 0.0), divisor=jnp.maximum(event.ready.sum(), 1) * t)

    def next_model(self, event: Event, heard: Heard) -> Step:
        step = super().next_model(event, heard)
        if not self.fading:
            return step
        assert heard.transmit_power_w is not None
        assert heard.max_power_w is not None
        dearer = jnp.exp(self.price_step * (heard.transmit_power_w / heard.max_power_w - 1))
        return step._replace(state=event.state.at[event.device].multiply(jnp.where(event.ready, dearer, 1.0)))


def regularised_level(
    quality: Float[Array, " n"], price: Float[Array, " n"], ready: Bool[Array, " n"], noise: Float[Array, ""],
    points: int = 400,
) -> Float[Array, ""]:  # fmt: skip
    """Return the t that minimises sum_k mu_k t^2 / (q_k^2 + mu_k t^2) + sigma^2 / t^2 on a grid of ratio 1.06.

    The error need not be convex. The grid spans ten decades around the qualities over the roots of the prices.

    Args:
        quality: q_k, [n].
        price: mu_k, [n].
        ready: the devices that take part, [n].
        noise: sigma^2 relative to the power of a symbol.
        points: points of the grid.
    """
    middle = jnp.sum(jnp.where(ready, quality / jnp.sqrt(price), 0.0)) / jnp.maximum(ready.sum(), 1)
    grid = jnp.where(middle > 0, middle, 1.0) * jnp.logspace(-5.0, 5.0, points)
    biased = price * grid[:, None] ** 2
    error = jnp.sum(jnp.where(ready & (quality > 0), biased / (quality**2 + biased), 0.0), axis=1) + noise / grid**2
    return grid[jnp.argmin(error)]


def aligned_level(quality: Float[Array, " n"], event: Event, uplink: Uplink) -> Float[Array, ""]:
    """Return the level t of least error for the ready devices of an event with these qualities."""
    return inversion_level(quality, event.ready, relative_noise(event, uplink))


def relative_noise(event: Event, uplink: Uplink) -> Float[Array, ""]:
    """Return the variance of the noise in units of the mean power of a symbol."""
    n = jnp.maximum(event.ready.sum(), 1)
    energy = jnp.sum(jnp.where(event.ready, event.energy, 0.0))
    signal_power = energy / (n * event.model.size)  # of a symbol, mean over the devices
    return uplink.noise_power_w / 2 / jnp.where(signal_power > 0, signal_power, 1.0)


def inversion_level(quality: Float[Array, " n"], ready: Bool[Array, " n"], noise: Float[Array, ""]) -> Float[Array, ""]:
    """Return t = min_m (sigma^2 + sum_(i<=m) q_i^2) / sum_(i<=m) q_i over the m weakest devices, q sorted upwards.

    The error is convex in 1/t. At zero slope t is this ratio over the devices that cannot reach t. The next device lowers
    the ratio exactly if it is below the ratio, hence the minimum.

    Args:
        quality: q_k, [n].
        ready: the devices that take part, [n].
        noise: sigma^2 relative to the power of a symbol.
    """
    ordered = jnp.sort(jnp.where(ready, quality, jnp.inf))
    known = jnp.isfinite(ordered)
    q = jnp.where(known, ordered, 0.0)
    total = jnp.cumsum(q)
    ratio = (noise + jnp.cumsum(q**2)) / jnp.where(total > 0, total, 1.0)
    return jnp.min(jnp.where(known & (total > 0), ratio, jnp.inf))
