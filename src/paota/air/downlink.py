"""The downlink: cost and errors of receiving the new model. By default there are none, as in the paper.

A device that misses a broadcast continues with the newest version it has received. Over an analog downlink it receives
w + n. The server sends at full power, |phi w|^2 = P_s, and each device divides by its channel. The noise on a weight then
has the variance sigma^2 |w|^2 / (2 |h_k|^2 P_s).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.rng import Purpose, host_rng, pick_draws
from ..base.settings import setting
from .digital import rate_of
from .settings import Air
from .spending import symbols

if TYPE_CHECKING:
    import jax
    from jaxtyping import Array, Bool, Float, Int, Key

    from ..timing.fleet import Attendance

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class IdealDownlink:
    """Devices receive every broadcast at once and without errors, as in the paper."""


@dataclass(frozen=True, kw_only=True)
class DigitalDownlink:
    """Each device downloads bits at a rate and begins to compute with the last bit."""

    down_mbit_per_s: float = setting(
        50.0, above=0, doc="Rate of a download in 10^6 bits per second, for devices without a rate in the fleet's file.",
        aliases=("download", "downlink_rate"),
    )  # fmt: skip
    down_bits_per_weight: int = setting(32, low=1, high=64, doc="Bits per weight of the broadcast.")
    broadcast_loss: float | None = setting(
        None, low=0, high=1, doc="Probability that a device misses a broadcast and continues with the version it has."
    )


@dataclass(frozen=True, kw_only=True)
class AnalogDownlink:
    """The server sends the model as analog symbols over the band B; it takes d/B seconds, and the noise differs by device."""

    server_power_w: float = setting(40.0, above=0, doc="Power budget of the server for a broadcast, |phi w|^2.")
    broadcast_loss: float | None = setting(
        None, low=0, high=1, doc="Probability that a device misses a broadcast and continues with the version it has."
    )


class Downloads:
    """Durations of the downloads before trainings."""

    def __init__(self, air: Air, *, num_parameters: int, attendance: Attendance | None) -> None:
        self.downlink, self.attendance = air.downlink, attendance
        self.block_s = symbols(num_parameters, air) / air.bandwidth_hz
        self.bits = float(num_parameters) * getattr(self.downlink, "down_bits_per_weight", 0)

    def __call__(self, device: Int[Whole, " n"], start_s: Floats | None = None) -> Float[Floats, " n"]:
        """Return the seconds of the downloads for trainings that begin at `start_s`."""
        if isinstance(self.downlink, AnalogDownlink):
            return np.full(len(device), self.block_s)
        rate = rate_of(self.attendance, "down_mbit_per_s", self.downlink.down_mbit_per_s, device, start_s)
        return self.bits / (1e6 * rate)


def misses_broadcast(
    air: Air, seed: int, devices: int, device: Int[Whole, " n"], training: Int[Whole, " n"]
) -> Bool[NDArray[np.bool_], " n"]:
    """Return a flag for each of these trainings that is True if its broadcast is missed.

    Args:
        air: the settings with the downlink.
        seed: seed of the run.
        devices: K.
        device: numbers of the devices, [n].
        training: numbers of their trainings, [n].
    """
    probability = getattr(air.downlink, "broadcast_loss", None)
    if probability is None:
        return np.zeros(len(device), bool)
    return pick_draws(device, training, lambda n: host_rng(seed, Purpose.BROADCAST, n).random(devices)) < probability


def in_signals(air: Air) -> Air:
    """Return the settings without those of the timeline, so experiments that differ only there share a compiled program."""
    if isinstance(air.downlink, AnalogDownlink):
        return replace(air, downlink=replace(air.downlink, broadcast_loss=None))
    return replace(air, downlink=IdealDownlink())


def as_heard(
    air: Air, seed: Key[Array, ""], model: Float[Array, "n d"], version: Int[Array, " n"], device: Int[Array, " n"]
) -> Float[Array, "n d"]:
    """Return the models as the devices received them: `model` with the noise of an analog broadcast, if any.

    Args:
        air: the settings with the downlink.
        seed: key of the run.
        model: the global models from which the devices start.
        version: their version numbers; the same broadcast has the same noise again.
        device: numbers of the devices.
    """
    if not isinstance(air.downlink, AnalogDownlink):
        return model
    import jax  # start-up time
    import jax.numpy as jnp  # start-up time

    from ..base.rng import draw_key  # start-up time
    from .channel import mean_gain, small_scale  # start-up time
    from .uplink import noise_power_w  # start-up time

    def one(w: jax.Array, v: jax.Array, k: jax.Array) -> jax.Array:
        key = draw_key(seed, Purpose.BROADCAST, v, k)
        # No precoder suits all devices: one of the server's antennas sends the broadcast.
        h = small_scale(air, key, v, jnp.zeros(()), k[None])[0, 0]
        gain = mean_gain(air, seed, k[None])[0] * jnp.abs(h) ** 2
        noise_w = noise_power_w(air.bandwidth_hz, air.n0_dbm_per_hz)
        std = jnp.sqrt(noise_w / 2 * jnp.sum(w**2) / (gain * air.downlink.server_power_w))
        return w + std * jax.random.normal(jax.random.fold_in(key, 1), w.shape, w.dtype)

    return jax.vmap(one)(model, version, device)
