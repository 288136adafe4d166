"""PAOTA+: an event as soon as a share of the devices is ready, all aligned to one level, and a step that keeps the loop gain.

Of this project; derivation, stability limit and measurements are in docs/paota-plus.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from ..air.uplink import Uplink
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..settings import setting
from ..timing.adaptive import ShareReadyOrRestart
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
    restart_share: float = setting(0.3, above=0, high=1, doc="Share that has to be ready where everybody begins anew.")
    restart_step: float = setting(1.5, above=0, doc="Of the mean update, where everybody begins anew; stable below 2.")
    kappa: float = setting(0.0, low=0, doc="x")
    beta: float = setting(0.9, low=0, high=1, doc="x")
    rkappa: float = setting(0.0, low=0, doc="x")
    rbeta: float = setting(0.5, low=0, high=1, doc="x")
    payload: ClassVar[str] = "update"

    @property
    def scheme(self) -> ShareReadyOrRestart:
        return ShareReadyOrRestart(self.share, self.restart_share)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        cap = amplitude_cap(uplink, event.energy, "physical")
        t = aligned_level(cap, event, uplink)
        p = jnp.where(event.ready, jnp.minimum(t, cap), 0.0)
        n = event.ready.sum()
        late = jnp.maximum(event.num_devices / self.gain, (1 + self.lead) * n)
        return Amplitudes(p, divisor=t * jnp.where(fresh(event), n / self.restart_step, late))

    def init(self, model: Float[Array, " d"]) -> jax.Array:
        return jnp.zeros_like(model), jnp.zeros_like(model)

    def next_model(self, event: Event, heard: Heard) -> Step:
        m, v = event.state
        movement = (1 + self.lead) * heard.received - self.lead * m
        slow = self.beta * v + (1 - self.beta) * movement
        late = Step(event.model + movement + self.kappa * slow, state=(movement, slow))
        rslow = self.rbeta * v + (1 - self.rbeta) * heard.received
        at_once = Step(event.model + heard.received + self.rkappa * rslow, state=(jnp.zeros_like(movement), rslow))
        return jax.tree.map(lambda a, b: jnp.where(fresh(event), a, b), at_once, late)


def fresh(event: Event) -> Bool[Array, ""]:
    """Whether everybody began from the newest model and will again: no update is or will be late."""
    alone = (event.aborted > 0) | (event.ready.sum() >= event.num_devices)
    return alone & (jnp.where(event.ready, event.staleness, 0).max(initial=0) == 0)


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
