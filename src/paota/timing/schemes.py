"""The aggregation schemes of the field: who takes part when. An algorithm declares one; it makes the timeline."""

from __future__ import annotations

import abc
import bisect
import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..rng import Purpose, host_rng
from .latency import Latencies
from .progress import UNKNOWN, Ahead, Devices, Versions
from .timeline import Builder, Horizon, Participants, Timeline

MAX_EVENTS = 10_000_000


@dataclass(frozen=True)
class World:
    """What a timeline is made from. Every algorithm of one experiment and seed gets the same latencies."""

    latencies: Latencies  # with the upload behind each training, where the uplink is digital and not ideal
    period_s: float
    horizon: Horizon
    computing: Latencies | None = None  # without uploads, where that differs
    label_counts: NDArray[np.int64] | None = None  # samples of each label on each device, [K, C], where they are known

    @cached_property
    def _matched(self) -> int:
        return mean_ready(periodic(self.computing or self.latencies, period_s=self.period_s, horizon=self.horizon))

    def match_participants(self) -> int:
        """As many devices a round as PAOTA has ready on average: the paper's fairness rule."""
        return self._matched

    def match_updates(self) -> int | None:
        """As many device updates in all as a synchronous rival makes in its rounds; None where time sets the end."""
        return None if self.horizon.rounds is None else self.horizon.rounds * self.match_participants()


class Scheme(abc.ABC):
    """When the server aggregates, and whom it waits for."""

    @abc.abstractmethod
    def timeline(self, world: World) -> Timeline:
        """All aggregation events until the horizon, with their participants."""

    def busy_at_once(self, world: World) -> int:
        """How many devices may be training or uploading at the same time: all, unless the scheme starts fewer."""
        return world.latencies.devices


@dataclass(frozen=True)
class Periodic(Scheme):
    """Every `timing.period_s` seconds, whoever has finished (PAOTA)."""

    def timeline(self, world: World) -> Timeline:
        return periodic(world.latencies, period_s=world.period_s, horizon=world.horizon)


@dataclass(frozen=True)
class Tiered(Scheme):
    """Every `timing.period_s` seconds; tier m, the devices whose first training took m periods, in every m-th (TT-Fed)."""

    def timeline(self, world: World) -> Timeline:
        return tiered(world.latencies, period_s=world.period_s, horizon=world.horizon)


@dataclass(frozen=True)
class Synchronous(Scheme):
    """Rounds with a common start: `selected` devices drawn anew begin, the first `participants` to finish count.

    `participants` None: PAOTA's mean number of ready devices. `selected` None: as many as count, so that all are waited
    for. `deadline_s`: a round ends then at the latest, with whoever has finished.
    """

    participants: int | None = None
    selected: int | None = None
    deadline_s: float | None = None

    def size(self, world: World) -> int:
        """Devices that count in a round, at most."""
        return min(self.participants or world.match_participants(), world.latencies.devices)

    def busy_at_once(self, world: World) -> int:
        return min(self.selected or self.size(world), world.latencies.devices)

    def timeline(self, world: World) -> Timeline:
        size, selected = self.size(world), self.busy_at_once(world)
        if selected < size:
            raise UserError(f"selected = {selected} devices cannot give the {size} participants that a round waits for")
        return synchronous(
            world.latencies, participants=size, selected=selected, deadline_s=self.deadline_s, horizon=world.horizon
        )


@dataclass(frozen=True)
class Buffered(Scheme):
    """After every `buffer_size` arrivals."""

    buffer_size: int

    def timeline(self, world: World) -> Timeline:
        return buffered(
            world.latencies, buffer_size=self.buffer_size, updates=world.match_updates(), horizon=world.horizon
        )


@dataclass(frozen=True)
class ShareReady(Scheme):
    """As soon as a `share` of all devices is ready; they wait for the event, then begin again with the new model.

    A period that sets itself: by Little's law events are share * (mean time from a device's start to its next) apart,
    whatever the law of the latencies.
    """

    share: float

    def timeline(self, world: World) -> Timeline:
        return share_ready(world.latencies, share=self.share, updates=world.match_updates(), horizon=world.horizon)

    def count(self, devices: int) -> int:
        """How many of `devices` make an event: the share, rounded up."""
        return min(devices, max(1, math.ceil(self.share * devices - 1e-9)))


@dataclass(frozen=True)
class Asynchronous(Buffered):
    """At every arrival."""

    buffer_size: int = 1


