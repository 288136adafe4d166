"""Fleets out of nothing but habits: phones that charge by night, boards that are always on, for those who have no trace.

Every number here is an assumption, and an argument of nobody: whoever knows better has a trace. What is realistic about
it is the shape: a day has 24 hours, most phones charge at night, each at its owner's own hours, some nights are forgotten,
and a few short charges come by day.
"""

from __future__ import annotations

import numpy as np

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from .compute import ComputeLatency
from .fleet import Fleet, Floats, Ints, row_order

DAY_S = 86_400.0
HOUR_S = 3_600.0
BED_HOUR, BED_SPREAD_H = 23.0, 1.3  # when phones are plugged in: over owners; an owner varies by HABIT_SPREAD_H
RISE_HOUR, RISE_SPREAD_H = 7.0, 1.0
HABIT_SPREAD_H = 0.5
FORGOTTEN_NIGHTS = 0.15
DAY_CHARGES, DAY_CHARGE_S = 0.7, 2_400.0  # a day; mean length
ALWAYS_ON = ("board",)  # classes that are never unplugged
DOWN_MBIT_PER_S, UP_MBIT_PER_S, RATE_SPREAD = 40.0, 10.0, 0.7  # medians, and the standard deviation of the logarithm
MAX_INTERVALS = 20_000_000
WAKE, NIGHT, CHARGE, RATE = range(10, 14)  # counters of Purpose.LATENCY


def make_fleet(devices: int, days: float = 1.0, *, seed: int = 0, classes: ComputeLatency | None = None) -> Fleet:
    """A fleet of phones, boards and laptops, from midnight on.

    Args:
        devices: how many.
        days: how long; `timing.fleet_repeat_s` = 86400 days lets it go on.
        seed: of all draws.
        classes: which classes of devices, in which shares; None: all of the table, alike.
    """
    if devices < 1 or not 0 < days <= 3660 or devices * (2 * days + 2) > MAX_INTERVALS:
        raise UserError(
            f"a fleet needs at least 1 device and a time above 0, and at most {MAX_INTERVALS:,} changes: "
            f"{devices:,} devices over {days:g} days are none"
        )
    kinds = classes or ComputeLatency()
    shares, speed, _ = kinds.table()
    pick = host_rng(seed, Purpose.LATENCY, RATE, 0).random(devices)
    kind = np.minimum(np.searchsorted(np.cumsum(shares), pick, side="right"), len(shares) - 1)
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
    return fleet_of_intervals(
        [f"device-{k}" for k in range(devices)],
        np.concatenate([who[phone], everyone]),
        np.concatenate([start_s[phone], np.zeros(len(everyone))]),
        np.concatenate([end_s[phone], np.full(len(everyone), span_s)]),
        span_s,
        rates,
    )


def _charging(devices: int, days: int, seed: int) -> tuple[Ints, Floats, Floats]:
    """(device, from, to) of every charge, by night and by day."""
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


def fleet_of_intervals(
    names: list[str], device: Ints, start_s: Floats, end_s: Floats, span_s: float, rates: dict[str, Floats]
) -> Fleet:
    """A fleet whose devices are there in given intervals, in whole seconds, within 0 to `span_s`.

    Args:
        names: of all devices, [T].
        device: whose interval it is, [n], in any order; intervals may overlap.
        start_s: [n].
        end_s: [n].
        span_s: when the trace ends.
        rates: columns of a fleet, one value for each device, [T] each.
    """
    start, end = (
        np.rint(np.clip(start_s, 0, span_s)).astype(np.int64),
        np.rint(np.clip(end_s, 0, span_s)).astype(np.int64),
    )
    kept = end > start
    device, start, end = device[kept], start[kept], end[kept]
    order = np.lexsort((start, device))
    device, start, end = device[order], start[order], end[order]
    # Devices one behind the other on one axis, so that overlaps are found in one sweep.
    offset = device * (int(np.ceil(span_s)) + 1)
    reach = np.maximum.accumulate(end + offset)
    opens = np.ones(len(start), bool)
    opens[1:] = (start + offset)[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:], len(start)) - 1 if len(first) else first
    who, begin, finish = device[first], start[first], (reach[last] - offset[last]) if len(first) else end
    leaves = finish < int(np.rint(span_s))
    rows = [(who, begin, np.ones(len(who), bool)), (who[leaves], finish[leaves], np.zeros(int(leaves.sum()), bool))]
    early = np.ones(len(names), bool)
    early[who[begin == 0]] = False
    rows.append((np.flatnonzero(early), np.zeros(int(early.sum()), np.int64), np.zeros(int(early.sum()), bool)))
    owner, moment, state = (np.concatenate([part[i] for part in rows]) for i in range(3))
    by_name, order, offsets = row_order(names, owner, moment.astype(float))
    owner, moment, state = owner[order], moment[order], state[order]
    given = {name: value[owner] for name, value in rates.items()}
    return Fleet(tuple(names[k] for k in by_name), offsets, moment.astype(float), state, given)
