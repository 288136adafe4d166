"""Timelines of the built-in schemes, made from latencies alone."""

from __future__ import annotations

from dataclasses import dataclass

from paota.timing import schemes
from paota.timing.latency import Latencies
from paota.timing.scheme import Scheme
from paota.timing.timeline import Horizon, Timeline
from paota.timing.virtual import TimelineInputs, make_timeline


@dataclass(frozen=True)
class WithUpdates(TimelineInputs):
    """Timeline inputs with a number of updates after which the scheme ends."""

    given: int | None = None

    def updates(self) -> int | None:
        return self.given


def timeline_of(scheme: Scheme, latencies: Latencies, horizon: Horizon, period_s: float = 8.0) -> Timeline:
    return make_timeline(scheme, TimelineInputs(latencies, period_s, horizon))


def _counted(scheme: Scheme, latencies: Latencies, updates: int | None, horizon: Horizon) -> Timeline:
    return make_timeline(scheme, WithUpdates(latencies, 8.0, horizon, given=updates))


def periodic(latencies: Latencies, *, period_s: float, horizon: Horizon) -> Timeline:
    return timeline_of(schemes.Periodic(), latencies, horizon, period_s)


def tiered(latencies: Latencies, *, period_s: float, horizon: Horizon) -> Timeline:
    return timeline_of(schemes.Tiered(), latencies, horizon, period_s)


def synchronous(latencies: Latencies, *, horizon: Horizon, **settings: float | None) -> Timeline:
    return timeline_of(schemes.Synchronous(**settings), latencies, horizon)  # type: ignore[arg-type]


def oldest_first(latencies: Latencies, *, participants: int, horizon: Horizon) -> Timeline:
    return timeline_of(schemes.OldestFirst(participants), latencies, horizon)


def buffered(latencies: Latencies, *, buffer_size: int, updates: int | None, horizon: Horizon) -> Timeline:
    return _counted(schemes.Buffered(buffer_size), latencies, updates, horizon)


def asynchronous(latencies: Latencies, *, updates: int | None, horizon: Horizon) -> Timeline:
    return _counted(schemes.Asynchronous(), latencies, updates, horizon)


def share_ready(latencies: Latencies, *, share: float, updates: int | None, horizon: Horizon) -> Timeline:
    return _counted(schemes.ShareReady(share), latencies, updates, horizon)


def grouped(latencies: Latencies, *, groups: int, updates: int | None, horizon: Horizon) -> Timeline:
    return _counted(schemes.Grouped(groups), latencies, updates, horizon)
