"""As a share of the devices is ready; and everybody begins anew at each event where that is quicker and leaves nobody out.

Trainings that are under way when a new model is made are stale when they end. To abort them all and begin again from the
newest model takes the delay away, and it is fair where every training draws a new latency: whoever is late now is early
another time. Where speeds persist, the same devices would be aborted for ever. Which world it is, the server can see
from how long trainings took (`Evidence`); until it knows, nobody is aborted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .latency import Latencies
from .schemes import MAX_EVENTS, ShareReady, World
from .timeline import Horizon, Participants, Timeline

Floats = NDArray[np.float64]
WATCHED = 1000  # devices, at most, whose latencies are looked at, spread evenly over the fleet
REMEMBERED = 10  # trainings of each: what is older may no longer be true
ENOUGH_PAIRS = 100  # of trainings of one device; then a correlation of 0.3 between them is three standard deviations
SUSPICION = 3.0  # standard deviations above chance


@dataclass(frozen=True)
class ShareReadyOrRestart(ShareReady):
    """As `ShareReady`; where latencies are drawn anew and it is quicker, an event at `restart_share` aborts the others.

    Everybody then begins again from the new model, and the next event has no stale update.
    """

    restart_share: float = 0.3

    def timeline(self, world: World) -> Timeline:
        events = list(_events(world.latencies, self, world.match_updates(), world.horizon))
        timeline = Timeline.build((now_s, counted) for now_s, counted, _ in events)
        aborted = Timeline.build((now_s, ended) for now_s, _, ended in events)
        return replace(timeline, aborted=aborted) if len(aborted.device) else timeline


def _events(
    latencies: Latencies, scheme: ShareReadyOrRestart, updates: int | None, horizon: Horizon
) -> Iterator[tuple[float, Participants, Participants]]:
    """(time, who takes part, who is aborted)."""
    everyone = np.arange(latencies.devices)
    counts = {False: scheme.count(len(everyone)), True: ShareReady(scheme.restart_share).count(len(everyone))}
    version = np.zeros(len(everyone), np.int64)
    training = np.zeros(len(everyone), np.int64)
    start_s = np.zeros(len(everyone))
    finish_s = latencies(everyone, training)
    evidence = Evidence(len(everyone), scheme.restart_share)
    arrived, restarting = 0, False
    for r in range(MAX_EVENTS):
        count = counts[restarting]
        now_s = float(np.partition(finish_s, count - 1)[count - 1])
        if horizon.duration_s is not None and now_s > horizon.duration_s:
            return
        ready = finish_s <= now_s  # `count` of them, more where several finish at the same moment
        evidence.add(ready, (finish_s - start_s)[ready], finished=True)
        restarting = evidence.favours_restarts(now_s, now_s - start_s, ~ready, restarting)
        aborted = ~ready & restarting
        evidence.add(aborted, (now_s - start_s)[aborted], finished=False)
        started = Participants(everyone, version.copy(), training.copy(), start_s.copy(), finish_s.copy())
        yield now_s, started.only(ready), started.only(aborted)
        arrived += int(ready.sum())
        if horizon.duration_s is None and updates is not None and arrived >= updates:
            return
        again = np.flatnonzero(ready | aborted)
        version[again] = r + 1
        training[again] += 1
        start_s[again] = now_s
        finish_s[again] = now_s + latencies(again, training[again])


class Evidence:
    """What the server has seen of the devices' latencies: the last trainings of each, finished or aborted."""

    def __init__(self, devices: int, restart_share: float) -> None:
        self.watched = np.unique(np.linspace(0, devices - 1, min(devices, WATCHED)).astype(np.int64))
        self.place = np.full(devices, -1)
        self.place[self.watched] = np.arange(len(self.watched))
        self.restart_share = restart_share
        self.age_s = np.full((len(self.watched), REMEMBERED), np.nan)  # how long each training took, or lasted
        self.finished = np.zeros((len(self.watched), REMEMBERED), bool)
        self.seen = np.zeros(len(self.watched), np.int64)
        self.arrivals = 0  # of watched devices
        self.turn_s = np.inf  # mean time between two arrivals of a device, while nobody was aborted

    def add(self, which: NDArray[np.bool_], age_s: Floats, *, finished: bool) -> None:
        """Trainings of the devices `which` [K] have ended after `age_s` [those]."""
        place = self.place[np.flatnonzero(which)]
        known, place = place >= 0, place[place >= 0]
        slot = self.seen[place] % REMEMBERED
        self.age_s[place, slot] = age_s[known]
        self.finished[place, slot] = finished
        self.seen[place] += 1
        self.arrivals += len(place) if finished else 0

    def favours_restarts(self, now_s: float, age_s: Floats, under_way: NDArray[np.bool_], restarting: bool) -> bool:
        """Whether everybody should begin anew; `age_s` [K] of the trainings `under_way` [K], `restarting`: as until now."""
        if not restarting:
            self.turn_s = now_s * len(self.watched) / max(self.arrivals, 1)
        known = np.minimum(self.seen, REMEMBERED)
        if self.arrivals < 2 * len(self.watched) or (known * (known - 1)).sum() < 2 * ENOUGH_PAIRS:
            return False
        going_on = np.where(under_way, age_s, np.nan)[self.watched, None]
        age = np.hstack([self.age_s, going_on])
        ended = np.hstack([self.finished, np.zeros_like(going_on, bool)])
        survival = Survival(age[~np.isnan(age)], ended[~np.isnan(age)])
        quicker = survival.quantile(self.restart_share) < self.turn_s
        return quicker and persistence(survival.scores(age, ended)) < SUSPICION


class Survival:
    """Kaplan and Meier's estimate of the share of trainings that last longer than t, aborted ones included."""

    def __init__(self, age_s: Floats, finished: NDArray[np.bool_]) -> None:
        self.at_s, ends = np.unique(age_s[finished], return_counts=True)
        at_risk = len(age_s) - np.searchsorted(np.sort(age_s), self.at_s, side="left")
        self.after = np.concatenate([[1.0], np.cumprod(1 - ends / at_risk)])  # 1, then behind each of `at_s`

    def quantile(self, share: float) -> float:
        """Seconds after which a share of all trainings is over; infinite if that has not been seen."""
        over = np.flatnonzero(1 - self.after[1:] >= share - 1e-9)
        return float(self.at_s[over[0]]) if len(over) else np.inf

    def scores(self, age_s: Floats, finished: NDArray[np.bool_]) -> Floats:
        """Prentice's Wilcoxon scores: 1 for the quickest training, -1 for the slowest, 0 on average; 0 where age is NaN."""
        after = self.after[np.searchsorted(self.at_s, age_s, side="right")]
        before = self.after[np.searchsorted(self.at_s, age_s, side="left")]
        return np.where(np.isnan(age_s), 0.0, np.where(finished, before + after - 1, after - 1))


def persistence(scores: Floats) -> float:
    """How far the scores [devices, trainings] of one device resemble each other: in standard deviations above chance.

    The sum of the products of all pairs of trainings of one device. Where every training draws a new latency its mean
    is 0 and its variance twice the sum of the squared products.
    """
    total, square, fourth = (np.sum(scores**power, axis=1) for power in (1, 2, 4))
    variance = 2 * np.sum(square**2 - fourth)
    return float(np.sum(total**2 - square) / np.sqrt(variance)) if variance > 0 else 0.0
