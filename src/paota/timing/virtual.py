"""The server on a virtual clock: it drives a scheme's coroutine and records the timeline of a simulation.

The state is kept in arrays over all devices. A deadline is one comparison, a share one partition, and single arrivals
come from a heap. A million devices therefore cost little more than a hundred.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from ..base.types import Floats, Ints
from .latency import Latencies
from .scheme import Devices, Scheme, Server, Wait, joined, next_wait, share_of
from .schemes import Periodic
from .timeline import Builder, Horizon, Timeline, Trainings

MAX_EVENTS = 10_000_000
UNKNOWN = -1  # version of a training that starts later: the newest version by then


@dataclass(frozen=True)
class TimelineInputs:
    """The inputs of a timeline. All algorithms of one experiment and seed get the same latencies.

    Args:
        latencies: outermost layer of latencies, with uploads if the uplink is digital and not ideal.
        period_s: `timing.period_s`.
        horizon: end of the experiment.
        computing: the latencies without uploads, if they differ.
    """

    latencies: Latencies
    period_s: float
    horizon: Horizon
    computing: Latencies | None = None

    def participants(self, count: int | None) -> int:
        """Return `count`, or PAOTA's average number of ready devices if it is None; at most all devices."""
        return min(count or self._mean_ready, self.latencies.devices)

    @cached_property
    def _mean_ready(self) -> int:
        alone = TimelineInputs(self.computing or self.latencies, self.period_s, self.horizon)
        timeline = make_timeline(Periodic(), alone)
        return max(1, round(float(timeline.ready.mean()))) if len(timeline) else 1

    def updates(self) -> int | None:
        """Return the number of device updates that a synchronous scheme makes in its rounds; None without a bound on rounds."""
        return None if self.horizon.rounds is None else self.horizon.rounds * self._mean_ready


def make_timeline(scheme: Scheme, inputs: TimelineInputs) -> Timeline:
    """Return all aggregation events of a scheme until the horizon, with their trainings."""
    count = (inputs.horizon.duration_s or 0.0) / inputs.period_s
    if scheme.uses_period and count > MAX_EVENTS:
        raise UserError(
            f"duration_s / timing.period_s asks for {count:,.0f} rounds; at most {MAX_EVENTS:,} are possible"
        )
    server = VirtualServer(scheme, inputs)
    steps = scheme.run(server)
    wait = next_wait(scheme, steps, None)
    while (ready := server.answer(wait)) is not None:
        wait = next_wait(scheme, steps, ready)
    return server.timeline()


