"""What the receiver's noise hides of one device's data, where updates are clipped: zero-concentrated differential privacy.

A device arrives with p_k payload_k and |dw_k| <= C. Whatever its data, what is received moves by at most 2 p_k C; each
symbol carries noise of variance sigma^2 / 2. That is a Gaussian mechanism, rho = (2 p_k C)^2 / (2 sigma^2 / 2), and rho
adds up over the events of a device (Bun and Steinke, "Concentrated Differential Privacy", 2016). What is assumed stands
in docs/air.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..runs.files import Columns
from ..timing.timeline import Timeline

DELTA = 1e-5  # at which epsilon is shown

Floats = NDArray[np.float64]


def event_rho(amplitude: ArrayLike, clip_norm: float, noise_power_w: float) -> Floats:
    """rho of single events [n] for devices that arrive with these amplitudes [n]; C is `clip_norm`, sigma^2 `noise_power_w`."""
    sensitivity = 2 * np.asarray(amplitude, float) * clip_norm
    variance = noise_power_w / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sensitivity > 0, sensitivity**2 / (2 * variance), 0.0)


def epsilon(rho: ArrayLike, delta: float = DELTA) -> Floats:
    """rho-zCDP implies (epsilon, delta)-differential privacy with epsilon = rho + 2 sqrt(rho ln(1/delta))."""
    loss = np.asarray(rho, float)
    return np.asarray(loss + 2 * np.sqrt(loss * np.log(1 / delta)))


def privacy_columns(timeline: Timeline, rho: Floats, events: int) -> Columns:
    """For each version, behind a row for the initial model: the largest rho that a device has spent so far, and its epsilon.

    `rho` [n]: of each of the first n participations of the timeline, which are those of its first `events` events.
    """
    spent = np.zeros(int(timeline.device.max(initial=0)) + 1)
    largest = np.zeros(events + 1)
    for e in range(events):
        here = slice(timeline.offsets[e], timeline.offsets[e + 1])
        spent[timeline.device[here]] += rho[here]  # a device takes part in an event once
        largest[e + 1] = spent.max(initial=0.0)
    return {"rho_max": largest, "epsilon_max": epsilon(largest)}
