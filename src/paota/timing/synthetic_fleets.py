"""Synthetic fleets for experiments without a trace: phones that charge at night, boards that are always on.

Every number here is an assumption; use a trace for measured numbers. The shape is realistic: a day has 24 hours, most
phones charge at night at the hours of their owner, some nights are left out, and a few short charges happen by day.
"""

from __future__ import annotations

import numpy as np

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from ..base.types import Floats, Ints
from .compute import ComputeLatency, draw_classes
from .fleet import Fleet, row_order

DAY_S = 86_400.0
HOUR_S = 3_600.0
BED_HOUR, BED_SPREAD_H = 23.0, 1.3  # hour at which phones are plugged in: mean and spread over owners
RISE_HOUR, RISE_SPREAD_H = 7.0, 1.0
HABIT_SPREAD_H = 0.5  # spread over the nights of one owner
FORGOTTEN_NIGHTS = 0.15
DAY_CHARGES, DAY_CHARGE_S = 0.7, 2_400.0  # number per day, mean length
ALWAYS_ON = ("board",)  # classes that are always plugged in
DOWN_MBIT_PER_S, UP_MBIT_PER_S, RATE_SPREAD = 40.0, 10.0, 0.7  # medians, and the standard deviation of the logarithm
MAX_INTERVALS = 20_000_000
WAKE, NIGHT, CHARGE, RATE = range(10, 14)  # counters of Purpose.LATENCY


def make_fleet(devices: int, days: float = 1.0, *, seed: int = 0, classes: ComputeLatency | None = None) -> Fleet:
    """Return a fleet of phones, boards and laptops, from midnight on.

    Args:
        devices: number of devices.
        days: length; `timing.fleet_repeat_s` = 86400 days repeats the fleet.
        seed: seed of all draws.
        classes: classes of devices and their shares; None: all of the table, in equal shares.
    """
    if devices < 1 or not 0 < days <= 3660 or devices * (2 * days + 2) > MAX_INTERVALS:
        raise UserError(
            f"a fleet needs at least 1 device and a time above 0, and at most {MAX_INTERVALS:,} changes: "
            f"{devices:,} devices over {days:g} days cannot be made"
        )
    kinds = classes or ComputeLatency()
    shares, speed, _ = kinds.table()
    kind = draw_classes(shares, host_rng(seed, Purpose.LATENCY, RATE, 0), devices)
    rate = host_rng(seed, Purpose.LATENCY, RATE, 1).standard_normal((3, devices))
    rates = {
        "gflop_per_s": speed[kind] * np.exp(kinds.spread * rate[0]),
        "down_mbit_per_s": DOWN_MBIT_PER_S * np.exp(RATE_SPREAD * rate[1]),
        "up_mbit_per_s": UP_MBIT_PER_S * np.exp(RATE_SPREAD * rate[2]),
    }
    always = np.isin(np.array(kinds.classes)[kind], ALWAYS_ON)
    span_s = days * DAY_S
    who, start_s, end_s = _charging(devices, int(np.ceil(days)), seed)
    phone = ~always[who]
    everyone = np.flatnonzero(always)
    return _fleet_of_intervals(
        [f"device-{k}" for k in range(devices)],
        np.concatenate([who[phone], everyone]),
        np.concatenate([start_s[phone], np.zeros(len(everyone))]),
        np.concatenate([end_s[phone], np.full(len(everyone), span_s)]),
        span_s=span_s,
        rates=rates,
    )


def _charging(devices: int, days: int, seed: int) -> tuple[Ints, Floats, Floats]:
    """Return (device, start, end) of every charge, by night and by day."""
    habit = host_rng(seed, Purpose.LATENCY, WAKE).standard_normal((2, devices, 1))
    varied = host_rng(seed, Purpose.LATENCY, NIGHT).standard_normal((2, devices, days + 1))
    evening = np.arange(-1, days) * DAY_S  # the first night began on the day before
    bed_s = evening + HOUR_S * (BED_HOUR + BED_SPREAD_H * habit[0] + HABIT_SPREAD_H * varied[0])
    rise_s = evening + DAY_S + HOUR_S * (RISE_HOUR + RISE_SPREAD_H * habit[1] + HABIT_SPREAD_H * varied[1])
    rng = host_rng(seed, Purpose.LATENCY, CHARGE)
    remembered = rng.random((devices, days + 1)) >= FORGOTTEN_NIGHTS
    night = np.nonzero(remembered & (rise_s > bed_s))
    count = rng.poisson(DAY_CHARGES * days, devices)
    who = np.repeat(np.arange(devices), count)
    begin_s = rng.uniform(0.0, days * DAY_S, len(who))
    until_s = begin_s + rng.exponential(DAY_CHARGE_S, len(who))
    return (
        np.concatenate([night[0], who]),
        np.concatenate([bed_s[night], begin_s]),
        np.concatenate([rise_s[night], until_s]),
    )


def _fleet_of_intervals(
    names: list[str], device: Ints, start_s: Floats, end_s: Floats, *, span_s: float, rates: dict[str, Floats]
) -> Fleet:
    """Return a fleet whose devices are available in given intervals, in whole seconds from 0 to `span_s`.

    Args:
        names: names of all devices, [T].
        device: device of each interval, [n], in any order; intervals may overlap.
        start_s: [n].
        end_s: [n].
        span_s: end of the trace.
        rates: columns of a fleet, one value for each device, [T] each.
    """
    start, end = (np.rint(np.clip(time_s, 0, span_s)).astype(np.int64) for time_s in (start_s, end_s))
    kept = np.flatnonzero(end > start)
    kept = kept[np.lexsort((start[kept], device[kept]))]
    device, start, end = device[kept], start[kept], end[kept]
    # Put the devices one behind the other on one axis, so that one sweep finds all overlaps.
    offset = device * (int(np.ceil(span_s)) + 1)
    reach = np.maximum.accumulate(end + offset)
    opens = np.ones(len(start), bool)
    opens[1:] = (start + offset)[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1 if len(first) else first
    who, begin, finish = device[first], start[first], reach[last] - offset[last]
    leaves = finish < int(np.rint(span_s))
    early = np.setdiff1d(np.arange(len(names)), who[begin == 0])  # devices that are away at first
    owner = np.concatenate([who, who[leaves], early])
    time_s = np.concatenate([begin, finish[leaves], np.zeros(len(early), np.int64)]).astype(float)
    available = np.arange(len(owner)) < len(who)
    by_name, order, offsets = row_order(names, owner, time_s)
    given = {name: value[owner[order]] for name, value in rates.items()}
    return Fleet(tuple(names[k] for k in by_name), offsets, time_s[order], available[order], given)
