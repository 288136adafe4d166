"""Latencies that are not drawn: from the work of a training and the speed of its device, or from a fleet's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator

from ..base.errors import UserError, unknown_name
from ..base.rng import Purpose, host_rng
from ..base.settings import setting
from ..base.types import Floats, Ints
from .fleet import Attendance
from .latency import Latencies, LatencyModel

SPEED, JITTER = 2, 3  # counters of Purpose.LATENCY; drawn latencies use 0 and 1


class DeviceClass(NamedTuple):
    """A class of devices, modelled on one example.

    `peak_gflop_per_s` is arithmetic: cores of the fast cluster x clock x single-precision operations a cycle (a fused
    multiply-add is two; 8 a cycle for Cortex-A53, A72 and A73, 16 for A7xx, 32 for X3 and for AVX2). Training reaches a
    share of it, `timing.efficiency`. `power_w` is the power of the chip or board under load. docs/timing.md marks the
    numbers that are assumptions.
    """

    peak_gflop_per_s: float
    power_w: float


DEVICE_CLASSES = {
    # 4 Cortex-A53 at 2.0 GHz. Speed: 4 x 2.0 GHz x 8. Power: assumed.
    "phone-entry": DeviceClass(64.0, 3.0),
    # Galaxy S8, Snapdragon 835: 4 Kryo 280 at 2.45 GHz. Clock and power: Tencent/FeatherCNN, wiki page Benchmarks. Speed:
    # 4 x 2.45 GHz x 8.
    "phone-mid": DeviceClass(78.4, 5.0),
    # Snapdragon 8 Gen 2: 1 Cortex-X3 at 3.2 GHz, 4 Cortex-A71x at 2.8 GHz. Clocks: Qualcomm's announcement of 2022. Speed:
    # 3.2 GHz x 32 + 4 x 2.8 GHz x 16. Power: assumed.
    "phone-flagship": DeviceClass(281.6, 6.0),
    # Raspberry Pi 4: 4 Cortex-A72 at 1.5 GHz. Power: 1280 mA at 5 V under stress on all cores, pidramble.com. Speed:
    # 4 x 1.5 GHz x 8.
    "board": DeviceClass(48.0, 6.4),
    # Core i9-8950HK: 6 cores at 2.9 GHz. Power: Intel's TDP. Speed: 6 x 2.9 GHz x 32.
    "laptop": DeviceClass(556.8, 45.0),
}


@dataclass(frozen=True)
class LatencyContext:
    """The inputs from which a latency may be computed.

    Args:
        devices: number of devices K.
        seed: seed of the run.
        attendance: the fleet's file, if there is one.
        samples: a function of (device [n], training [n]) that returns the samples of these trainings, [n].
        flop_per_sample: a function that returns the operations of a training on one sample; called when needed.
    """

    devices: int
    seed: int
    attendance: Attendance | None
    samples: Callable[[Ints, Ints], Floats]
    flop_per_sample: Callable[[], float]


def latencies_of(model: LatencyModel, context: LatencyContext) -> Latencies:
    """Return the computing latencies of one seed: drawn by the model, or made by its method `latencies` if it has one."""
    _check_fleet(model, context.attendance)
    if isinstance(model, ContextLatency):
        return model.latencies(context)
    return Latencies(model, devices=context.devices, seed=context.seed)


@runtime_checkable
class ContextLatency(Protocol):
    """A latency model that needs more than draws."""

    def latencies(self, context: LatencyContext) -> Latencies:
        """Return the computing latencies of one seed."""
        ...


def _check_fleet(model: LatencyModel, attendance: Attendance | None) -> None:
    """Refuse a latency model that would silently ignore the speeds of a fleet's file."""
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
    """The column `latency_s` of the fleet's file, at the time at which a training begins."""

    def latencies(self, context: LatencyContext) -> Latencies:
        """Return the latencies of the fleet's file, the same for every seed."""
        return MeasuredLatencies(self, context)

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        """Refuse: a file has no draws."""
        raise UserError("timing.latency = 'fleet' needs timing.fleet_file with a column latency_s")


