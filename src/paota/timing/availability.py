"""Availability: the intervals in which devices are available, and the end of a training that runs within them.

All methods work on many devices at once, without loops over devices or intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..base.types import Bools, Floats, Ints

SLACK_S = 1e-6  # times this close are equal: times of later cycles carry rounding errors


class Place(NamedTuple):
    """Positions of times in the cycles of their devices, [n] each."""

    cycle: Floats
    inside_s: Floats  # time since the start of the cycle
    interval: Ints  # first interval that ends later; the end of the device's slice if this cycle has none


@dataclass(frozen=True)
class Availability:
    """The intervals of T devices: those of device t are `offsets[t]:offsets[t + 1]`, in order, without contact.

    `start_s` and `end_s` count from `origin_s` of the device. With `repeat_s` the intervals repeat, and the origin is
    chosen so that no interval crosses the end of a cycle. An interval may be endless.
    """

    offsets: Ints  # [T + 1]
    start_s: Floats
    end_s: Floats
    origin_s: Floats  # [T]
    repeat_s: float | None

    @classmethod
    def of(cls, offsets: Ints, time_s: Floats, available: Bools, repeat_s: float | None) -> Availability:
        """Return the intervals between changes: rows `offsets[t]:offsets[t + 1]` are of device t, which is away at first.

        Args:
            offsets: [T + 1]; every device has a row.
            time_s: time of each row, ascending within a device.
            available: whether the device is available from then on.
            repeat_s: length of a cycle; later rows are ignored. None: no repetition.
        """
        end_of_trace = np.inf if repeat_s is None else repeat_s
        first = np.zeros(len(time_s), bool)
        first[offsets[:-1]] = True
        before = np.where(first, False, np.roll(available, 1))
        begins, ends = np.flatnonzero(available & ~before), np.flatnonzero(~available & before)
        last = offsets[1:] - 1
        open_end = last[available[last]]
        # An interval that the last row of its device leaves open ends behind that row.
        order = np.argsort(np.concatenate([2 * ends, 2 * open_end + 1]), kind="stable")
        end_s = np.concatenate([time_s[ends], np.full(len(open_end), end_of_trace)])[order]
        start_s, end_s = np.minimum(time_s[begins], end_of_trace), np.minimum(end_s, end_of_trace)
        device = np.searchsorted(offsets, begins, side="right") - 1
        kept = end_s > start_s
        counts = np.bincount(device[kept], minlength=len(offsets) - 1)
        made = cls(
            np.concatenate([[0], np.cumsum(counts)]), start_s[kept], end_s[kept], np.zeros(len(offsets) - 1), repeat_s
        )
        return made if repeat_s is None else made._closed(repeat_s)

    def _closed(self, repeat_s: float) -> Availability:
        """Join the last interval of a cycle with the first one where they touch."""
        count = np.diff(self.offsets)
        some = np.flatnonzero(count > 0)
        first, last = self.offsets[some], self.offsets[some + 1] - 1
        touch = (self.start_s[first] <= 0) & (self.end_s[last] >= repeat_s)
        end_s, kept = self.end_s.copy(), np.ones(len(self.end_s), bool)
        always, joined = touch & (first == last), touch & (first < last)
        end_s[last[always]] = np.inf
        end_s[last[joined]] = repeat_s + self.end_s[first[joined]]
        kept[first[joined]] = False
        count[some[joined]] -= 1
        offsets = np.concatenate([[0], np.cumsum(count)])
        start_s, end_s = self.start_s[kept], end_s[kept]
        origin_s = np.zeros(len(count))
        origin_s[some] = start_s[offsets[some]]
        shift = np.repeat(origin_s, count)
        return Availability(offsets, start_s - shift, end_s - shift, origin_s, repeat_s)

    @cached_property
    def _length_s(self) -> Floats:
        return self.end_s - self.start_s

    @cached_property
    def _before_s(self) -> Floats:
        """Availability of the device before each interval, within the same cycle."""
        finite = np.where(np.isfinite(self._length_s), self._length_s, 0.0)
        until = np.concatenate([[0.0], np.cumsum(finite)])
        return until[:-1] - np.repeat(until[self.offsets[:-1]], np.diff(self.offsets))

    @cached_property
    def total_s(self) -> Floats:
        """Time that each device is available in one cycle, or in all without cycles, [T]; may be inf."""
        padded = np.append(self._length_s, 0.0)  # `reduceat` cannot do empty slices
        return np.where(np.diff(self.offsets) > 0, np.add.reduceat(padded, self.offsets[:-1]), 0.0)

    @cached_property
    def _longest(self) -> list[Floats]:
        """Longest of the 2^l intervals from each interval on, one array for each level l."""
        levels = [self._length_s]
        most = int(np.diff(self.offsets).max(initial=1))
        while (1 << len(levels)) <= most:
            half = 1 << (len(levels) - 1)
            shifted = np.concatenate([levels[-1][half:], np.full(min(half, len(levels[-1])), -np.inf)])
            levels.append(np.maximum(levels[-1], shifted))
        return levels

    def back_s(self, device: Ints, time_s: Floats) -> Floats:
        """Return the first time from `time_s` on at which each device is available, [n]; inf means never again."""
        place = self._place(device, time_s)
        low, high = self.offsets[device], self.offsets[device + 1]
        later = place.interval >= high  # only in a later cycle
        interval = np.minimum(np.where(later, low, place.interval), max(len(self.start_s) - 1, 0))
        if not len(self.start_s):
            return np.full(len(device), np.inf)
        begin_s = self._moment(device, place.cycle + later, self.start_s[interval])
        now = ~later & (self.start_s[interval] <= place.inside_s + SLACK_S)
        never = (low == high) | (later & (self.repeat_s is None))
        return np.where(never, np.inf, np.where(now, time_s, np.maximum(begin_s, time_s)))

    def is_there(self, device: Ints, time_s: Floats) -> Bools:
        """Return whether each device is available at `time_s`, or leaves at that time, [n]."""
        return self.back_s(device, np.maximum(time_s - SLACK_S, 0.0)) <= time_s

    def between_s(self, device: Ints, start_s: Floats, end_s: Floats) -> Floats:
        """Return how long each device is available from `start_s` to `end_s`, [n]."""
        always = np.isinf(self.total_s[device]) & (self.repeat_s is not None)
        return np.where(always, end_s - start_s, self._passed_s(device, end_s) - self._passed_s(device, start_s))

    def finish_s(self, device: Ints, start_s: Floats, work_s: Floats, *, lose: bool) -> tuple[Floats, Floats]:
        """Return (end of the work, start of the attempt that succeeds) of work that starts at `start_s`, [n] each.

        Args:
            device: [n]; available at `start_s`.
            start_s: [n].
            work_s: time that the work takes while the device is available, [n].
            lose: whether a device that leaves starts over when it is back; else it resumes.

        Returns:
            Times, inf for never.
        """
        place = self._place(device, start_s)
        here = np.minimum(place.interval, len(self.start_s) - 1)
        inside_s = np.maximum(place.inside_s, self.start_s[here])
        fits = (place.interval < self.offsets[device + 1]) & (self.end_s[here] - inside_s >= work_s - SLACK_S)
        done_s, begun_s = start_s + work_s, start_s.copy()
        if not fits.all():
            rest = np.flatnonzero(~fits)
            part = Place(place.cycle[rest], inside_s[rest], place.interval[rest])
            find = self._start_over if lose else self._go_on
            done_s[rest], begun_s[rest] = find(device[rest], start_s[rest], part, work_s[rest])
        return done_s, begun_s

    def _go_on(self, device: Ints, start_s: Floats, place: Place, work_s: Floats) -> tuple[Floats, Floats]:
        total_s = self.total_s[device]
        target_s = self._before_s[place.interval] + place.inside_s - self.start_s[place.interval] + work_s
        cycles = np.zeros(len(device))
        if self.repeat_s is not None:
            cycles = np.maximum(np.ceil(target_s / total_s) - 1, 0.0)
        rest_s = target_s - cycles * np.where(cycles > 0, total_s, 0.0)
        low, high = self.offsets[device], self.offsets[device + 1]
        interval = np.maximum(search(self._before_s, low, high, rest_s, strictly=False) - 1, low)
        inside_s = self.start_s[interval] + rest_s - self._before_s[interval]
        done_s = np.where(rest_s <= total_s + SLACK_S, self._moment(device, place.cycle + cycles, inside_s), np.inf)
        return done_s, start_s

    def _start_over(self, device: Ints, start_s: Floats, place: Place, work_s: Floats) -> tuple[Floats, Floats]:
        low, high = self.offsets[device], self.offsets[device + 1]
        needed_s = work_s - SLACK_S
        interval, cycle = self._next_long(place.interval + 1, high, needed_s), place.cycle
        if self.repeat_s is not None:
            again = interval >= high
            interval = np.where(again, self._next_long(low, high, needed_s), interval)
            cycle = cycle + again
        found = interval < high
        begun_s = self._moment(device, cycle, self.start_s[np.where(found, interval, 0)])
        return np.where(found, begun_s + work_s, np.inf), np.where(found, begun_s, np.inf)

    def _next_long(self, low: Ints, high: Ints, needed_s: Floats) -> Ints:
        """Return the first interval of `low`, ..., `high` - 1 that is at least `needed_s` long, else `high`."""
        at = np.minimum(low, high)
        for level in reversed(range(len(self._longest))):
            longest, width = self._longest[level], 1 << level
            short = longest[np.minimum(at, len(longest) - 1)] < needed_s
            at = np.where((at + width <= high) & short, at + width, at)
        return at

    def _passed_s(self, device: Ints, time_s: Floats) -> Floats:
        """Return how long each device was available from the start of cycle 0 until `time_s`."""
        place = self._place(device, time_s)
        high = self.offsets[device + 1]
        if not len(self.start_s):
            return np.zeros(len(device))
        inside = place.interval < high
        interval = np.where(inside, place.interval, 0)
        in_cycle_s = self._before_s[interval] + np.maximum(place.inside_s - self.start_s[interval], 0.0)
        total_s = self.total_s[device]
        whole_s = np.where(place.cycle != 0, place.cycle * np.where(np.isfinite(total_s), total_s, 0.0), 0.0)
        return whole_s + np.where(inside, in_cycle_s, total_s)

    def _place(self, device: Ints, time_s: Floats) -> Place:
        since_s = time_s - self.origin_s[device]
        cycle = np.zeros(len(device))
        if self.repeat_s is not None:
            cycle = np.where(np.isinf(self.total_s[device]), 0.0, np.floor((since_s + SLACK_S) / self.repeat_s))
        inside_s = since_s - cycle * (self.repeat_s or 0.0)
        low, high = self.offsets[device], self.offsets[device + 1]
        return Place(cycle, inside_s, search(self.end_s, low, high, inside_s, strictly=True))

    def _moment(self, device: Ints, cycle: Floats, inside_s: Floats) -> Floats:
        return self.origin_s[device] + cycle * (self.repeat_s or 0.0) + inside_s


def search(values: Floats, low: Ints, high: Ints, wanted: Floats, *, strictly: bool) -> Ints:
    """Bisect many ascending slices `low:high` of `values`: the first index above `wanted`, or not below it unless `strictly`."""
    low, high = low.copy(), high.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        value = values[np.minimum(middle, len(values) - 1)]
        too_low = open_ & ((value <= wanted) if strictly else (value < wanted))
        low = np.where(too_low, middle + 1, low)
        high = np.where(open_ & ~too_low, middle, high)
    return low
