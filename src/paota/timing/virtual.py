"""The server on a virtual clock: it drives a scheme's coroutine, and what happens is the timeline of a simulation.

State is kept in arrays over all devices: a deadline is one comparison, a share one partition; single arrivals take a
heap. So a million devices cost little more than a hundred.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from .latency import Latencies
from .scheme import Devices, Scheme, Server, Wait, joined, share_of
from .schemes import Periodic
from .timeline import Builder, Horizon, Timeline, Trainings

MAX_EVENTS = 10_000_000
UNKNOWN = -1  # the version of a training that begins later: the newest one by then


@dataclass(frozen=True)
class TimelineInputs:
    """What a timeline is made from. Every algorithm of one experiment and seed gets the same latencies."""

    latencies: Latencies  # with the upload behind each training, where the uplink is digital and not ideal
    period_s: float
    horizon: Horizon
    computing: Latencies | None = None  # without uploads, where that differs

    def participants(self, count: int | None) -> int:
        """`count`, None: as many devices as PAOTA has ready on average; no more than there are."""
        return min(count or self._mean_ready, self.latencies.devices)

    @cached_property
    def _mean_ready(self) -> int:
        alone = TimelineInputs(self.computing or self.latencies, self.period_s, self.horizon)
        timeline = make_timeline(Periodic(), alone)
        return max(1, round(float(timeline.ready.mean()))) if len(timeline) else 1

    def updates(self) -> int | None:
        """As many device updates in all as a synchronous scheme makes in its rounds; None where time sets the end."""
        return None if self.horizon.rounds is None else self.horizon.rounds * self._mean_ready


def make_timeline(scheme: Scheme, inputs: TimelineInputs) -> Timeline:
    """All aggregation events of a scheme until the horizon, with their trainings."""
    count = (inputs.horizon.duration_s or 0.0) / inputs.period_s
    if scheme.uses_period and count > MAX_EVENTS:
        raise UserError(
            f"duration_s / timing.period_s asks for {count:,.0f} rounds; at most {MAX_EVENTS:,} are possible"
        )
    server = VirtualServer(scheme, inputs)
    steps = scheme.run(server)
    wait = next(steps)
    while (ready := server.answer(wait)) is not None:
        wait = steps.send(ready)
    return server.timeline()


class VirtualServer(Server):
    """What every device is doing: which training, from which version, since when, until when; [K] each."""

    def __init__(self, scheme: Scheme, inputs: TimelineInputs) -> None:
        self.latencies, self.period_s, self.inputs = inputs.latencies, inputs.period_s, inputs
        self.devices = k = inputs.latencies.devices
        self.training = np.full(k, -1)  # number of the newest training
        self.version = np.zeros(k, np.int64)
        self.start_s, self.finish_s, self.heard_s = np.zeros(k), np.full(k, np.inf), np.zeros(k)
        self.busy = np.zeros(k, bool)  # training, or finished and not yet aggregated
        self.gone = np.zeros(k, bool)  # devices that will never finish a training again
        self._versions = _Versions()
        self._events = Builder()
        self._aborted: dict[int, Trainings] = {}  # by event
        self._ending: list[
            tuple[Trainings, NDArray[np.float64]]
        ] = []  # with the next event, and when they hear of a model
        self._groups: list[int] = []
        self._arrivals: list[tuple[float, int, int]] | None = (
            None  # (finish_s, device, training): a heap, once it is needed
        )
        self._ahead: dict[int, tuple[float, ...]] = {}
        self._rounds = inputs.horizon.rounds if not scheme.counts_updates else None
        self._updates = inputs.updates() if scheme.counts_updates else None
        self._duration_s = math.inf if inputs.horizon.duration_s is None else inputs.horizon.duration_s
        self._updated = 0
        self._over = False

    # ---- what a scheme does -------------------------------------------------------------------------------------

    def start(self, device: Devices, *, together: bool = False) -> None:
        if self._over:
            return
        now_s = self.now_s
        if together:
            back_s = self.latencies.back_s(device, now_s)
            now_s = max(now_s, float(back_s.min(initial=math.inf)))
            device = device[back_s <= now_s] if math.isfinite(now_s) else device[:0]
        self.training[device] += 1
        start_s, finish_s, heard_s = self._begin(device, now_s)
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
        self._groups.append(trainings.group)
        # A device that has started another training since keeps it.
        self.busy[trainings.device[self.training[trainings.device] == trainings.training]] = False
        self._versions.add(self.now_s)
        if self._ending:
            parts = [
                part._replace(version=self._versions.known(part.version, heard_s)) for part, heard_s in self._ending
            ]
            self._aborted[self.round] = joined(parts)
            self._ending = []
        self.round += 1
        self._updated += len(trainings.device)
        self._over = self.round == self._rounds or (self._updates is not None and self._updated >= self._updates)

    def abort(self, device: Devices) -> None:
        device = device[self.busy[device]]
        if len(device):
            self._ending.append((self._as_they_are(device), self.heard_s[device]))
            self.busy[device] = False

    @property
    def under_way(self) -> Trainings:
        going_on = self._trainings_of(np.flatnonzero(self.busy & (self.finish_s > self.now_s)))
        return going_on._replace(finish_s=np.full(len(going_on.device), np.nan))

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

    def lot(self) -> NDArray[np.int64]:
        return host_rng(self.latencies.seed, Purpose.SELECTION, self.round).permutation(self.devices)

    def first_training_s(self, device: Devices) -> NDArray[np.float64]:
        return self.latencies(device, np.zeros_like(device))

    def by_speed(self, groups: int) -> Sequence[Devices]:
        order = np.argsort(self.first_training_s(self.everyone), kind="stable")
        return [np.sort(part) for part in np.array_split(order, min(groups, self.devices))]

    def participants(self, count: int | None) -> int:
        return self.inputs.participants(count)

    # ---- what a scheme waits for --------------------------------------------------------------------------------

    def answer(self, wait: Wait) -> Trainings | None:
        """Let time pass until `wait` is over; None: the timeline has ended."""
        if self._over:
            return None
        if wait.until_s is not None:
            return self._until(wait.until_s)
        if wait.count is not None:
            return self._first(wait.count, wait.within_s)
        if wait.share is not None:
            return self._share(wait.share)
        return self._group(wait.groups or ())

    def _until(self, time_s: float) -> Trainings:
        self.now_s = time_s
        # "at or before the deadline" must survive rounding: (r+1)*dT and a sum of latencies differ in the last bit.
        done = np.flatnonzero(self.busy & (self.finish_s <= time_s + 1e-9 * self.period_s))
        return self._trainings_of(done[self.latencies.can_send(done, time_s)])

    def _first(self, count: int, within_s: float | None) -> Trainings | None:
        latest_s = math.inf if within_s is None else self.now_s + within_s
        first = self._next_arrival() if count == 1 else self._first_arrivals(count)
        if not len(first) and within_s is None:
            if not self.busy.any():
                return None
            self.gone |= self.busy  # a device that never finishes is not waited for
            self.busy[:] = False
            return self._trainings_of(first)
        finish_s = self.finish_s[first]
        self.now_s = max(self.now_s, min(latest_s, float(finish_s[-1]) if len(first) else math.inf))
        done = np.sort(first[finish_s <= self.now_s])
        if count > 1:  # some may have left since they finished
            done = done[self.latencies.can_send(done, self.now_s)]
        return self._trainings_of(done)

    def _first_arrivals(self, count: int) -> Devices:
        """The devices whose trainings finish first, in that order; those that never do are left out."""
        who = np.flatnonzero(self.busy & np.isfinite(self.finish_s))
        return who[np.argsort(self.finish_s[who], kind="stable")[:count]]

    def _next_arrival(self) -> Devices:
        """As `_first_arrivals(1)`, from a heap: a scheme that waits for one device waits for many one by one."""
        if self._arrivals is None:
            who = self._first_arrivals(self.devices)
            columns = (self.finish_s[who].tolist(), who.tolist(), self.training[who].tolist())
            self._arrivals = list(zip(*columns, strict=True))  # sorted, so it is a heap
        while self._arrivals:
            _, device, training = self._arrivals[0]
            if self.busy[device] and self.training[device] == training:
                return np.array([device])
            heapq.heappop(self._arrivals)  # it was aggregated or aborted, or has started again
        return self.everyone[:0]

    def _share(self, share: float) -> Trainings | None:
        """The moment at which enough of the devices that are there have finished."""
        comes = np.flatnonzero(self.busy & np.isfinite(self.finish_s))  # one that never finishes does not count
        ready_s = self.finish_s[comes]  # from when on each can take part
        missed = ready_s < self.now_s  # was away when the others sent
        ready_s[missed] = self.latencies.back_s(comes[missed], self.now_s)
        count = 1
        while len(comes):
            count = min(count, len(comes))
            now_s = float(np.partition(ready_s, count - 1)[count - 1])
            if not math.isfinite(now_s):
                comes, ready_s = comes[np.isfinite(ready_s)], ready_s[np.isfinite(ready_s)]
                continue
            done = np.flatnonzero(ready_s <= now_s)  # `count` of them, more where several finish at the same moment
            sends = self.latencies.can_send(comes[done], now_s)
            needed = share_of(share, int((self.latencies.back_s(comes, now_s) <= now_s).sum()))
            if sends.sum() >= needed:
                self.now_s = now_s
                return self._trainings_of(comes[done[sends]])
            ready_s[done[~sends]] = self.latencies.back_s(comes[done[~sends]], now_s)
            count = max(needed, int(sends.sum()) + 1)
        return None

    def _group(self, groups: Sequence[Devices]) -> Trainings | None:
        """The group whose slowest member, of those that ever finish, is done first."""
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

    # ---- inside -------------------------------------------------------------------------------------------------

    def _begin(self, device: Devices, now_s: float) -> tuple[NDArray[np.float64], ...]:
        """(start_s, finish_s, heard_s) of the next trainings.

        A device that starts again when it arrives needs no other device's news, so the next trainings of all devices
        under way are made at once: asking for one costs almost as much.
        """
        if len(device) != 1 or self._arrivals is None or self.finish_s[device[0]] != now_s:
            for k in device.tolist() if self._ahead else ():
                self._ahead.pop(k, None)
            return self.latencies.begin(device, self.training[device], now_s)
        own = int(device[0])
        if own not in self._ahead:
            self.busy[own] = True
            who = np.flatnonzero(self.busy & np.isfinite(self.finish_s))
            who = who[[k not in self._ahead for k in who.tolist()]]
            number = self.training[who] + (who != own)
            columns = self.latencies.begin(who, number, self.finish_s[who])
            self._ahead.update(zip(who.tolist(), zip(*(c.tolist() for c in columns), strict=True), strict=True))
        start_s, finish_s, heard_s = self._ahead.pop(own)
        return np.array([start_s]), np.array([finish_s]), np.array([heard_s])

    def _as_they_are(self, device: Devices) -> Trainings:
        columns = (self.version, self.training, self.start_s, self.finish_s)
        return Trainings._make([device, *(column[device] for column in columns), 0])

    def _trainings_of(self, device: Devices) -> Trainings:
        made = self._as_they_are(device)
        return made._replace(version=self._versions.known(made.version, self.heard_s[device]))

    def timeline(self) -> Timeline:
        """The events so far."""
        made = self._events.timeline()
        if any(self._groups):
            made = replace(made, group=np.array(self._groups))
        if not self._aborted:
            return made
        none = self._trainings_of(self.everyone[:0])
        ended = (self._aborted.get(event, none) for event in range(len(made)))
        return replace(made, aborted=Timeline.build(zip(made.time_s.tolist(), ended, strict=True)))


class _Versions:
    """When each version was made."""

    def __init__(self) -> None:
        self.count = 0
        self._time_s = np.empty(64)

    def add(self, time_s: float) -> None:
        if self.count == len(self._time_s):
            self._time_s = np.concatenate([self._time_s, np.empty(self.count)])
        self._time_s[self.count] = time_s
        self.count += 1

    def known(self, version: NDArray[np.int64], heard_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """`version`, with the newest at `heard_s` where it is unknown."""
        late = version == UNKNOWN
        if not late.any():
            return version
        newest = np.searchsorted(self._time_s[: self.count], heard_s, side="right")
        return np.where(late, newest, version)
