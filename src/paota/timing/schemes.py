"""The aggregation schemes of the field: who takes part when. An algorithm declares one; it makes the timeline."""

from __future__ import annotations

import abc
import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..rng import Purpose, host_rng
from .latency import Latencies
from .timeline import Horizon, Participants, Timeline

MAX_EVENTS = 10_000_000


@dataclass(frozen=True)
class World:
    """What a timeline is made from. Every algorithm of one experiment and seed gets the same latencies."""

    latencies: Latencies  # with the upload behind each training, where the uplink is digital and not ideal
    period_s: float
    horizon: Horizon
    computing: Latencies | None = None  # without uploads, where that differs
    label_counts: NDArray[np.int64] | None = None  # samples of each label on each device, [K, C], where they are known

    def match_participants(self) -> int:
        """As many devices a round as PAOTA has ready on average: the paper's fairness rule."""
        return mean_ready(periodic(self.computing or self.latencies, period_s=self.period_s, horizon=self.horizon))

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
    everyone = np.arange(latencies.devices)
    version = np.zeros(latencies.devices, np.int64)
    training = np.zeros(latencies.devices, np.int64)
    start_s = np.zeros(latencies.devices)
    finish_s = latencies(everyone, training)  # round 0 broadcasts to all
    for r in range(_count(horizon, period_s)):
        deadline_s = (r + 1) * period_s
        # "at or before the deadline" must survive rounding: (r+1)*dT and a sum of latencies differ in the last bit.
        ready = np.flatnonzero((finish_s <= deadline_s + 1e-9 * period_s) & ((r + 1) % tier == 0))
        yield deadline_s, Participants(ready, version[ready], training[ready], start_s[ready], finish_s[ready])
        version[ready] = r + 1
        training[ready] += 1
        start_s[ready] = deadline_s
        finish_s[ready] = deadline_s + latencies(ready, training[ready])


def synchronous(
    latencies: Latencies, *, participants: int, horizon: Horizon, selected: int | None = None,
    deadline_s: float | None = None,
) -> Timeline:  # fmt: skip
    """Local SGD, COTAF: each round draws `selected` devices (default: `participants`), and the first `participants` of
    them to finish count, or whoever has finished after `deadline_s`. The others abort.
    """
    rounds = list(_synchronous(latencies, participants, selected or participants, deadline_s, horizon))
    timeline = Timeline.build((now_s, counted) for now_s, counted, _ in rounds)
    aborted = Timeline.build((now_s, ended) for now_s, _, ended in rounds)
    return replace(timeline, aborted=aborted) if len(aborted.device) else timeline


def _synchronous(
    latencies: Latencies, participants: int, selected: int, deadline_s: float | None, horizon: Horizon
) -> Iterator[tuple[float, Participants, Participants]]:
    """(end of the round, who counts, who aborts)."""
    training = np.zeros(latencies.devices, np.int64)
    now_s = 0.0
    for r in range(horizon.rounds if horizon.rounds is not None else MAX_EVENTS):
        rng = host_rng(latencies.seed, Purpose.SELECTION, r)
        chosen = np.sort(rng.choice(latencies.devices, selected, replace=False))
        start_s = np.full(selected, now_s)
        finish_s = now_s + latencies(chosen, training[chosen])
        counts = np.zeros(selected, bool)
        counts[np.argsort(finish_s, kind="stable")[:participants]] = True
        end_s = float(finish_s[counts].max())
        if deadline_s is not None and end_s > now_s + deadline_s:
            end_s = now_s + deadline_s
            counts &= finish_s <= end_s
        now_s = end_s
        if horizon.duration_s is not None and now_s > horizon.duration_s:
            return
        started = Participants(chosen, np.full(selected, r), training[chosen], start_s, finish_s)
        yield now_s, started.only(counts), started.only(~counts)
        training[chosen] += 1


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
    everyone = np.arange(latencies.devices)
    training = np.zeros(latencies.devices, np.int64)
    first = latencies(everyone, training)
    running = [(finish_s, device, 0, 0.0) for device, finish_s in enumerate(first.tolist())]
    heapq.heapify(running)
    events = 0
    last = MAX_EVENTS if horizon.duration_s is not None or updates is None else max(1, math.ceil(updates / buffer_size))
    while events < last:
        arrivals = []
        for _ in range(buffer_size):
            now_s, device, version, start_s = heapq.heappop(running)
            if horizon.duration_s is not None and now_s > horizon.duration_s:
                return
            arrivals.append((device, version, int(training[device]), start_s, now_s))
            training[device] += 1
            # The arrival that fills the buffer already sees the new version; earlier ones the version before it.
            newest = events + (len(arrivals) == buffer_size)
            again = latencies(np.array([device]), training[[device]])[0]
            heapq.heappush(running, (now_s + float(again), device, newest, now_s))
        yield now_s, Participants(*(np.array(column) for column in zip(*arrivals, strict=True)))
        events += 1


