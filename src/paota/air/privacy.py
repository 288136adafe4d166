"""Zero-concentrated differential privacy of a device's data by channel noise, for clipped updates.

A device arrives with p_k payload_k and |dw_k| <= C, so its data move the received signal by at most 2 p_k C. Each symbol
carries noise of variance v. That is a Gaussian mechanism with rho = (2 p_k C)^2 / (2 v), and rho adds up over the events
of a device (Bun and Steinke, "Concentrated Differential Privacy", 2016). The receiver's noise gives v = sigma^2/2. Noise
of z C per weight that devices add themselves arrives with their amplitudes. docs/air.md lists the assumptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.files import Columns
from ..timing.timeline import Timeline

if TYPE_CHECKING:
    from jaxtyping import Float

DELTA = 1e-5  # the delta of the reported epsilon

Floats: TypeAlias = NDArray[np.float64]


def event_rho(amplitude: ArrayLike, clip_norm: float, noise_power_w: float, added_variance: ArrayLike = 0.0) -> Floats:
    """Return rho of single events for devices that arrive with these amplitudes, [n].

    Args:
        amplitude: p_k, [n]; 0 is silence and reveals no data.
        clip_norm: C.
        noise_power_w: sigma^2 of the receiver in W.
        added_variance: variance per weight of the noise that devices have added, as it arrives; [n] or one for all.
    """
    sensitivity = 2 * np.asarray(amplitude, float) * clip_norm
    variance = noise_power_w / 2 + np.asarray(added_variance, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sensitivity > 0, sensitivity**2 / (2 * variance), 0.0)


def epsilon(rho: ArrayLike, delta: float = DELTA) -> Floats:
    """Return epsilon = rho + 2 sqrt(rho ln(1/delta)): rho-zCDP implies (epsilon, delta)-differential privacy."""
    loss = np.asarray(rho, float)
    return np.asarray(loss + 2 * np.sqrt(loss * np.log(1 / delta)))


def privacy_columns(timeline: Timeline, rho: Float[Floats, " n"], events: int, prefix: str = "") -> Columns:
    """Return the largest rho of a device so far and its epsilon, per version, after a row for the initial model.

    Args:
        timeline: the participations of devices in events.
        rho: rho of each of the first n participations, which are those of the first `events` events, [n].
        events: number of events.
        prefix: of the names of the columns.
    """
    spent = np.zeros(int(timeline.device.max(initial=0)) + 1)
    largest = np.zeros(events + 1)
    for e in range(events):
        here = slice(timeline.offsets[e], timeline.offsets[e + 1])
        spent[timeline.device[here]] += rho[here]  # a device takes part in an event once
        largest[e + 1] = spent.max(initial=0.0)
    return {f"{prefix}rho_max": largest, f"{prefix}epsilon_max": epsilon(largest)}


def account(
    timeline: Timeline, amplitude: Float[Floats, " n"], events: int, *, clip_norm: float, noise_power_w: float,
    noise_multiplier: float | None,
) -> Columns:  # fmt: skip
    """Return the privacy columns of a run.

    Columns without a prefix count the receiver's noise alone. If devices add noise, columns with the prefix `own_` also
    count the noise of the device itself, and those with `all_` the noise of all devices that send.

    Args:
        timeline: the participations of devices in events.
        amplitude: amplitude of each of the first n participations, [n].
        events: number of events of these participations.
        clip_norm: C.
        noise_power_w: sigma^2 in W.
        noise_multiplier: z; a device adds noise of standard deviation z C to every weight. None: no added noise.
    """
    columns = privacy_columns(timeline, event_rho(amplitude, clip_norm, noise_power_w), events)
    if noise_multiplier is None:
        return columns
    own = (amplitude * noise_multiplier * clip_norm) ** 2
    event = timeline.event[: len(own)] - timeline.first
    together = np.bincount(event, own, minlength=events)[event]
    for prefix, added in (("own_", own), ("all_", together)):
        columns |= privacy_columns(timeline, event_rho(amplitude, clip_norm, noise_power_w, added), events, prefix)
    return columns
