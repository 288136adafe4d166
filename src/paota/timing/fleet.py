"""A measured fleet: which devices there are, when each is there, how fast it computes, and its rates of transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from .availability import Availability, search
from .latency import Begun, Latencies

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RATES = {  # columns that hold a number above 0, from a row on until the device's next row
    "latency_s": "seconds that a local training takes",
    "gflop_per_s": "speed of computing, 10^9 floating-point operations a second, while training",
    "down_mbit_per_s": "rate of the downlink, 10^6 bits a second",
    "up_mbit_per_s": "rate of the uplink, 10^6 bits a second",
}


@dataclass(frozen=True)
class Fleet:
    """T devices and what is known of them; the rows of device t are `offsets[t]:offsets[t + 1]`, in order of time."""

    names: tuple[str, ...]  # [T]
    offsets: Ints  # [T + 1]; no device without a row
    time_s: Floats
    available: NDArray[np.bool_]  # from `time_s` on
    rates: Mapping[str, Floats]  # those of RATES that are known

    def __len__(self) -> int:
        return len(self.names)

    @property
    def end_s(self) -> float:
        """When the last row of all begins."""
        return float(self.time_s.max(initial=0.0))

    def availability(self, repeat_s: float | None = None) -> Availability:
        """When the devices are there; with `repeat_s` all starts over then."""
        if repeat_s is not None and self.end_s > repeat_s:
            raise UserError(
                f"timing.fleet_repeat_s = {repeat_s:g} s would cut off what the fleet's file says until {self.end_s:g} s"
            )
        return Availability.of(self.offsets, self.time_s, self.available, repeat_s)

    def rate(self, column: str, device: Ints, time_s: Floats, repeat_s: float | None = None) -> Floats:
        """What a column of RATES says of these devices of the fleet at these moments, [n]; before the first row: as there."""
        moment_s = time_s if repeat_s is None else np.mod(time_s, repeat_s)
        row = search(self.time_s, self.offsets[device], self.offsets[device + 1], moment_s, strictly=True) - 1
        return self.rates[column][np.maximum(row, self.offsets[device])]


def row_order(names: Sequence[str], device: Ints, time_s: Floats) -> tuple[list[int], Ints, Ints]:
    """(devices in the order of a fleet, rows in its order, its offsets); shorter names come first, so that 9 is before 10.

    Args:
        names: of T devices, in any order.
        device: which of them each row is of.
        time_s: of each row.
    """
    by_name = sorted(range(len(names)), key=lambda k: (len(names[k]), names[k]))
    rank = np.empty(len(names), np.int64)
    rank[by_name] = np.arange(len(names))
    place = rank[device]
    order = np.lexsort((time_s, place))
    return by_name, order, np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(names)))])


@dataclass(frozen=True)
class Attendance:
    """A fleet as the devices of an experiment follow it: device k is the fleet's device k mod T."""

    fleet: Fleet
    availability: Availability

    @classmethod
    def of(cls, fleet: Fleet, repeat_s: float | None) -> Attendance:
        """The fleet, starting over after `repeat_s`; None: its last rows hold for good."""
        return cls(fleet, fleet.availability(repeat_s))

    def rate(self, column: str, device: Ints, start_s: Floats | None) -> Floats | None:
        """What a column of RATES says at `start_s` (None: at 0 s), [n]; None where the fleet does not know it."""
        if column not in self.fleet.rates:
            return None
        moment_s = np.zeros(len(device)) if start_s is None else start_s
        return self.fleet.rate(column, self.follow(device), moment_s, self.availability.repeat_s)

    def follow(self, device: Ints) -> Ints:
        """The fleet's device that each device of the experiment follows."""
        return np.asarray(device, np.int64) % len(self.fleet)

    def busy_s(self, device: Ints, start_s: Floats, end_s: Floats) -> Floats:
        """How long devices were there, and so at work, from `start_s` to `end_s`, [n]."""
        return self.availability.between_s(self.follow(device), start_s, end_s)


class Attended(Latencies):
    """Latencies of devices that come and go: whoever is away begins when it is back, and does nothing meanwhile."""

    def __init__(self, latencies: Latencies, attendance: Attendance, *, lose: bool, over_the_air: bool) -> None:
        """`lose`: a device that leaves has to start over. `over_the_air`: it must be there when the server aggregates."""
        super().__init__(latencies.model, devices=latencies.devices, seed=latencies.seed)
        self.latencies, self.attendance, self.lose, self.over_the_air = latencies, attendance, lose, over_the_air

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        return self.latencies(device, training, start_s)

    def begin(self, device: Ints, training: Ints, now_s: float | Floats) -> Begun:
        start_s = self.back_s(device, now_s)
        finish_s, heard_s = np.full(len(device), np.inf), start_s.copy()
        comes = np.flatnonzero(np.isfinite(start_s))
        if len(comes):
            work_s = self(device[comes], training[comes], start_s[comes])
            who = self.attendance.follow(device[comes])
            finish_s[comes], heard_s[comes] = self.attendance.availability.finish_s(
                who, start_s[comes], work_s, lose=self.lose
            )
        return Begun(start_s, finish_s, heard_s)

    def back_s(self, device: Ints, now_s: float | Floats) -> Floats:
        return self.attendance.availability.back_s(self.attendance.follow(device), np.full(len(device), now_s, float))

    def can_send(self, device: Ints, time_s: float) -> NDArray[np.bool_]:
        if not self.over_the_air:  # what was uploaded at the end of the training is with the server
            return np.ones(len(device), bool)
        return self.attendance.availability.is_there(
            self.attendance.follow(device), np.full(len(device), float(time_s))
        )


class MeasuredLatencies(Latencies):
    """`latency_s` of a fleet's file: what holds when a training begins."""

    def __init__(self, model: object, attendance: Attendance, *, devices: int, seed: int) -> None:
        super().__init__(model, devices=devices, seed=seed)  # type: ignore[arg-type]
        self.attendance = attendance

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        seconds = self.attendance.rate("latency_s", device, start_s)
        assert seconds is not None  # refused before
        return seconds