class MeasuredLatencies(Latencies):
    """Seconds of a training by the column `latency_s` of a fleet's file, constant until it ends."""

    def __init__(self, model: Measured, context: LatencyContext) -> None:
        super().__init__(model, devices=context.devices, seed=context.seed)
        self.attendance = context.attendance

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        seconds = self.attendance.rate("latency_s", device, start_s) if self.attendance else None
        assert seconds is not None  # `_check_fleet` refuses a fleet without them
        return seconds


@dataclass(frozen=True, kw_only=True)
class ComputeLatency:
    """Steps x batch x operations per sample, over the speed of the device; speeds by class, or from the fleet's file.

    A device keeps its class and its speed: the class's speed times exp(spread N(0,1)). Every training takes
    exp(jitter N(0,1)) times as long.
    """

    classes: tuple[str, ...] = setting(
        tuple(DEVICE_CLASSES),
        doc="Classes of devices: from docs/timing.md, or your own with `class_gflop_per_s` and `class_power_w`.",
    )
    shares: tuple[float, ...] = setting((), low=0, doc="Relative sizes of the classes; empty: all equal.")
    class_gflop_per_s: tuple[float, ...] = setting(
        (), above=0, doc="Peak speed of each class, 10^9 operations per second; default: the table's."
    )
    class_power_w: tuple[float, ...] = setting((), low=0, doc="Watts while computing; default: the table's.")
    efficiency: float = setting(0.1, above=0, high=1, doc="Share of the peak speed in training; an assumption.")
    spread: float = setting(0.25, low=0, high=5, doc="Standard deviation of the logarithm of the speed within a class.")
    jitter: float = setting(0.1, low=0, high=5, doc="Standard deviation of the logarithm of a training's seconds.")
    flop_per_sample: float | None = setting(
        None, above=0, doc="Operations of a training on one sample; absent: JAX counts them from the model."
    )

    def latencies(self, context: LatencyContext) -> ComputeLatencies:
        """Return the latencies of one seed."""
        return ComputeLatencies(self, context)

    def draw(self, rng: Generator, fixed: Generator, training: int, devices: int) -> Floats:
        """Refuse: the latency depends on more than draws."""
        raise UserError("timing.latency = 'work' depends on the model: it cannot be drawn alone")

    def table(self) -> tuple[Floats, Floats, Floats]:
        """Return (share, 10^9 operations per second while training, watts) of each class."""
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

    def __init__(self, settings: ComputeLatency, context: LatencyContext) -> None:
        super().__init__(settings, devices=context.devices, seed=context.seed)
        self.settings, self.context = settings, context
        shares, speed, power_w = settings.table()
        self.device_class = draw_classes(shares, host_rng(self.seed, Purpose.LATENCY, SPEED, 0), self.devices)
        inside = host_rng(self.seed, Purpose.LATENCY, SPEED, 1).standard_normal(self.devices)
        self.gflop_per_s = speed[self.device_class] * np.exp(settings.spread * inside)  # [K]
        self.power_w = power_w[self.device_class]  # [K]

    def __call__(self, device: Ints, training: Ints, start_s: Floats | None = None) -> Floats:
        attendance, settings = self.context.attendance, self.settings
        measured = None if attendance is None else attendance.rate("gflop_per_s", device, start_s)
        speed = self.gflop_per_s[device] if measured is None else measured
        flop = self.context.samples(device, training) * (settings.flop_per_sample or self.context.flop_per_sample())
        return super().__call__(device, training) * flop / (1e9 * speed)

    def _draw(self, training: int) -> Floats:
        """Return the jitter of the `training`-th trainings, [K]."""
        drawn = host_rng(self.seed, Purpose.LATENCY, JITTER, training).standard_normal(self.devices)
        return np.exp(self.settings.jitter * drawn)


def draw_classes(shares: Floats, rng: Generator, devices: int) -> Ints:
    """Return the class of each device, [devices]; `shares` [classes] sum to 1."""
    return np.minimum(np.searchsorted(np.cumsum(shares), rng.random(devices), side="right"), len(shares) - 1)
