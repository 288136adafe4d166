"""A measured fleet: its devices, when each is available, how fast it computes, and its transfer rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.errors import UserError
from ..base.types import Bools, Floats, Ints
from .availability import Availability, search

# Columns of numbers above 0, which hold from a row on until the device's next row: seconds of a local training, 10^9
# floating-point operations per second while training, and 10^6 bits per second of the downlink and of the uplink.
RATES = ("latency_s", "gflop_per_s", "down_mbit_per_s", "up_mbit_per_s")
MOMENTS = 481  # at which `describe` counts devices: every three minutes of a day


@dataclass(frozen=True)
class Fleet:
    """The devices of a file. The rows of device t of T are `offsets[t]:offsets[t + 1]`, in order of time."""

    names: tuple[str, ...]  # [T]
    offsets: Ints  # [T + 1]; no device without a row
    time_s: Floats
    available: Bools  # from `time_s` on
    rates: Mapping[str, Floats]  # the columns of RATES that the file has

    def __len__(self) -> int:
        return len(self.names)

    @property
    def end_s(self) -> float:
        """The time of the last row."""
        return float(self.time_s.max(initial=0.0))

    def availability(self, repeat_s: float | None = None) -> Availability:
        """Return when the devices are available. The rows start over after `repeat_s`; None: never."""
        if repeat_s is not None and self.end_s > repeat_s:
            raise UserError(
                f"timing.fleet_repeat_s = {repeat_s:g} s would cut off the rows of the fleet's file until {self.end_s:g} s"
            )
        return Availability.of(self.offsets, self.time_s, self.available, repeat_s)

    def rate(self, column: str, device: Ints, time_s: Floats, repeat_s: float | None = None) -> Floats:
        """Return a column of RATES for devices of the fleet at these times, [n]; before its first row, the first row's value."""
        moment_s = time_s if repeat_s is None else np.mod(time_s, repeat_s)
        row = search(self.time_s, self.offsets[device], self.offsets[device + 1], moment_s, strictly=True) - 1
        return self.rates[column][np.maximum(row, self.offsets[device])]


def row_order(names: Sequence[str], device: Ints, time_s: Floats) -> tuple[list[int], Ints, Ints]:
    """Return (order of the devices, order of the rows, offsets) of a fleet. Shorter names come first: 9 before 10.

    Args:
        names: of T devices, in any order.
        device: index into `names`, for each row.
        time_s: time of each row.
    """
    by_name = sorted(range(len(names)), key=lambda k: (len(names[k]), names[k]))
    rank = np.empty(len(names), np.int64)
    rank[by_name] = np.arange(len(names))
    place = rank[device]
    order = np.lexsort((time_s, place))
    return by_name, order, np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(names)))])


@dataclass(frozen=True)
class Attendance:
    """A fleet, followed by the devices of an experiment: device k follows the fleet's device k mod T."""

    fleet: Fleet
    availability: Availability

    @classmethod
    def of(cls, fleet: Fleet, repeat_s: float | None) -> Attendance:
        """Return the fleet as it starts over after `repeat_s`; None: its last rows hold for good."""
        return cls(fleet, fleet.availability(repeat_s))

    def rate(self, column: str, device: Ints, start_s: Floats | None) -> Floats | None:
        """Return a column of RATES at `start_s` (None: at 0 s), [n]; None if the fleet does not have the column."""
        if column not in self.fleet.rates:
            return None
        moment_s = np.zeros(len(device)) if start_s is None else start_s
        return self.fleet.rate(column, self.follow(device), moment_s, self.availability.repeat_s)

    def follow(self, device: Ints) -> Ints:
        """Return the fleet's device that each device of the experiment follows, [n]."""
        return np.asarray(device, np.int64) % len(self.fleet)

    def busy_s(self, device: Ints, start_s: Floats, end_s: Floats) -> Floats:
        """Return how long the devices were available, and so at work, from `start_s` to `end_s`, [n]."""
        return self.availability.between_s(self.follow(device), start_s, end_s)


@dataclass(frozen=True)
class Description:
    """Statistics of a fleet until `span_s`: availability over time, lengths of presences and absences, and rates."""

    devices: int
    rows: int
    span_s: float
    repeats: bool
    moment_s: Floats  # [MOMENTS]
    share: Floats  # of the devices that are available then
    mean_share: float  # over the whole time
    never: int  # devices that are never available
    stay_s: Floats  # lengths of all intervals in which a device is available
    gap_s: Floats  # lengths of the intervals between them
    rates: dict[str, Floats]  # of each device, from its first row, [T]


def describe(fleet: Fleet, repeat_s: float | None = None) -> Description:
    """Return statistics of a fleet that starts over after `repeat_s` (`timing.fleet_repeat_s`)."""
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