@dataclass(frozen=True)
class Grouped(Scheme):
    """Synchronous inside each of `groups` groups of similar speed, groups asynchronous."""

    groups: int

    def timeline(self, world: World) -> Timeline:
        return grouped(world.latencies, groups=self.groups, updates=world.match_updates(), horizon=world.horizon)


def periodic(latencies: Latencies, *, period_s: float, horizon: Horizon) -> Timeline:
    """PAOTA (Algorithm 1): at every deadline (r+1)*dT, all that have finished take part and get the new model."""
    return Timeline.build(_periodic(latencies, np.ones(latencies.devices, np.int64), period_s, horizon))


def tiered(latencies: Latencies, *, period_s: float, horizon: Horizon) -> Timeline:
    """TT-Fed: as `periodic`, but a device whose first training took m periods may take part in every m-th one only."""
    everyone = np.arange(latencies.devices)
    first_s = latencies(everyone, np.zeros_like(everyone))
    tier = np.maximum(np.ceil(first_s / period_s - 1e-9), 1).astype(np.int64)
    return Timeline.build(_periodic(latencies, tier, period_s, horizon))


def _periodic(
    latencies: Latencies, tier: NDArray[np.int64], period_s: float, horizon: Horizon
) -> Iterator[tuple[float, Participants]]:
    devices = Devices(latencies)  # round 0 broadcasts to all
    for r in range(_count(horizon, period_s)):
        deadline_s = (r + 1) * period_s
        # "at or before the deadline" must survive rounding: (r+1)*dT and a sum of latencies differ in the last bit.
        done = np.flatnonzero((devices.finish_s <= deadline_s + 1e-9 * period_s) & ((r + 1) % tier == 0))
        ready = done[latencies.can_send(done, deadline_s)]
        yield deadline_s, devices.take_part(ready, deadline_s)


def synchronous(
    latencies: Latencies, *, participants: int, horizon: Horizon, selected: int | None = None,
    deadline_s: float | None = None,
) -> Timeline:  # fmt: skip
    """Local SGD, COTAF: each round draws `selected` devices (default: `participants`) of those that are there, and the
    first `participants` of them to finish count, or whoever has finished after `deadline_s`. The others abort.
    """
    return with_aborted(_synchronous(latencies, participants, selected or participants, deadline_s, horizon))


def with_aborted(events: Iterable[tuple[float, Participants, Participants]]) -> Timeline:
    """Of (end of the round, who counts, who aborts)."""
    counting, aborting = Builder(), Builder()
    for now_s, counted, ended in events:
        counting.add(now_s, counted)
        aborting.add(now_s, ended)
    timeline, aborted = counting.timeline(), aborting.timeline()
    return replace(timeline, aborted=aborted) if len(aborted.device) else timeline


def _synchronous(
    latencies: Latencies, participants: int, selected: int, deadline_s: float | None, horizon: Horizon
) -> Iterator[tuple[float, Participants, Participants]]:
    members = np.arange(latencies.devices)
    training = np.zeros(latencies.devices, np.int64)
    now_s, r = 0.0, 0
    while r < (horizon.rounds if horizon.rounds is not None else MAX_EVENTS):
        start_s, there = _gather(latencies, members, now_s)
        if not len(there):
            return
        rng = host_rng(latencies.seed, Purpose.SELECTION, r)
        chosen = there[np.sort(rng.choice(len(there), min(selected, len(there)), replace=False))]
        finish_s = latencies.begin(chosen, training[chosen], start_s).finish_s
        counts = np.zeros(len(chosen), bool)
        counts[np.argsort(finish_s, kind="stable")[:participants]] = True
        end_s, counts = _end_of_round(latencies, chosen, counts, start_s, finish_s, deadline_s)
        if not math.isfinite(end_s):  # none of them ever comes back: the server draws others
            members = np.setdiff1d(members, chosen)
            continue
        now_s = end_s
        if horizon.duration_s is not None and now_s > horizon.duration_s:
            return
        n = len(chosen)
        started = Participants(chosen, np.full(n, r), training[chosen], np.full(n, start_s), finish_s)
        yield now_s, started.only(counts), started.only(~counts)
        training[chosen] += 1
        r += 1


def _gather(latencies: Latencies, members: NDArray[np.int64], now_s: float) -> tuple[float, NDArray[np.int64]]:
    """When a round of these devices can begin, from `now_s` on, and who is there by then; nobody ever: an empty array."""
    back_s = latencies.back_s(members, now_s)
    start_s = max(now_s, float(back_s.min(initial=math.inf)))
    return start_s, members[back_s <= start_s] if math.isfinite(start_s) else members[:0]


