"""Synchronous rounds of the devices that have not been heard for longest."""

from __future__ import annotations

import math
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
    """Every round the `participants` devices that have waited longest start, of those who are there; ties by lot.

    All of them are waited for, but nobody who is away when the others are done.
    """
    return Timeline.build(_oldest_first(latencies, participants, horizon))


def _oldest_first(latencies: Latencies, participants: int, horizon: Horizon) -> Iterator[tuple[float, Participants]]:
    everyone = np.arange(latencies.devices)
    age = np.zeros(latencies.devices, np.int64)
    training = np.zeros(latencies.devices, np.int64)
    now_s = 0.0
    for r in range(horizon.rounds if horizon.rounds is not None else MAX_EVENTS):
        back_s = latencies.back_s(everyone, now_s)
        start_s = max(now_s, float(back_s.min()))
        if not math.isfinite(start_s):
            return
        lot = host_rng(latencies.seed, Purpose.SELECTION, r).permutation(latencies.devices)
        order = np.lexsort((lot, -age))
        chosen = np.sort(order[back_s[order] <= start_s][:participants])
        finish_s = latencies.begin(chosen, training[chosen], start_s).finish_s
        now_s = float(finish_s[np.isfinite(finish_s)].max(initial=-math.inf))
        if not start_s < now_s <= (math.inf if horizon.duration_s is None else horizon.duration_s):
            return
        n = len(chosen)
        started = Participants(chosen, np.full(n, r), training[chosen], np.full(n, start_s), finish_s)
        counted = started.only(np.isfinite(finish_s) & latencies.can_send(chosen, now_s))
        yield now_s, counted
        training[chosen] += 1
        age += 1
        age[counted.device] = 0
