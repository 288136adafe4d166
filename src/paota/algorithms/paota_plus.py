"""PAOTA+: ready devices send at once, aligned to one level, and the delay of the loop limits the step.

Directions that persist get a larger step. Devices restart together if that is faster and leaves no device out. The
algorithm is from this project; docs/paota-plus.md has its derivation, stability limit and measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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
FREQUENCIES = 1024  # at which the characteristic equation is evaluated
Scalar: TypeAlias = Float[Array, ""] | float


class Motion(NamedTuple):
    """State of the server."""

    newest: Float[Array, " d"]  # m
    trend: Float[Array, " d"]  # v: m, smoothed over `memory_turns` turns
    late: Float[Array, " S"]  # turns of updates that were 0, 1, 2, ... versions stale; older turns count less


@dataclass(frozen=True, kw_only=True)
class PaotaPlus(Algorithm):
    """w <- w + m + boost v, where m answers s = (gain / U) sum_k dw_k of the ready devices and v is m, smoothed.

        m <- (1 + lead) s - lead m,   v <- v + (n / U) (m - v) / memory_turns

    U counts the trainings under way whose updates are or will be received. It is K, or n if the event aborts all others;
    then no update is late and `lead` is 0. Devices arrive with p_k = min(t, p_k^max), where t is the level of least error.
    By Little's law `gain` is the gain of the whole loop for any latencies. It is `boldness` times the largest gain for
    which the loop is stable with the delays so far (see `stability_limit`). Directions that change slowly get (1 + boost)
    times as much. Transmissions keep every device's budget for any `power.cap`.
    """

    share: float = setting(0.2, above=0, high=1, doc="Share of all devices that must be ready for an aggregation.")
    restart_share: float = setting(
        0.3, above=0, high=1, doc="The same share if all devices restart after the aggregation."
    )
    restarts: bool = setting(
        True, doc="Restart all devices if latencies are redrawn and it is faster; false: abort no device."
    )
    boldness: float = setting(
        0.85, above=0, doc="Gain of the loop as a share of the largest stable gain at the observed delays."
    )
    gain: float | None = setting(
        None, above=0, doc="Fixed gain instead: an update moves the model by gain / K of itself at first."
    )
    # With a fifth of the devices ready, 0.65 has the highest limit at equal latencies.
    lead: float = setting(0.65, low=0, high=1, doc="Compensation of a part of the delay.")
    boost: float = setting(3.0, low=0, doc="Extra step of the model in directions that persist.")
    memory_turns: float = setting(
        6.0, low=1, doc="Memory of the directions in turns; a turn is a training and the wait."
    )
    payload = "update"

    @property
    def scheme(self) -> ShareReadyOrRestart:
        return ShareReadyOrRestart(self.share, self.restart_share if self.restarts else None)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        cap = amplitude_cap(uplink, event.energy, "physical")
        t = aligned_level(cap, event, uplink)
        p = jnp.where(event.ready, jnp.minimum(t, cap), 0.0)
        return Amplitudes(p, divisor=t * under_way(event) / self._gain(event))

    def init(self, model: Float[Array, " d"]) -> Motion:
        # At first, a turn with equal latencies of all devices, which allows only a small gain.
        return Motion(jnp.zeros_like(model), jnp.zeros_like(model), all_late_by(1 / self.share - 1))

    def next_model(self, event: Event, heard: Heard) -> Step:
        lead = jnp.where(fresh(event), 0.0, self.lead)
        newest = (1 + lead) * heard.received - lead * event.state.newest
        arrived = event.ready.sum() / under_way(event)
        trend = event.state.trend + arrived * (newest - event.state.trend) / self.memory_turns
        return Step(event.model + newest + self.boost * trend, state=Motion(newest, trend, self._late(event)))

    def _gain(self, event: Event) -> Scalar:
        if self.gain is not None:
            return self.gain
        late = jnp.where(fresh(event), all_late_by(0.0), self._late(event))
        lead = jnp.where(fresh(event), 0.0, self.lead)
        share = jnp.maximum(event.ready.sum(), 1) / under_way(event)
        return self.boldness * largest_gain(late, share, lead=lead, boost=self.boost, memory_turns=self.memory_turns)

    def _late(self, event: Event) -> Float[Array, " S"]:
        """Return `Motion.late` with this event. Trainings of version 0 began together and do not predict later ones."""
        counts = event.ready & (event.staleness < event.round) & ~fresh(event)
        late = jnp.minimum(event.staleness, LATEST - 1)
        new = jnp.zeros(LATEST).at[late].add(jnp.where(counts, 1.0, 0.0)) / event.num_devices
        return event.state.late * (1 - new.sum() / self.memory_turns) + new


def fresh(event: Event) -> Bool[Array, ""]:
    """Return True if all devices began from the newest model and no other training is under way, so no update is late."""
    alone = (event.aborted > 0) | (event.ready.sum() >= event.num_devices)
    return alone & (jnp.where(event.ready, event.staleness, 0).max(initial=0) == 0)


def under_way(event: Event) -> Float[Array, ""]:
    """Return U, the trainings that were under way before this event, without those that it aborts."""
    return jnp.where(fresh(event), jnp.maximum(event.ready.sum(), 1), event.num_devices)


def all_late_by(versions: Scalar) -> Float[Array, " S"]:
    """Return a turn in which all updates are late by `versions`, rounded."""
    return (jnp.arange(LATEST) == jnp.round(jnp.minimum(versions, LATEST - 1.0))).astype(jnp.float32)


def largest_gain(
    late: Float[Array, " S"], share: Float[Array, ""], *, lead: Scalar, boost: float, memory_turns: float
) -> Float[Array, ""]:
    """Return `stability_limit` inside a compiled program.

    On the unit circle the characteristic equation has one gain for each frequency. The least real one is the limit.

    Args:
        late: turns of updates by their staleness, [S]; the sum need not be 1.
        share: as for `stability_limit`.
        lead: as for `PaotaPlus`.
        boost: as for `PaotaPlus`.
        memory_turns: as for `PaotaPlus`.
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
    """Return the largest stable gain of the loop if every local training contracts by h <= 1 (divide it by h).

    With dw_k = -h w^(r-s_k) and b = 1 - share / memory_turns the characteristic polynomial is
    (z - 1)(z + lead)(z - b) z^(S-1) + (1 + lead) gain share ((1 + boost (1 - b)) z - b) sum_s staleness_s z^(S-s). The
    result is the first gain that brings a root onto the unit circle.

    Args:
        staleness: shares of the updates that are 0, 1, 2, ... versions stale, [S]; their sum is 1.
        share: share of all trainings under way that an event aggregates (1 if it aborts the others).
        lead: as for `PaotaPlus`.
        boost: as for `PaotaPlus`.
        memory_turns: as for `PaotaPlus`.
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