def _end_of_round(
    latencies: Latencies, chosen: NDArray[np.int64], counts: NDArray[np.bool_], start_s: float,
    finish_s: NDArray[np.float64], deadline_s: float | None,
) -> tuple[float, NDArray[np.bool_]]:  # fmt: skip
    """When the last of those that count is done, or at the deadline, and who of them can send then.

    A device that never comes back is not waited for; if nobody does and there is no deadline, the round never ends: inf.
    """
    counts = counts & np.isfinite(finish_s)
    end_s = float(finish_s[counts].max()) if counts.any() else math.inf
    if deadline_s is not None and end_s > start_s + deadline_s:
        end_s = start_s + deadline_s
        counts &= finish_s <= end_s
    counts[counts] = latencies.can_send(chosen[counts], end_s)
    return end_s, counts


def buffered(latencies: Latencies, *, buffer_size: int, updates: int | None, horizon: Horizon) -> Timeline:
    """Every `buffer_size` arrivals make one event; a device that arrives takes the newest model and goes on at once.

    Ends after `updates` arrivals (whole buffers), or at the horizon's duration.
    """
    return Timeline.build(_buffered(latencies, buffer_size, updates, horizon))


def asynchronous(latencies: Latencies, *, updates: int | None, horizon: Horizon) -> Timeline:
    """Every arrival is an event of its own."""
    return buffered(latencies, buffer_size=1, updates=updates, horizon=horizon)


def _buffered(
    latencies: Latencies, buffer_size: int, updates: int | None, horizon: Horizon
) -> Iterator[tuple[float, Participants]]:
    ahead = Ahead(latencies)
    running = [
        (finish_s, device, UNKNOWN if heard_s > 0 else 0, start_s, heard_s)
        for device in range(latencies.devices)
        for start_s, finish_s, heard_s in [ahead.next(device)]
        if math.isfinite(finish_s)
    ]
    heapq.heapify(running)
    times: list[float] = []
    last = MAX_EVENTS if updates is None else max(1, math.ceil(updates / buffer_size))
    while len(times) < last:
        arrivals = []
        for _ in range(buffer_size):
            if not running:  # nobody comes back any more
                return
            now_s, device, version, start_s, heard_s = heapq.heappop(running)
            if horizon.duration_s is not None and now_s > horizon.duration_s:
                return
            version = bisect.bisect_right(times, heard_s) if version == UNKNOWN else version
            arrivals.append((device, version, int(ahead.training[device]), start_s, now_s))
            # The arrival that fills the buffer already sees the new version; earlier ones the version before it.
            newest = len(times) + (len(arrivals) == buffer_size)
            start_s, finish_s, heard_s = ahead.next(device)
            if math.isfinite(finish_s):
                version = UNKNOWN if heard_s > now_s else newest
                heapq.heappush(running, (finish_s, device, version, start_s, heard_s))
        yield now_s, Participants(*(np.array(column) for column in zip(*arrivals, strict=True)))
        times.append(now_s)


def share_ready(latencies: Latencies, *, share: float, updates: int | None, horizon: Horizon) -> Timeline:
    """An event as soon as `share` of the devices (rounded up) have finished; exactly they take part and get the new model.

    Of a fleet whose devices come and go: as soon as that share of those who are there has finished. Ends after the
    event that brings the arrivals to `updates`, or at the horizon's duration.
    """
    return Timeline.build(_share_ready(latencies, ShareReady(share), updates, horizon))


def _share_ready(
    latencies: Latencies, scheme: ShareReady, updates: int | None, horizon: Horizon
) -> Iterator[tuple[float, Participants]]:
    devices = Devices(latencies)
    arrived, now_s = 0, 0.0
    for _ in range(MAX_EVENTS):
        now_s, ready = next_share(latencies, scheme, devices.finish_s, now_s)
        if not len(ready) or (horizon.duration_s is not None and now_s > horizon.duration_s):
            return
        yield now_s, devices.take_part(ready, now_s)
        arrived += len(ready)
        if updates is not None and arrived >= updates:
            return


