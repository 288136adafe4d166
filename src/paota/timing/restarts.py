"""PAOTA+'s scheme: the server waits for a share of the devices, and restarts all devices where that is quicker and fair.

Trainings that are under way when a new model is made are stale when they end. Aborting them and restarting all devices
from the newest model avoids the staleness. This is fair if every training draws a new latency: a device that is late now
is early another time. If speeds persist, the same devices are aborted every time. The server decides from the durations
of past trainings (`Evidence`); until it knows, it aborts no training.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..base.types import Bools, Floats, Ints
from .scheme import Server, Steps, Wait
from .schemes import ShareReady

WATCHED = 1000  # largest number of devices whose latencies are recorded, spread evenly over all devices
REMEMBERED = 10  # number of recorded trainings per device; older ones may no longer be representative
ENOUGH_KNOWN = 0.9  # no restarts before two trainings of this share of the devices are known
ENOUGH_PAIRS = 100  # pairs of trainings of one device; a correlation of 0.3 is then three standard deviations
SUSPICION = 3.0  # correlation, in standard deviations above chance, from which on speeds count as persistent


@dataclass(frozen=True)
class ShareReadyOrRestart(ShareReady):
    """`ShareReady`, with restarts: if it is quicker and fair, aggregate at `restart_share` and abort the other trainings.

    All devices then start from the new model, and the next aggregation has no stale update. With `restart_share` None,
    the scheme is `ShareReady`.
    """

    restart_share: float | None = 0.3

    def run(self, server: Server) -> Steps:
        if self.restart_share is None:
            yield from super().run(server)
            return
        evidence, restarting = Evidence(server.devices, self.restart_share), False
        server.start(server.everyone)
        while True:
            ready = yield Wait(share=self.restart_share if restarting else self.share)
            evidence.add(ready.device, ready.finish_s - ready.start_s, finished=True)
            under_way = server.under_way
            age_s = server.now_s - under_way.start_s
            begun = age_s > 0
            restarting = evidence.favours_restarts(server.now_s, under_way.device[begun], age_s[begun], restarting)
            ended = under_way.device[begun] if restarting else under_way.device[:0]
            evidence.add(ended, age_s[begun][: len(ended)], finished=False)
            server.abort(ended)
            server.aggregate(ready)
            server.start(np.concatenate([ready.device, ended]))


class Evidence:
    """The server's record of latencies: the last trainings of each watched device, finished or aborted."""

    def __init__(self, devices: int, restart_share: float) -> None:
        self.watched = np.unique(np.linspace(0, devices - 1, min(devices, WATCHED)).astype(np.int64))
        self.place = np.full(devices, -1)
        self.place[self.watched] = np.arange(len(self.watched))
        self.restart_share = restart_share
        self.age_s = np.full((len(self.watched), REMEMBERED), np.nan)  # duration of each training until its end
        self.finished = np.zeros((len(self.watched), REMEMBERED), bool)
        self.seen = np.zeros(len(self.watched), np.int64)
        self.arrivals = 0  # of watched devices
        self.turn_s = np.inf  # mean time between two arrivals of a device without restarts

    def add(self, device: Ints, age_s: Floats, *, finished: bool) -> None:
        """Record that trainings of these devices [n] ended after `age_s` [n]."""
        place = self.place[device]
        known, place = place >= 0, place[place >= 0]
        slot = self.seen[place] % REMEMBERED
        self.age_s[place, slot] = age_s[known]
        self.finished[place, slot] = finished
        self.seen[place] += 1
        self.arrivals += len(place) if finished else 0

    def favours_restarts(self, now_s: float, under_way: Ints, age_s: Floats, restarting: bool) -> bool:
        """Return whether all devices should restart.

        Args:
            now_s: the time.
            under_way: devices whose trainings a restart would abort, [n].
            age_s: time since the start of these trainings, [n].
            restarting: the last decision.
        """
        if not restarting:
            self.turn_s = now_s * len(self.watched) / max(self.arrivals, 1)
        known = np.minimum(self.seen, REMEMBERED)
        if (known >= 2).mean() < ENOUGH_KNOWN or (known * (known - 1)).sum() < 2 * ENOUGH_PAIRS:
            return False
        going_on = np.full((len(self.watched), 1), np.nan)
        place = self.place[under_way]
        going_on[place[place >= 0], 0] = age_s[place >= 0]
        age = np.hstack([self.age_s, going_on])
        ended = np.hstack([self.finished, np.zeros_like(going_on, bool)])
        survival = Survival(age[~np.isnan(age)], ended[~np.isnan(age)])
        quicker = survival.quantile(self.restart_share) < self.turn_s
        return quicker and persistence(survival.scores(age, ended)) < SUSPICION


class Survival:
    """The Kaplan-Meier estimate of the share of trainings that last longer than t; aborted trainings are censored."""

    def __init__(self, age_s: Floats, finished: Bools) -> None:
        self.at_s, ends = np.unique(age_s[finished], return_counts=True)
        at_risk = len(age_s) - np.searchsorted(np.sort(age_s), self.at_s, side="left")
        self.after = np.concatenate([[1.0], np.cumprod(1 - ends / at_risk)])  # 1, then the share after each of `at_s`

    def quantile(self, share: float) -> float:
        """Return the seconds after which a share of all trainings is over; infinite if not observed."""
        over = np.flatnonzero(1 - self.after[1:] >= share - 1e-9)
        return float(self.at_s[over[0]]) if len(over) else np.inf

    def scores(self, age_s: Floats, finished: Bools) -> Floats:
        """Return Prentice's Wilcoxon scores: 1 for the quickest training, -1 for the slowest, mean 0; 0 where age is NaN."""
        after = self.after[np.searchsorted(self.at_s, age_s, side="right")]
        before = self.after[np.searchsorted(self.at_s, age_s, side="left")]
        return np.where(np.isnan(age_s), 0.0, np.where(finished, before + after - 1, after - 1))


def persistence(scores: Floats) -> float:
    """Return the correlation between trainings of one device, in standard deviations above chance.

    The statistic is the sum of the products of all pairs of trainings of one device. If every training draws a new
    latency, its mean is 0 and its variance is twice the sum of the squared products.

    Args:
        scores: [devices, trainings].
    """
    total, square, fourth = (np.sum(scores**power, axis=1) for power in (1, 2, 4))
    variance = 2 * np.sum(square**2 - fourth)
    return float(np.sum(total**2 - square) / np.sqrt(variance)) if variance > 0 else 0.0
