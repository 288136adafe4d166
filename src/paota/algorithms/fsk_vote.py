"""Majority vote without knowledge of any channel: a vote is energy on one of two frequencies, and the server compares them.

Şahin, Everette, Hoque: "Distributed Learning over a Wireless Network with FSK-Based Majority Vote", 2021; that a weight which
did not change gives no vote is of Şahin, "Distributed Learning over a Wireless Network with Non-coherent Majority Vote
Computation", 2023.
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
class FskVote(SynchronousAlgorithm):
    """w <- w + step sign(|y+|^2 - |y-|^2), y+ and y- complex: the sum over the devices that vote up, or down, and noise.

    Every vote is a symbol of its own phase, drawn anew. Nobody knows a channel: all send at full power, nobody inverts,
    and what the channel does to a phase makes no difference. Two symbols a weight. A signal holds, for each weight, the
    real and imaginary parts of both.
    """

    step: float = setting(0.01, above=0, doc="By which every weight goes up or down.")
    payload: ClassVar[str] = "update"
    draws: ClassVar[bool] = True
    told_amplitudes: ClassVar[bool] = False

    def symbols(self, num_parameters: int, packed: bool) -> int:
        return 2 * num_parameters  # a frequency carries both parts of a complex number anyway

    def signal(self, result: DeviceResult) -> Float[Array, " m"]:
        phase = jax.random.uniform(result.key, result.update.shape, maxval=2 * jnp.pi)
        parts = jnp.stack([jnp.cos(phase), jnp.sin(phase)])
        return jnp.concatenate([jnp.where(vote, parts, 0.0) for vote in (result.update > 0, result.update < 0)]).ravel()

    def assumed(self, uplink: Uplink) -> Uplink:
        """What the signals meet, without its phase; beliefs and errors of phase play no part."""
        met = uplink.channel if uplink.actual_channel is None else uplink.actual_channel
        return uplink._replace(channel=jnp.abs(met).astype(met.dtype), actual_channel=None)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return average(amplitude_cap(uplink, event.energy, "physical"), event)

    def next_model(self, event: Event, heard: Heard) -> Step:
        up, down = jnp.sum(heard.received.reshape(2, 2, -1) ** 2, axis=1)
        return Step(event.model + self.step * jnp.sign(up - down))
