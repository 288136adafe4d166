"""PAOTA+: an event as soon as a share of the devices is ready, all aligned to one level, and a step that keeps the loop gain.

Of this project; derivation, stability limit and measurements are in docs/paota-plus.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from ..air.uplink import Uplink
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import ShareReady
from .base import Algorithm, Amplitudes, Event, Heard, Step
from .threshold import aligned_level


@dataclass(frozen=True, kw_only=True)
class PaotaPlus(Algorithm):
    """s = (gain / K) sum_k dw_k over the ready devices;  m <- (1 + lead) s - lead m;  w <- w + m.

    Devices arrive with p_k = min(t, p_k^max), t the level of least error. Every update moves the model by the same share
    gain / K of itself in the end, however many others are ready: by Little's law `gain` is then the gain of the whole
    loop, whatever the latencies (see `stability_limit`). `lead` makes up for a part of the delay. Where very many are
    ready at once, as in lock-step, the first movement is never more than the mean update. Transmissions keep every
    device's budget, whatever `power.cap` says.
    """

    share: float = setting(0.2, above=0, high=1, doc="Share of all devices that have to be ready for an aggregation.")
    gain: float = setting(2.0, above=0, doc="Of the whole loop: an update moves the model by gain / K of itself.")
    # With a fifth ready, 0.65 has the highest limit at equal latencies.
    lead: float = setting(0.65, low=0, high=1, doc="Makes up for a part of the delay.")
    payload: ClassVar[str] = "update"

    @property
    def scheme(self) -> ShareReady:
        return ShareReady(self.share)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        cap = amplitude_cap(uplink, event.energy, "physical")
        t = aligned_level(cap, event, uplink)
        p = jnp.where(event.ready, jnp.minimum(t, cap), 0.0)
        n = event.ready.sum()
        return Amplitudes(p, divisor=t * jnp.maximum(event.num_devices / self.gain, (1 + self.lead) * n))

    def init(self, model: Float[Array, " d"]) -> jax.Array:
        return jnp.zeros_like(model)

    def next_model(self, event: Event, heard: Heard) -> Step:
        movement = (1 + self.lead) * heard.received - self.lead * event.state
        return Step(event.model + movement, state=movement)


def stability_limit(staleness: ArrayLike, share: float, lead: float) -> float:
    """The largest gain for which the loop is stable, where every local training contracts by h <= 1 (divide it by h).

    `staleness` [S]: shares of the updates that are 0, 1, 2, ... versions old; they sum to 1. `share`: of all devices in an
    event. With dw_k = -h w^(r-s_k) the characteristic polynomial is (z - 1)(z + lead) z^(S-1) +
    (1 + lead) gain share sum_s staleness_s z^(S-s); the first gain that brings a root onto the unit circle is returned.
    """
    fractions = np.asarray(staleness, float)
    delayed = np.concatenate([[0.0], fractions, [0.0]])  # coefficients of z^(S+1), z^S, ..., z^0
    plain = np.zeros(len(fractions) + 2)
    plain[:3] = 1.0, lead - 1.0, -lead

    def stable(gain: float) -> bool:
        return bool(np.abs(np.roots(plain + (1 + lead) * gain * share * delayed)).max() < 1)

    low, high = 0.0, 4.0 / share
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low