def next_share(
    latencies: Latencies, scheme: ShareReady, finish_s: NDArray[np.float64], since_s: float
) -> tuple[float, NDArray[np.int64]]:
    """The moment after `since_s` at which enough of those who are there have finished, and who they are.

    Nobody ever: an empty array.
    """
    comes = np.flatnonzero(np.isfinite(finish_s))  # whoever never finishes is not counted either
    ready_s = finish_s[comes]  # from when on each can take part
    missed = ready_s < since_s  # was away when the others sent
    ready_s[missed] = latencies.back_s(comes[missed], since_s)
    count = 1
    while len(comes):
        count = min(count, len(comes))
        now_s = float(np.partition(ready_s, count - 1)[count - 1])
        if not math.isfinite(now_s):
            comes, ready_s = comes[np.isfinite(ready_s)], ready_s[np.isfinite(ready_s)]
            continue
        done = np.flatnonzero(ready_s <= now_s)  # `count` of them, more where several finish at the same moment
        there = latencies.can_send(comes[done], now_s)
        needed = max(1, scheme.count(int((latencies.back_s(comes, now_s) <= now_s).sum())))
        if there.sum() >= needed:
            return now_s, comes[done[there]]
        ready_s[done[~there]] = latencies.back_s(comes[done[~there]], now_s)
        count = max(needed, int(there.sum()) + 1)
    return math.inf, comes


def grouped(
    latencies: Latencies, *, groups: int, updates: int | None, horizon: Horizon,
    members: list[NDArray[np.int64]] | None = None,
) -> Timeline:  # fmt: skip
    """Air-FedGA: synchronous inside a group, groups asynchronous: a group whose slowest member is done makes an event.

    Devices are grouped by the latency of their first training, the quickest together, in groups of (almost) equal size,
    unless `members` says who is in each. A group begins with those who are there. Ends after the event that brings the
    arrivals to `updates`, or at the horizon's duration.
    """
    if members is None:
        members = by_speed(latencies, min(groups, latencies.devices))
    return with_aborted(_grouped(latencies, members, updates, horizon))


def by_speed(latencies: Latencies, groups: int) -> list[NDArray[np.int64]]:
    """The members of each group, the quickest group first, by the latency of the first training."""
    everyone = np.arange(latencies.devices)
    order = np.argsort(latencies(everyone, np.zeros_like(everyone)), kind="stable")
    return [np.sort(part) for part in np.array_split(order, groups)]


def _grouped(
    latencies: Latencies, members: list[NDArray[np.int64]], updates: int | None, horizon: Horizon
) -> Iterator[tuple[float, Participants, Participants]]:
    training = np.zeros(latencies.devices, np.int64)
    running: list[tuple[float, int, int, Participants, NDArray[np.bool_]]] = []
    versions = Versions()

    def begin(group: int, now_s: float) -> None:
        start_s, there = _gather(latencies, members[group], now_s)
        finish_s = latencies.begin(there, training[there], start_s).finish_s if len(there) else np.zeros(0)
        end_s, counts = _end_of_round(latencies, there, np.ones(len(there), bool), start_s, finish_s, None)
        if math.isfinite(end_s):
            n, version = len(there), UNKNOWN if start_s > now_s else versions.count
            part = Participants(there, np.full(n, version), training[there], np.full(n, start_s), finish_s)
            # A tie in time goes to the lower group; the rest is never compared.
            heapq.heappush(running, (end_s, group, version, part, counts))

    for group in range(len(members)):
        begin(group, 0.0)
    arrived = 0
    while running:
        now_s, group, _, part, counts = heapq.heappop(running)
        if versions.count >= MAX_EVENTS or (horizon.duration_s is not None and now_s > horizon.duration_s):
            return
        part = part._replace(version=versions.known(part.version, part.start_s))
        yield now_s, part.only(counts), part.only(~counts)
        arrived += int(counts.sum())
        if updates is not None and arrived >= updates:
            return
        versions.add(now_s)
        training[part.device] += 1
        begin(group, now_s)


def _count(horizon: Horizon, period_s: float) -> int:
    if horizon.duration_s is None:
        return horizon.rounds or 0
    count = math.floor(horizon.duration_s / period_s + 1e-9)
    if count > MAX_EVENTS:
        raise UserError(f"duration_s / timing.period_s asks for {count:,} rounds; at most {MAX_EVENTS:,} are possible")
    return count if horizon.rounds is None else min(count, horizon.rounds)


def mean_ready(timeline: Timeline) -> int:
    """Mean number of devices an event, at least 1: the fair number of participants for a synchronous rival."""
    return max(1, round(float(timeline.ready.mean()))) if len(timeline) else 1