def share_ready(latencies: Latencies, *, share: float, updates: int | None, horizon: Horizon) -> Timeline:
    """An event as soon as `share` of the devices (rounded up) have finished; exactly they take part and get the new model.

    Ends after the event that brings the arrivals to `updates`, or at the horizon's duration.
    """
    count = ShareReady(share).count(latencies.devices)
    return Timeline.build(_share_ready(latencies, count, updates, horizon))


def _share_ready(
    latencies: Latencies, count: int, updates: int | None, horizon: Horizon
) -> Iterator[tuple[float, Participants]]:
    everyone = np.arange(latencies.devices)
    version = np.zeros(latencies.devices, np.int64)
    training = np.zeros(latencies.devices, np.int64)
    start_s = np.zeros(latencies.devices)
    finish_s = latencies(everyone, training)
    arrived = 0
    for r in range(MAX_EVENTS):
        now_s = float(np.partition(finish_s, count - 1)[count - 1])
        if horizon.duration_s is not None and now_s > horizon.duration_s:
            return
        ready = np.flatnonzero(finish_s <= now_s)  # `count` of them, more where several finish at the same moment
        yield now_s, Participants(ready, version[ready], training[ready], start_s[ready], finish_s[ready])
        arrived += len(ready)
        if horizon.duration_s is None and updates is not None and arrived >= updates:
            return
        version[ready] = r + 1
        training[ready] += 1
        start_s[ready] = now_s
        finish_s[ready] = now_s + latencies(ready, training[ready])


def grouped(
    latencies: Latencies, *, groups: int, updates: int | None, horizon: Horizon,
    members: list[NDArray[np.int64]] | None = None,
) -> Timeline:  # fmt: skip
    """Air-FedGA: synchronous inside a group, groups asynchronous: a group whose slowest member is done makes an event.

    Devices are grouped by the latency of their first training, the quickest together, in groups of (almost) equal size,
    unless `members` says who is in each.
    Ends after the event that brings the arrivals to `updates`, or at the horizon's duration.
    """
    if members is None:
        members = by_speed(latencies, min(groups, latencies.devices))
    return Timeline.build(_grouped(latencies, members, updates, horizon))


def by_speed(latencies: Latencies, groups: int) -> list[NDArray[np.int64]]:
    """The members of each group, the quickest group first, by the latency of the first training."""
    everyone = np.arange(latencies.devices)
    order = np.argsort(latencies(everyone, np.zeros_like(everyone)), kind="stable")
    return [np.sort(part) for part in np.array_split(order, groups)]


def _grouped(
    latencies: Latencies, members: list[NDArray[np.int64]], updates: int | None, horizon: Horizon
) -> Iterator[tuple[float, Participants]]:
    everyone = np.arange(latencies.devices)
    training = np.zeros(latencies.devices, np.int64)
    first_s = latencies(everyone, training)
    running = [(float(first_s[part].max()), group, 0, 0.0, first_s[part]) for group, part in enumerate(members)]
    heapq.heapify(running)  # a tie in time goes to the lower group; the rest is never compared
    arrived = 0
    for event in range(MAX_EVENTS):
        now_s, group, version, start_s, finish_s = heapq.heappop(running)
        if horizon.duration_s is not None and now_s > horizon.duration_s:
            return
        part = members[group]
        n = len(part)
        yield now_s, Participants(part, np.full(n, version), training[part], np.full(n, start_s), finish_s)
        arrived += n
        if horizon.duration_s is None and updates is not None and arrived >= updates:
            return
        training[part] += 1
        again_s = now_s + latencies(part, training[part])
        heapq.heappush(running, (float(again_s.max()), group, event + 1, now_s, again_s))


def _count(horizon: Horizon, period_s: float) -> int:
    if horizon.duration_s is None:
        return horizon.rounds or 0
    count = math.floor(horizon.duration_s / period_s + 1e-9)
    if count > MAX_EVENTS:
        raise UserError(f"duration_s / timing.period_s asks for {count:,} rounds; at most {MAX_EVENTS:,} are possible")
    return count


def mean_ready(timeline: Timeline) -> int:
    """Mean number of devices an event, at least 1: the fair number of participants for a synchronous rival."""
    return max(1, round(float(timeline.ready.mean()))) if len(timeline) else 1
