"""The downlink: what it costs to hear the new model. By default nothing, as in the paper.

A device that misses a broadcast goes on from the newest version that it has heard. Over an analog downlink it hears
w + n: the server sends with all its power, |phi w|^2 = P_s, each device divides by what the channel made of it, and the
noise on a weight has the variance sigma^2 |w|^2 / (2 |h_k|^2 P_s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..base.rng import Purpose, host_rng, pick_draws
from ..base.settings import setting
from .digital import rate_of
from .settings import Air
from .spending import symbols

if TYPE_CHECKING:
    import jax
    from jaxtyping import Array, Float, Int

    from ..timing.fleet import Attendance

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class IdealDownlink:
    """Everybody hears every broadcast meant for it, as it is, at once: the paper."""


@dataclass(frozen=True, kw_only=True)
class DigitalDownlink:
    """Bits at a rate: the device begins to compute when it has them all."""

    down_mbit_per_s: float = setting(
        50.0, above=0, doc="Rate of a download, 10^6 bits a second, where the fleet's file does not say.",
        aliases=("download", "downlink_rate"),
    )  # fmt: skip
    down_bits_per_weight: int = setting(32, low=1, high=64, doc="Bits that one weight of the broadcast takes.")
    broadcast_loss: float | None = setting(
        None, low=0, high=1, doc="Probability of missing a broadcast and going on from the version at hand."
    )


@dataclass(frozen=True, kw_only=True)
class AnalogDownlink:
    """The model itself as symbols over the band B: it takes d/B seconds, and everybody hears noise of its own."""

    server_power_w: float = setting(
        40.0, above=0, doc="Budget of the server for a broadcast, as P_max is for a device: |phi w|^2."
    )
    broadcast_loss: float | None = setting(
        None, low=0, high=1, doc="Probability of missing a broadcast and going on from the version at hand."
    )


class Downloads:
    """Seconds that a download takes, before a training."""

    def __init__(self, air: Air, *, num_parameters: int, attendance: Attendance | None) -> None:
        self.downlink, self.attendance = air.downlink, attendance
        self.block_s = symbols(num_parameters, air) / air.bandwidth_hz
        self.bits = float(num_parameters) * getattr(self.downlink, "down_bits_per_weight", 0)

    def __call__(self, device: NDArray[np.int64], start_s: Floats | None = None) -> Floats:
        """[n], for trainings that begin at `start_s`."""
        if isinstance(self.downlink, AnalogDownlink):
            return np.full(len(device), self.block_s)
        rate = rate_of(self.attendance, "down_mbit_per_s", self.downlink.down_mbit_per_s, device, start_s)
        return self.bits / (1e6 * rate)


def misses_broadcast(
    air: Air, seed: int, devices: int, device: NDArray[np.int64], training: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether the broadcast for each of these trainings is missed, [n]; `devices`: K."""
    probability = getattr(air.downlink, "broadcast_loss", None)
    if probability is None:
        return np.zeros(len(device), bool)
    return pick_draws(device, training, lambda n: host_rng(seed, Purpose.BROADCAST, n).random(devices)) < probability


def in_signals(air: Air) -> Air:
    """Without what only the timeline knows, so that experiments that differ there share one compiled program."""
    if isinstance(air.downlink, AnalogDownlink):
        return replace(air, downlink=replace(air.downlink, broadcast_loss=None))
    return replace(air, downlink=IdealDownlink())


def as_heard(
    air: Air, seed: jax.Array, model: Float[Array, "n d"], version: Int[Array, " n"], device: Int[Array, " n"]
) -> Float[Array, "n d"]:
    """The models as these devices heard them: `model` itself, with the noise of an analog broadcast.

    Args:
        air: with the downlink.
        seed: key of the run.
        model: the global models that they start from.
        version: of these models; whoever hears the same broadcast again hears the same noise.
        device: who.
    """
    if not isinstance(air.downlink, AnalogDownlink):
        return model
    import jax
    import jax.numpy as jnp

    from ..base.rng import draw_key
    from .channel import mean_gain, small_scale
    from .uplink import noise_power_w

    def one(w: jax.Array, v: jax.Array, k: jax.Array) -> jax.Array:
        key = draw_key(seed, Purpose.BROADCAST, v, k)
        # A broadcast is matched to nobody: one of the server's antennas sends it.
        h = small_scale(air, key, v, jnp.zeros(()), k[None])[0, 0]
        gain = mean_gain(air, seed, k[None])[0] * jnp.abs(h) ** 2
        noise_w = noise_power_w(air.bandwidth_hz, air.n0_dbm_per_hz)
        std = jnp.sqrt(noise_w / 2 * jnp.sum(w**2) / (gain * air.downlink.server_power_w))
        return w + std * jax.random.normal(jax.random.fold_in(key, 1), w.shape, w.dtype)

    return jax.vmap(one)(model, version, device)