class VirtualServer(Server):
    """The state of every device: its training, the version it started from, start and finish; [K] each."""

    def __init__(self, scheme: Scheme, inputs: TimelineInputs) -> None:
        self.latencies, self.period_s, self.inputs = inputs.latencies, inputs.period_s, inputs
        self.devices = k = inputs.latencies.devices
        self.training = np.full(k, -1)  # number of the newest training
        self.version = np.zeros(k, np.int64)
        self.start_s, self.finish_s, self.heard_s = np.zeros(k), np.full(k, np.inf), np.zeros(k)
        self.busy = np.zeros(k, bool)  # training, or finished and not yet aggregated
        self.gone = np.zeros(k, bool)  # devices that never finish a training again
        self._made_s = array("d")  # time at which each version was made
        self._events = Builder()
        self._group_of_event: list[int] = []
        self._aborted_by_event: dict[int, Trainings] = {}
        self._to_abort: list[tuple[Trainings, Floats]] = []  # at the next event; trainings and their `heard_s`
        self._arrivals: list[tuple[float, int, int]] | None = None  # heap of (finish_s, device, training); None: unused
        self._next_times: dict[
            int, tuple[float, ...]
        ] = {}  # by device: times of its next training, computed in advance
        self._max_rounds = inputs.horizon.rounds if not scheme.counts_updates else None
        self._max_updates = inputs.updates() if scheme.counts_updates else None
        self._duration_s = math.inf if inputs.horizon.duration_s is None else inputs.horizon.duration_s
        self._updates = 0
        self._over = False

    # ---- actions of a scheme ------------------------------------------------------------------------------------

    def start(self, device: Devices, *, together: bool = False) -> None:
        if self._over:
            return
        now_s = self.now_s
        if together:
            back_s = self.latencies.back_s(device, now_s)
            now_s = max(now_s, float(back_s.min(initial=math.inf)))
            device = device[back_s <= now_s] if math.isfinite(now_s) else device[:0]
        self.training[device] += 1
        start_s, finish_s, heard_s = self._times(device, now_s)
        heard_s = start_s if together else heard_s
        self.start_s[device], self.finish_s[device], self.heard_s[device] = start_s, finish_s, heard_s
        self.version[device] = np.where(heard_s > self.now_s, UNKNOWN, self.round)
        self.busy[device] = True
        if self._arrivals is not None:
            for entry in zip(finish_s.tolist(), device.tolist(), self.training[device].tolist(), strict=True):
                if math.isfinite(entry[0]):
                    heapq.heappush(self._arrivals, entry)

    def aggregate(self, trainings: Trainings) -> None:
        if self._over or self.now_s > self._duration_s + 1e-9 * self.period_s or self.round >= MAX_EVENTS:
            self._over = True
            return
        self._events.add(self.now_s, trainings)
        self._group_of_event.append(trainings.group)
        # A device that has started another training since keeps it.
        self.busy[trainings.device[self.training[trainings.device] == trainings.training]] = False
        self._made_s.append(self.now_s)
        if self._to_abort:
            parts = [part._replace(version=self._resolved(part.version, at)) for part, at in self._to_abort]
            self._aborted_by_event[self.round] = joined(parts)
            self._to_abort = []
        self.round += 1
        self._updates += len(trainings.device)
        enough = self._max_updates is not None and self._updates >= self._max_updates
        self._over = enough or self.round == self._max_rounds

    def abort(self, device: Devices) -> None:
        device = device[self.busy[device]]
        if len(device):
            self._to_abort.append((self._unresolved(device), self.heard_s[device]))
            self.busy[device] = False

    @property
    def under_way(self) -> Trainings:
        unfinished = self._trainings_of(np.flatnonzero(self.busy & (self.finish_s > self.now_s)))
        return unfinished._replace(finish_s=np.full(len(unfinished.device), np.nan))

    def present(self) -> Devices:
        members = np.flatnonzero(~self.gone)
        back_s = self.latencies.back_s(members, self.now_s)
        next_s = max(self.now_s, float(back_s.min(initial=math.inf)))
        if not math.isfinite(next_s):
            return members[:0]
        self.now_s = next_s
        return members[back_s <= next_s]

    def draw(self, count: int) -> Devices:
        present = self.present()
        rng = host_rng(self.latencies.seed, Purpose.SELECTION, self.round)
        return present[np.sort(rng.choice(len(present), min(count, len(present)), replace=False))]

    def random_order(self) -> Devices:
        return host_rng(self.latencies.seed, Purpose.SELECTION, self.round).permutation(self.devices)

    def first_training_s(self, device: Devices) -> Floats:
        return self.latencies(device, np.zeros_like(device))

    def by_speed(self, groups: int) -> Sequence[Devices]:
        order = np.argsort(self.first_training_s(self.everyone), kind="stable")
        return [np.sort(part) for part in np.array_split(order, min(groups, self.devices))]

    def participants(self, count: int | None) -> int:
        return self.inputs.participants(count)

    # ---- waits of a scheme --------------------------------------------------------------------------------------

    def answer(self, wait: Wait) -> Trainings | None:
        """Advance the clock until `wait` is over; return None at the end of the timeline."""
        if self._over:
            return None
        if wait.until_s is not None:
            return self._until(wait.until_s)
        if wait.count is not None:
            return self._first(wait.count, wait.within_s)
        if wait.share is not None:
            return self._share(wait.share, wait.of)
        return self._group(wait.groups or ())

    def _until(self, time_s: float) -> Trainings:
        self.now_s = time_s
        # A training that ends at the deadline counts, although (r+1)*dT and a sum of latencies differ in the last bit.
        done = np.flatnonzero(self.busy & (self.finish_s <= time_s + 1e-9 * self.period_s))
        return self._trainings_of(done[self.latencies.can_send(done, time_s)])

    def _first(self, count: int, within_s: float | None) -> Trainings | None:
        latest_s = math.inf if within_s is None else self.now_s + within_s
        first = self._next_arrival() if count == 1 else self._first_arrivals(count)
        if not len(first) and within_s is None:
            if not self.busy.any():
                return None
            self.gone |= self.busy  # do not wait for devices that never finish
            self.busy[:] = False
            return self._trainings_of(first)
        finish_s = self.finish_s[first]
        self.now_s = max(self.now_s, min(latest_s, float(finish_s[-1]) if len(first) else math.inf))
        done = np.sort(first[finish_s <= self.now_s])
        if count > 1:  # some devices may have left since they finished
            done = done[self.latencies.can_send(done, self.now_s)]
        return self._trainings_of(done)

    def _first_arrivals(self, count: int) -> Devices:
        """Return the devices whose trainings finish first, in that order, without those that never finish."""
        finishing = self._finishing()
        return finishing[np.argsort(self.finish_s[finishing], kind="stable")[:count]]

    def _finishing(self) -> Devices:
        """Return the busy devices that finish at some time."""
        return np.flatnonzero(self.busy & np.isfinite(self.finish_s))

    def _next_arrival(self) -> Devices:
        """Return `_first_arrivals(1)` from a heap: a scheme that waits for single arrivals waits for many of them."""
        if self._arrivals is None:
            device = self._first_arrivals(self.devices)
            columns = (self.finish_s[device].tolist(), device.tolist(), self.training[device].tolist())
            self._arrivals = list(zip(*columns, strict=True))  # sorted, so it is a heap
        while self._arrivals:
            _, first, training = self._arrivals[0]
            if self.busy[first] and self.training[first] == training:
                return np.array([first])
            heapq.heappop(
                self._arrivals
            )  # this training was aggregated or aborted, or the device has started another one
        return self.everyone[:0]

    def _share(self, share: float, of: Devices | None) -> Trainings | None:
        """Wait until enough of the available devices have finished; with `of`, only these count."""
        device = self._finishing()
        counts = np.ones(len(device), bool) if of is None else np.isin(device, of, assume_unique=True)
        ready_s = self.finish_s[device]  # time from which on each device can take part
        missed = ready_s < self.now_s  # the device was away at the last aggregation
        ready_s[missed] = self.latencies.back_s(device[missed], self.now_s)
        count = 1
        while np.isfinite(counting_s := ready_s[counts]).any():
            count = min(count, int(np.isfinite(counting_s).sum()))
            now_s = float(np.partition(counting_s, count - 1)[count - 1])
            done = np.flatnonzero(ready_s <= now_s)  # `count` of them, or more if several finish at the same time
            sends = self.latencies.can_send(device[done], now_s)
            here = self.latencies.back_s(device, now_s) <= now_s
            needed = min(share_of(share, int(here.sum())), max(1, int((here & counts).sum())))
            heard = int((sends & counts[done]).sum())
            if heard >= needed:
                self.now_s = now_s
                return self._trainings_of(device[done[sends]])
            ready_s[done[~sends]] = self.latencies.back_s(device[done[~sends]], now_s)
            count = max(needed, heard + 1)
        return None if of is None else self._share(share, None)  # none of them will finish: any device counts

    def _group(self, groups: Sequence[Devices]) -> Trainings | None:
        """Wait for the group whose slowest member is done first; members that never finish do not count."""
        finish_s = np.where(self.busy & np.isfinite(self.finish_s), self.finish_s, -math.inf)
        ends_s = np.array([finish_s[members].max(initial=-math.inf) for members in groups])
        ends_s[ends_s == -math.inf] = math.inf
        group = int(np.argmin(ends_s))
        if not math.isfinite(ends_s[group]):
            return None
        self.now_s = float(ends_s[group])
        done = groups[group][finish_s[groups[group]] > -math.inf]
        sends = self.latencies.can_send(done, self.now_s)
        return self._trainings_of(done[sends])._replace(group=group)

    # ---- state --------------------------------------------------------------------------------------------------

    def _times(self, device: Devices, now_s: float) -> tuple[Floats, ...]:
        """Return (start_s, finish_s, heard_s) of the next trainings.

        The next training of a device that restarts at its arrival depends on no other device. It is therefore computed
        in advance, for all devices under way at once: a call for one device costs almost as much as a call for all.
        """
        if len(device) != 1 or self._arrivals is None or self.finish_s[device[0]] != now_s:
            for k in device.tolist() if self._next_times else ():
                self._next_times.pop(k, None)
            return self.latencies.begin(device, self.training[device], now_s)
        arrived = int(device[0])
        if arrived not in self._next_times:
            self.busy[arrived] = True
            some = self._finishing()
            some = some[[k not in self._next_times for k in some.tolist()]]
            number = self.training[some] + (some != arrived)
            columns = self.latencies.begin(some, number, self.finish_s[some])
            self._next_times.update(zip(some.tolist(), zip(*(c.tolist() for c in columns), strict=True), strict=True))
        start_s, finish_s, heard_s = self._next_times.pop(arrived)
        return np.array([start_s]), np.array([finish_s]), np.array([heard_s])

    def _unresolved(self, device: Devices) -> Trainings:
        """Return the newest trainings of these devices, whose versions may be UNKNOWN."""
        columns = (self.version, self.training, self.start_s, self.finish_s)
        return Trainings._make([device, *(column[device] for column in columns), 0])

    def _trainings_of(self, device: Devices) -> Trainings:
        made = self._unresolved(device)
        return made._replace(version=self._resolved(made.version, self.heard_s[device]))

    def _resolved(self, version: Ints, heard_s: Floats) -> Ints:
        """Return `version` [n], with UNKNOWN replaced by the newest version at `heard_s` [n]."""
        late = version == UNKNOWN
        if not late.any():
            return version
        made_s = np.frombuffer(self._made_s) if self._made_s else np.empty(0)
        return np.where(late, np.searchsorted(made_s, heard_s, side="right"), version)

    def timeline(self) -> Timeline:
        """Return the events so far."""
        made = self._events.timeline()
        if any(self._group_of_event):
            made = replace(made, group=np.array(self._group_of_event))
        if not self._aborted_by_event:
            return made
        none = self._trainings_of(self.everyone[:0])
        aborted = (self._aborted_by_event.get(event, none) for event in range(len(made)))
        return replace(made, aborted=Timeline.build(zip(made.time_s.tolist(), aborted, strict=True)))
