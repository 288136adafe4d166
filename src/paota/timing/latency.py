"""The time that local trainings take.

The latency of a training is built up in layers. Each layer is a `Latencies` that wraps the one below it; a layer without
effect is left out:

    WithAvailability    timing/latency.py   the device starts when it is available, and pauses while it is not
      WithTransfers     air/digital.py      plus the download before and the upload behind the training
        FaultyLatencies faults/timing.py    times the slowdown of stragglers, plus the time that faults cost
          Latencies     timing/latency.py   seconds of computing, drawn for each training
                        timing/compute.py   ... or computed from the work, or read from the fleet's file

`simulate/conditions.py` stacks them. Schemes see the outermost layer only, through `begin`, `back_s` and `can_send`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng, pick_draws
from ..base.settings import setting
from ..base.types import Bools, Floats, Ints
from .fleet import Attendance
from .fleet_files import read_trace

MOST_DRAWS, FEWEST_ROWS = 2**22, 64  # bounds of the draws that are kept, however long a run is


class LatencyModel(Protocol):
    """The seconds that local trainings take. A frozen dataclass; its fields are settings of `[timing]`."""

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        """Return the seconds that the `training`-th local training (0-based) of each device takes, [devices].

        Args:
            rng: a new generator for every `training`.
            fixed: the same generator each time, for permanent properties of devices.
            training: number of the training.
            devices: number of devices K.
        """
        ...


class Started(NamedTuple):
    """Times of trainings, [n] each; inf means never."""

    start_s: Floats
    finish_s: Floats
    heard_s: Floats  # when the device receives the model that it trains: after `start_s` if it has to start over


class Latencies:
    """The computing latencies of one seed, and the base class of the layers around them.

    `latencies(device, training)` depends on its arguments alone, not on the order of calls. This class knows no absence:
    devices are always available here.
    """

    def __init__(self, model: LatencyModel, *, devices: int, seed: int) -> None:
        self.model, self.devices, self.seed = model, devices, seed
        self._rows: dict[int, Floats] = {}

    def _row(self, training: int) -> Floats:
        """Return the draws of the `training`-th trainings, [K]. Old rows are dropped, and drawn again when needed."""
        if training not in self._rows:
            if len(self._rows) >= max(FEWEST_ROWS, MOST_DRAWS // self.devices):
                del self._rows[next(iter(self._rows))]
            self._rows[training] = self._draw(training)
        return self._rows[training]

    def _draw(self, training: int) -> Floats:
        rng = host_rng(self.seed, Purpose.LATENCY, 1, training)
        fixed = host_rng(self.seed, Purpose.LATENCY, 0)
        row = np.asarray(self.model.draw(rng, fixed, training, self.devices), dtype=np.float64)
        if row.shape != (self.devices,) or not np.all(row > 0) or not np.all(np.isfinite(row)):
            raise UserError("the latency model must give one finite latency above 0 s for each device")
        return row

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        """Return the seconds that these trainings take, [n].

        Args:
            device: [n].
            training: number of trainings that each device began before, [n].
            start_s: start times, [n]; they matter only where a fleet's file says that speeds change. None: 0 s.
        """
        return pick_draws(device, training, self._row)

    def begin(self, device: Ints, training: Ints, now_s: float | Floats) -> Started:
        """Return the times of trainings that may begin at `now_s` (one time, or [n]) or when the device is back."""
        start_s = self.back_s(device, now_s)
        return Started(start_s, now_s + self(device, training, start_s), start_s)

    def back_s(self, device: Ints, now_s: float | Floats) -> Floats:
        """Return the first time from `now_s` on at which each device is available, [n]; inf means never again."""
        return np.full(len(device), now_s, float)

    def can_send(self, device: Ints, time_s: float) -> Bools:
        """Return which devices that have finished can take part in an aggregation at `time_s`, [n]."""
        return np.ones(len(device), bool)


class WithAvailability(Latencies):
    """The layer of a fleet whose devices come and go: a device that is away starts when it is back.

    Args:
        latencies: the layers below.
        attendance: when the devices are available.
        lose: whether a device that leaves has to start over; else it resumes.
        over_the_air: whether a device must be available when the server aggregates.
    """

    def __init__(self, latencies: Latencies, attendance: Attendance, *, lose: bool, over_the_air: bool) -> None:
        super().__init__(latencies.model, devices=latencies.devices, seed=latencies.seed)
        self.latencies, self.attendance, self.lose, self.over_the_air = latencies, attendance, lose, over_the_air

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        return self.latencies(device, training, start_s)

    def begin(self, device: Ints, training: Ints, now_s: float | Floats) -> Started:
        start_s = self.back_s(device, now_s)
        finish_s, heard_s = np.full(len(device), np.inf), start_s.copy()
        comes = np.flatnonzero(np.isfinite(start_s))
        if len(comes):
            work_s = self(device[comes], training[comes], start_s[comes])
            followed = self.attendance.follow(device[comes])
            finish_s[comes], heard_s[comes] = self.attendance.availability.finish_s(
                followed, start_s[comes], work_s, lose=self.lose
            )
        return Started(start_s, finish_s, heard_s)

    def back_s(self, device: Ints, now_s: float | Floats) -> Floats:
        return self.attendance.availability.back_s(self.attendance.follow(device), np.full(len(device), now_s, float))

    def can_send(self, device: Ints, time_s: float) -> Bools:
        if not self.over_the_air:  # the server has the upload since the end of the training
            return np.ones(len(device), bool)
        moment_s = np.full(len(device), float(time_s))
        return self.attendance.availability.is_there(self.attendance.follow(device), moment_s)


@dataclass(frozen=True, kw_only=True)
class Uniform:
    """U(low, high), redrawn for every local training: the paper's U(5, 15) s."""

    low_s: float = setting(5.0, above=0, doc="Shortest training.", aliases=("min_s",))
    high_s: float = setting(15.0, above=0, doc="Longest training.", aliases=("max_s",))

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        _check_order(self.low_s, self.high_s)
        return rng.uniform(self.low_s, self.high_s, devices)


