"""PAOTA+: whoever is ready sends at once, all aligned to one level; the loop's delay sets the step of what changes
quickly, and what goes on in one direction is driven further. Restarts where they are quicker and leave nobody out.

Of this project; derivation, stability limit and measurements are in docs/paota-plus.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import ArrayLike

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from ..timing.restarts import ShareReadyOrRestart
from .base import Algorithm, Amplitudes, Event, Heard, Step
from .threshold import aligned_level

LATEST = 128  # versions; later updates count as that late
FREQUENCIES = 1024  # at which the loop is looked at


class Motion(NamedTuple):
    """What the server keeps."""

    newest: Float[Array, " d"]  # m
    trend: Float[Array, " d"]  # v: m, smoothed over `memory_turns` turns
    late: Float[Array, " S"]  # turns of updates that were 0, 1, 2, ... versions old; older turns count less


@dataclass(frozen=True, kw_only=True)
class PaotaPlus(Algorithm):
    """w <- w + m + boost v, where m answers s = (gain / U) sum_k dw_k of the ready devices and v is m, smoothed.

        m <- (1 + lead) s - lead m,   v <- v + (n / U) (m - v) / memory_turns

    U counts the trainings under way that are or will be heard.
    It is K, and n where the event aborts all others (then nothing is late and `lead` is 0). Devices arrive with
    p_k = min(t, p_k^max), t the level of least error. By Little's law `gain` is the gain of the whole loop, whatever the
    latencies: `boldness` times the largest for which the loop is stable, with updates as late as they have been so far
    (see `stability_limit`). Directions that change slowly get (1 + boost) times as much. Transmissions keep every device's
    budget, whatever `power.cap` says.
    """

    share: float = setting(0.2, above=0, high=1, doc="Share of all devices that have to be ready for an aggregation.")
    restart_share: float = setting(0.3, above=0, high=1, doc="The same where everybody begins anew after it.")
    restarts: bool = setting(True, doc="Begin anew where latencies are redrawn and it is quicker; false: abort nobody.")
    boldness: float = setting(
        0.85, above=0, doc="The loop's gain, as a share of the largest that is stable with updates as late as they are."
    )
    gain: float | None = setting(
        None, above=0, doc="A fixed gain instead: an update moves the model by gain / K of itself at first."
    )
    # With a fifth ready, 0.65 has the highest limit at equal latencies.
    lead: float = setting(0.65, low=0, high=1, doc="Makes up for a part of the delay.")
    boost: float = setting(3.0, low=0, doc="How much further the model goes where it keeps its direction.")
    memory_turns: float = setting(
        6.0, low=1, doc="Over which directions are compared, in turns: a training and the wait."
    )
    payload: ClassVar[str] = "update"

    @property
    def scheme(self) -> ShareReadyOrRestart:
        return ShareReadyOrRestart(self.share, self.restart_share if self.restarts else None)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        cap = amplitude_cap(uplink, event.energy, "physical")
        t = aligned_level(cap, event, uplink)
        p = jnp.where(event.ready, jnp.minimum(t, cap), 0.0)
        return Amplitudes(p, divisor=t * under_way(event) / self._gain(event))

    def init(self, model: Float[Array, " d"]) -> Motion:
        # To begin with, a turn as if everybody took equally long, which admits little.
        return Motion(jnp.zeros_like(model), jnp.zeros_like(model), all_late_by(1 / self.share - 1))

    def next_model(self, event: Event, heard: Heard) -> Step:
        lead = jnp.where(fresh(event), 0.0, self.lead)
        newest = (1 + lead) * heard.received - lead * event.state.newest
        arrived = event.ready.sum() / under_way(event)
        trend = event.state.trend + arrived * (newest - event.state.trend) / self.memory_turns
        return Step(event.model + newest + self.boost * trend, state=Motion(newest, trend, self._late(event)))

    def _gain(self, event: Event) -> Float[Array, ""] | float:
        if self.gain is not None:
            return self.gain
        late = jnp.where(fresh(event), all_late_by(0.0), self._late(event))
        lead = jnp.where(fresh(event), 0.0, self.lead)
        share = jnp.maximum(event.ready.sum(), 1) / under_way(event)
        return self.boldness * largest_gain(late, share, lead=lead, boost=self.boost, memory_turns=self.memory_turns)

    def _late(self, event: Event) -> Float[Array, " S"]:
        """`Motion.late` with this event. Trainings of version 0 all began together and say nothing about later ones."""
        counts = event.ready & (event.staleness < event.round) & ~fresh(event)
        late = jnp.minimum(event.staleness, LATEST - 1)
        new = jnp.zeros(LATEST).at[late].add(jnp.where(counts, 1.0, 0.0)) / event.num_devices
        return event.state.late * (1 - new.sum() / self.memory_turns) + new


def fresh(event: Event) -> Bool[Array, ""]:
    """Whether all began from the newest model and nobody is on the way any more: no update is or will be late."""
    alone = (event.aborted > 0) | (event.ready.sum() >= event.num_devices)
    return alone & (jnp.where(event.ready, event.staleness, 0).max(initial=0) == 0)


def under_way(event: Event) -> Float[Array, ""]:
    """U: trainings that were under way before this event, without those that it aborts."""
    return jnp.where(fresh(event), jnp.maximum(event.ready.sum(), 1), event.num_devices)


def all_late_by(versions: Float[Array, ""] | float) -> Float[Array, " S"]:
    """A turn in which all updates are so late, rounded."""
    return (jnp.arange(LATEST) == jnp.round(jnp.minimum(versions, LATEST - 1.0))).astype(jnp.float32)


def largest_gain(
    late: Float[Array, " S"], share: Float[Array, ""], *, lead: Any, boost: Any, memory_turns: Any
) -> Float[Array, ""]:
    """`stability_limit` inside a compiled program, `late` need not sum to 1.

    On the unit circle the characteristic equation asks for one gain at each frequency; the least one that is real is the
    limit.
    """
    fractions = late / late.sum()
    b = 1 - share / memory_turns
    z = jnp.exp(2j * jnp.pi * jnp.arange(1, FREQUENCIES // 2 + 1) / FREQUENCIES)
    delayed = jnp.fft.rfft(fractions, FREQUENCIES)[1:]
    loop = (1 + lead) * share * ((1 + boost * (1 - b)) * z - b) * z * delayed
    asked = -(z - 1) * (z + lead) * (z - b) / loop
    real, imaginary = asked.real, asked.imag.at[-1].set(0.0)  # at half the rate everything is real
    before, after = imaginary[:-1], imaginary[1:]
    crossing = (before * after <= 0) & (before != after)
    weight = jnp.where(crossing, before / jnp.where(crossing, before - after, 1.0), 0.0)
    gain = real[:-1] + weight * (real[1:] - real[:-1])
    return jnp.min(jnp.where(crossing & (gain > 0), gain, 4 / share))


def stability_limit(
    staleness: ArrayLike, share: float, *, lead: float = 0.0, boost: float = 0.0, memory_turns: float = 1.0
) -> float:
    """The largest gain for which the loop is stable, where every local training contracts by h <= 1 (divide it by h).

    `staleness` [S]: shares of the updates that are 0, 1, 2, ... versions old; they sum to 1. `share`: of all trainings
    under way in an event (1 where the others are aborted). With dw_k = -h w^(r-s_k) and b = 1 - share / memory_turns the
    characteristic polynomial is (z - 1)(z + lead)(z - b) z^(S-1) + (1 + lead) gain share ((1 + boost (1 - b)) z - b)
    sum_s staleness_s z^(S-s); the first gain that brings a root onto the unit circle is returned.
    """
    fractions = np.asarray(staleness, float)
    b = 1 - share / memory_turns
    late = np.polymul([1 + boost * (1 - b), -b, 0.0], fractions)
    plain = np.polymul(np.polymul([1.0, -1.0], [1.0, lead]), [1.0, -b])
    plain = np.concatenate([plain, np.zeros(len(fractions) - 1)])

    def stable(gain: float) -> bool:
        return bool(np.abs(np.roots(np.polyadd(plain, (1 + lead) * gain * share * late))).max() < 1)

    low, high = 0.0, 4.0 / share
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low
