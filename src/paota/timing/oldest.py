"""Synchronous rounds of the devices that have not been heard for longest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..rng import Purpose, host_rng
from .latency import Latencies
from .schemes import MAX_EVENTS, Scheme, World
from .timeline import Horizon, Participants, Timeline


@dataclass(frozen=True)
class OldestFirst(Scheme):
    """Rounds with a common start, of the `participants` devices of the greatest age; None: PAOTA's mean number of ready ones."""

    participants: int | None = None

    def busy_at_once(self, world: World) -> int:
        return min(self.participants or world.match_participants(), world.latencies.devices)

    def timeline(self, world: World) -> Timeline:
        return oldest_first(world.latencies, participants=self.busy_at_once(world), horizon=world.horizon)


def oldest_first(latencies: Latencies, *, participants: int, horizon: Horizon) -> Timeline:
    """Every round the `participants` devices that have waited longest start, and all of them are waited for; ties by lot."""
    return Timeline.build(_oldest_first(latencies, participants, horizon))


def _oldest_first(latencies: Latencies, participants: int, horizon: Horizon) -> Iterator[tuple[float, Participants]]:
    age = np.zeros(latencies.devices, np.int64)
    training = np.zeros(latencies.devices, np.int64)
    now_s = 0.0
    for r in range(horizon.rounds if horizon.rounds is not None else MAX_EVENTS):
        lot = host_rng(latencies.seed, Purpose.SELECTION, r).permutation(latencies.devices)
        chosen = np.sort(np.lexsort((lot, -age))[:participants])
        start_s, finish_s = now_s, now_s + latencies(chosen, training[chosen])
        now_s = float(finish_s.max())
        if horizon.duration_s is not None and now_s > horizon.duration_s:
            return
        n = len(chosen)
        yield now_s, Participants(chosen, np.full(n, r), training[chosen], np.full(n, start_s), finish_s)
        training[chosen] += 1
        age += 1
        age[chosen] = 0