@dataclass(frozen=True, kw_only=True)
class LogNormal:
    """median * exp(spread * N(0,1)): mostly quick, with a heavy tail of stragglers."""

    median_s: float = setting(9.0, above=0, doc="Median: half of the trainings are shorter.")
    spread: float = setting(0.4, low=0, high=5, doc="Standard deviation of the logarithm; 0 makes all alike.")

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        return rng.lognormal(math.log(self.median_s), self.spread, devices)


@dataclass(frozen=True, kw_only=True)
class PerDevice:
    """One constant latency per device: given as `seconds` (one value per device), else drawn once from U(low, high)."""

    low_s: float = setting(5.0, above=0, doc="Shortest latency that a device can draw.")
    high_s: float = setting(15.0, above=0, doc="Longest latency that a device can draw.")
    seconds: tuple[float, ...] = setting((), above=0, doc="Latency of each device in seconds, instead of a draw.")

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        if not self.seconds:
            _check_order(self.low_s, self.high_s)
            return fixed.uniform(self.low_s, self.high_s, devices)
        if len(self.seconds) != devices:
            raise UserError(f"timing.seconds has {len(self.seconds)} values for {devices} devices")
        return np.array(self.seconds)


@dataclass(frozen=True, kw_only=True)
class TwoSpeeds:
    """U(slow_low, slow_high) for the first devices (`slow_share` of them all), U(low, high) for the others; redrawn each time."""

    slow_share: float = setting(0.3, low=0, high=1, doc="Share of the devices that are slow.")
    slow_low_s: float = setting(12.0, above=0, doc="Shortest training of a slow device.")
    slow_high_s: float = setting(15.0, above=0, doc="Longest training of a slow device.")
    low_s: float = setting(5.0, above=0, doc="Shortest training of the others.")
    high_s: float = setting(9.0, above=0, doc="Longest training of the others.")

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        _check_order(self.low_s, self.high_s)
        _check_order(self.slow_low_s, self.slow_high_s, "slow_")
        slow = np.arange(devices) < round(self.slow_share * devices)
        return rng.uniform(np.where(slow, self.slow_low_s, self.low_s), np.where(slow, self.slow_high_s, self.high_s))


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Measured latencies: a CSV with the columns `device` and `latency_s`, in order of time.

    A device's n-th training takes its n-th row, starting over at the end; device k uses the trace of the (k mod T)-th of T.
    """

    trace_file: str = setting("", doc="A CSV file with the columns `device` and `latency_s`.", aliases=("trace",))

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        traces = read_trace(self.trace_file)
        return np.array([(row := traces[k % len(traces)])[training % len(row)] for k in range(devices)])


def _check_order(low_s: float, high_s: float, prefix: str = "") -> None:
    if low_s > high_s:
        raise UserError(f"timing.{prefix}low_s ({low_s}) must not exceed timing.{prefix}high_s ({high_s})")
