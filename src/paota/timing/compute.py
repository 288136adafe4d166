"""Latency from work: how much a training computes, over how fast its device is. And latency as a fleet's file tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError, unknown_name
from ..base.rng import Purpose, host_rng
from ..base.settings import setting
from .device_classes import DEVICE_CLASSES
from .fleet import Attendance, MeasuredLatencies
from .latency import Latencies

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SPEED, JITTER = 2, 3  # counters of Purpose.LATENCY; 0 and 1 are those of drawn latencies


@dataclass(frozen=True)
class LatencyContext:
    """What a latency may follow from, beside draws."""

    devices: int  # K
    seed: int
    attendance: Attendance | None  # of the fleet's file
    samples: Callable[[Ints, Ints], Floats]  # that each (device, training) goes through, [n]
    flop_per_sample: Callable[[], float]  # of a training; counted when it is first asked for


def latencies_of(model: Any, around: LatencyContext) -> Latencies:
    """The latencies of one seed: drawn by the model, or made by its `latencies` where it needs to know more."""
    _check_fleet(model, around.attendance)
    if hasattr(model, "latencies"):
        made: Latencies = model.latencies(around)
        return made
    return Latencies(model, devices=around.devices, seed=around.seed)


def _check_fleet(model: Any, attendance: Attendance | None) -> None:
    """What a fleet's file says is never left aside in silence."""
    known = () if attendance is None else tuple(attendance.fleet.rates)
    if isinstance(model, Measured) and "latency_s" not in known:
        raise UserError("timing.latency = 'fleet' needs timing.fleet_file with a column latency_s")
    if isinstance(model, ComputeLatency) and "latency_s" in known and "gflop_per_s" not in known:
        raise UserError("the fleet's file says how long trainings take (latency_s): choose timing.latency = 'fleet'")
    if not isinstance(model, Measured | ComputeLatency) and {"latency_s", "gflop_per_s"} & set(known):
        choose = "fleet" if "latency_s" in known else "work"
        raise UserError(
            f"the fleet's file says how fast devices are: choose timing.latency = '{choose}', or leave that column out"
        )


@dataclass(frozen=True, kw_only=True)
class Measured:
    """As the fleet's file says in its column `latency_s`, at the moment at which a training begins."""

    def latencies(self, around: LatencyContext) -> Latencies:
        """Of one seed; a file has no draws."""
        assert around.attendance is not None
        return MeasuredLatencies(self, around.attendance, devices=around.devices, seed=around.seed)

    def draw(self, rng: Any, fixed: Any, training: int, devices: int) -> Floats:
        raise UserError("timing.latency = 'fleet' needs timing.fleet_file with a column latency_s")


@dataclass(frozen=True, kw_only=True)
class ComputeLatency:
    """Steps x batch x operations a sample, over the speed of the device; speeds by class, or from the fleet's file.

    A device belongs to one class for life. Its speed is the class's, times exp(spread N(0,1)) for life, and every training
    takes exp(jitter N(0,1)) times as long.
    """

    classes: tuple[str, ...] = setting(
        tuple(DEVICE_CLASSES),
        doc="Classes of devices, of docs/timing.md or, with `class_gflop_per_s` and `class_power_w`, your own.",
    )
    shares: tuple[float, ...] = setting(
        (), low=0, doc="How many devices each class has, in proportion; empty: all alike."
    )
    class_gflop_per_s: tuple[float, ...] = setting(
        (), above=0, doc="Speed of each class at best, 10^9 operations a second, in place of the table's."
    )
    class_power_w: tuple[float, ...] = setting(
        (), low=0, doc="What a device of each class draws while it computes, in place of the table's."
    )
    efficiency: float = setting(
        0.1, above=0, high=1, doc="Share of the best speed that training reaches; an assumption."
    )
    spread: float = setting(
        0.25, low=0, high=5, doc="Inside a class: standard deviation of the logarithm of the speed."
    )
    jitter: float = setting(
        0.1, low=0, high=5, doc="Of a training: standard deviation of the logarithm of its seconds."
    )
    flop_per_sample: float | None = setting(
        None, above=0, doc="Operations of a training on one sample; absent: counted from the model by JAX."
    )

    def latencies(self, around: LatencyContext) -> ComputeLatencies:
        """Of one seed."""
        return ComputeLatencies(self, around)

    def draw(self, rng: Any, fixed: Any, training: int, devices: int) -> Floats:
        raise UserError("timing.latency = 'work' has to know the model: it cannot be drawn alone")

    def table(self) -> tuple[Floats, Floats, Floats]:
        """(share, 10^9 operations a second while training, watts) of each class."""
        for name, given in (("class_gflop_per_s", self.class_gflop_per_s), ("class_power_w", self.class_power_w)):
            if given and len(given) != len(self.classes):
                raise UserError(f"timing.{name} has {len(given)} values for {len(self.classes)} classes")
        own = bool(self.class_gflop_per_s and self.class_power_w)
        for name in self.classes:
            if name not in DEVICE_CLASSES and not own:
                raise unknown_name("class of devices in timing.classes", name, DEVICE_CLASSES)
        known = [DEVICE_CLASSES.get(name) for name in self.classes]
        shares = np.array(self.shares or [1.0] * len(self.classes))
        if len(shares) != len(self.classes) or not shares.sum() > 0:
            raise UserError(f"timing.shares needs one number for each of the {len(self.classes)} classes, not all 0")
        peak = self.class_gflop_per_s or tuple(one.peak_gflop_per_s for one in known if one)
        power_w = self.class_power_w or tuple(one.power_w for one in known if one)
        return shares / shares.sum(), self.efficiency * np.array(peak), np.array(power_w)


class ComputeLatencies(Latencies):
    """Seconds of computing, from work and speed; every draw is addressed by (seed, device, training)."""

    def __init__(self, settings: ComputeLatency, around: LatencyContext) -> None:
        super().__init__(settings, devices=around.devices, seed=around.seed)
        self.settings, self.around = settings, around
        shares, speed, power_w = settings.table()
        pick = host_rng(self.seed, Purpose.LATENCY, SPEED, 0).random(self.devices)
        self.device_class = np.minimum(np.searchsorted(np.cumsum(shares), pick, side="right"), len(shares) - 1)
        inside = host_rng(self.seed, Purpose.LATENCY, SPEED, 1).standard_normal(self.devices)
        self.gflop_per_s = speed[self.device_class] * np.exp(settings.spread * inside)  # [K]
        self.power_w = power_w[self.device_class]  # [K]

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        measured = (
            None if self.around.attendance is None else self.around.attendance.rate("gflop_per_s", device, start_s)
        )
        speed = self.gflop_per_s[device] if measured is None else measured
        flop = self.around.samples(device, training) * (self.settings.flop_per_sample or self.around.flop_per_sample())
        return super().__call__(device, training) * flop / (1e9 * speed)

    def _draw(self, training: int) -> Floats:
        """The jitter of the `training`-th trainings, [K]."""
        drawn = host_rng(self.seed, Purpose.LATENCY, JITTER, training).standard_normal(self.devices)
        return np.exp(self.settings.jitter * drawn)
