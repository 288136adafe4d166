"""What is in a fleet, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .availability import Availability
from .fleet import Fleet, Floats

MOMENTS = 481  # at which devices are counted: every three minutes of a day


@dataclass(frozen=True)
class Description:
    """Of a fleet until `span_s`: how many are there when, how long they stay and stay away, and how fast they are."""

    devices: int
    rows: int
    span_s: float
    repeats: bool
    moment_s: Floats  # [MOMENTS]
    share: Floats  # of the devices that are there then
    mean_share: float  # over the whole time
    never: int  # devices that are never there
    stay_s: Floats  # lengths of all intervals in which a device is there
    gap_s: Floats  # ... and of those between two of them
    rates: dict[str, Floats]  # of each device, where its first row stands


def describe(fleet: Fleet, repeat_s: float | None = None) -> Description:
    """Count and measure a fleet; `repeat_s` as `timing.fleet_repeat_s`."""
    span_s = repeat_s or fleet.end_s or 86_400.0
    plain = Availability.of(fleet.offsets, fleet.time_s, fleet.available, None)
    start_s, end_s = np.minimum(plain.start_s, span_s), np.minimum(plain.end_s, span_s)
    moment_s = np.linspace(0.0, span_s, MOMENTS)
    came = np.searchsorted(np.sort(start_s), moment_s, side="right")
    left = np.searchsorted(np.sort(end_s), moment_s, side="right")
    there = (came - left).astype(float)
    there[-1] = there[-2]  # at the very end all intervals end
    count = np.diff(plain.offsets)
    inner = np.ones(len(start_s), bool)
    inner[plain.offsets[:-1][count > 0]] = False
    gap_s = start_s[inner] - end_s[np.flatnonzero(inner) - 1]
    return Description(
        devices=len(fleet),
        rows=len(fleet.time_s),
        span_s=span_s,
        repeats=repeat_s is not None,
        moment_s=moment_s,
        share=there / len(fleet),
        mean_share=float((end_s - start_s).sum() / (span_s * len(fleet))),
        never=int((count == 0).sum()),
        stay_s=(end_s - start_s)[end_s > start_s],
        gap_s=gap_s,
        rates={name: column[fleet.offsets[:-1]] for name, column in fleet.rates.items()},
    )
