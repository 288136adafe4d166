"""What noise hides of one device's data, where updates are clipped: zero-concentrated differential privacy.

A device arrives with p_k payload_k and |dw_k| <= C. Whatever its data, what is received moves by at most 2 p_k C; each
symbol carries noise of variance v. That is a Gaussian mechanism, rho = (2 p_k C)^2 / (2 v), and rho adds up over the
events of a device (Bun and Steinke, "Concentrated Differential Privacy", 2016). The receiver's noise gives v = sigma^2/2;
noise of z C a weight that devices add themselves arrives with their amplitudes. What is assumed stands in docs/air.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.files import Columns
from ..timing.timeline import Timeline

DELTA = 1e-5  # at which epsilon is shown

Floats = NDArray[np.float64]


def event_rho(amplitude: ArrayLike, clip_norm: float, noise_power_w: float, added_variance: ArrayLike = 0.0) -> Floats:
    """rho of single events [n] for devices that arrive with these amplitudes [n].

    Args:
        amplitude: p_k, [n]; 0 is silence and tells nothing.
        clip_norm: C.
        noise_power_w: sigma^2 of the receiver.
        added_variance: of the noise that devices have added, as it arrives, a weight; [n] or one for all.
    """
    sensitivity = 2 * np.asarray(amplitude, float) * clip_norm
    variance = noise_power_w / 2 + np.asarray(added_variance, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sensitivity > 0, sensitivity**2 / (2 * variance), 0.0)


def epsilon(rho: ArrayLike, delta: float = DELTA) -> Floats:
    """rho-zCDP implies (epsilon, delta)-differential privacy with epsilon = rho + 2 sqrt(rho ln(1/delta))."""
    loss = np.asarray(rho, float)
    return np.asarray(loss + 2 * np.sqrt(loss * np.log(1 / delta)))


def privacy_columns(timeline: Timeline, rho: Floats, events: int, prefix: str = "") -> Columns:
    """For each version, behind a row for the initial model: the largest rho that a device has spent so far, and its epsilon.

    `rho` [n]: of each of the first n participations of the timeline, which are those of its first `events` events.
    """
    spent = np.zeros(int(timeline.device.max(initial=0)) + 1)
    largest = np.zeros(events + 1)
    for e in range(events):
        here = slice(timeline.offsets[e], timeline.offsets[e + 1])
        spent[timeline.device[here]] += rho[here]  # a device takes part in an event once
        largest[e + 1] = spent.max(initial=0.0)
    return {f"{prefix}rho_max": largest, f"{prefix}epsilon_max": epsilon(largest)}


def account(
    timeline: Timeline, amplitude: Floats, events: int, *, clip_norm: float, noise_power_w: float,
    noise_multiplier: float | None,
) -> Columns:  # fmt: skip
    """The columns of a run: by the receiver's noise alone, and where devices add noise of their own also

    `own_`: with the noise of the device itself, whatever all others do; `all_`: with that of everybody who sends.

    Args:
        timeline: who takes part when.
        amplitude: of each of the first n participations, [n].
        events: how many events these are.
        clip_norm: C.
        noise_power_w: sigma^2.
        noise_multiplier: z; a device adds noise of standard deviation z C to every weight. None: it adds none.
    """
    columns = privacy_columns(timeline, event_rho(amplitude, clip_norm, noise_power_w), events)
    if noise_multiplier is None:
        return columns
    own = (amplitude * noise_multiplier * clip_norm) ** 2
    event = timeline.event[: len(own)] - timeline.first
    everybody = np.bincount(event, own, minlength=events)[event]
    for prefix, added in (("own_", own), ("all_", everybody)):
        columns |= privacy_columns(timeline, event_rho(amplitude, clip_norm, noise_power_w, added), events, prefix)
    return columns
