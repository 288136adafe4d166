"""Majority votes over the air: devices send the signs of their updates, and every weight makes a step of the same size.

Zhu, Du, Gunduz, Huang: "One-Bit Over-the-Air Aggregation for Communication-Efficient Federated Edge Learning", 2021.
Without channel knowledge: Şahin, Everette, Hoque: "Distributed Learning over a Wireless Network with FSK-Based Majority
Vote", 2021. The rule that an unchanged weight gives no vote is from Şahin, "Distributed Learning over a Wireless Network
with Non-coherent Majority Vote Computation", 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from .base import Amplitudes, DeviceResult, Event, Heard, Step, SynchronousAlgorithm, average


@dataclass(frozen=True, kw_only=True)
class MajorityVote(SynchronousAlgorithm):
    """w <- w + step sign(sum_k p_k sign(dw_k) + n): every weight makes a step of the same size, up or down.

    Truncated channel inversion: devices with |h_k|^2 >= threshold E|h_k|^2 arrive alike, with the amplitude that the
    budget of all of them allows; the others are silent. All send d symbols of the same size, so channels alone decide, and
    noise matters only for close votes.
    """

    step: float = setting(0.01, above=0, doc="Step size of every weight.")
    threshold: float = setting(0.1, above=0, doc="Devices with |h_k|^2 below this share of its mean are silent.")
    payload = "update"

    def signal(self, result: DeviceResult) -> Float[Array, " d"]:
        return jnp.sign(result.update)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        sends = event.ready & (jnp.abs(uplink.channel) ** 2 >= self.threshold * uplink.mean_gain)
        cap = amplitude_cap(uplink, event.energy, power.cap)
        common = jnp.min(jnp.where(sends, cap, jnp.inf))
        return average(jnp.where(sends & jnp.isfinite(common), common, 0.0), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        return Step(event.model + self.step * jnp.sign(heard.received))


@dataclass(frozen=True, kw_only=True)
class FskVote(SynchronousAlgorithm):
    """w <- w + step sign(|y+|^2 - |y-|^2): a vote is energy on one of two frequencies, and the server compares them.

    y+ and y- are complex: the sum over the devices that vote up, or down, and noise. Every vote is a symbol with a new
    random phase. No channel is known, so all devices send at full power without inversion, and the phase of the channel has
    no effect. A weight takes two symbols. The signal holds the real and imaginary parts of both for each weight.
    """

    step: float = setting(0.01, above=0, doc="Step size of every weight.")
    payload = "update"
    draws: ClassVar[bool] = True
    told_amplitudes: ClassVar[bool] = False
    inverts_channels: ClassVar[bool] = False

    def symbols(self, num_parameters: int, packed: bool) -> int:
        return 2 * num_parameters  # a frequency carries both parts of a complex number anyway

    def signal(self, result: DeviceResult) -> Float[Array, " m"]:
        assert result.key is not None
        phase = jax.random.uniform(result.key, result.update.shape, maxval=2 * jnp.pi)
        parts = jnp.stack([jnp.cos(phase), jnp.sin(phase)])
        return jnp.concatenate([jnp.where(vote, parts, 0.0) for vote in (result.update > 0, result.update < 0)]).ravel()

    def assumed(self, uplink: Uplink) -> Uplink:
        """Return the channel of the signals without its phase; estimates and phase errors have no effect."""
        met = uplink.channel if uplink.actual_channel is None else uplink.actual_channel
        return uplink._replace(channel=jnp.abs(met).astype(met.dtype), actual_channel=None)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return average(amplitude_cap(uplink, event.energy, "physical"), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        up, down = jnp.sum(heard.received.reshape(2, 2, -1) ** 2, axis=1)
        return Step(event.model + self.step * jnp.sign(up - down))
