"""PAOTA+'s scheme: the server waits for the first devices to finish, and restarts the others unless they are slow.

A training that is under way when a new model is made is late when it ends. The server therefore aborts it and restarts the
device from the new model. This is fair if every training draws a new latency: a device that is late now is early another
time. A device that is hardly ever among the first is *slow*: its trainings continue, and join a later event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..base.types import Bools, Floats
from .scheme import Devices, Scheme, Server, Steps, Wait, share_of

REMEMBERED_TRAININGS = 20  # per device; older ones may no longer be representative
REMEMBERED_EVENTS = 10
FIRST_SHARE = 0.2  # of all devices that the first event waits for
GROWTH = 1.5  # largest factor by which the number of awaited devices grows from one event to the next
PATIENCE = 4.0  # misses in a row, times the mean chance, after which a device is slow in any case
SLOW = 0.7  # a device is slow if its chance to be among the first is below this share of the mean chance


@dataclass(frozen=True)
class FirstToFinish(Scheme):
    """Aggregate as soon as m devices that began from the newest model have finished; restart all others but slow ones.

    m makes m / (m + `noise`) per second largest, by the observed times of the first m trainings (`Arrivals`).

    Args:
        noise: the number of devices whose mean update holds as much noise as signal.
    """

    counts_updates: ClassVar[bool] = True
    noise: float = 12.0

    def records(self, devices: int) -> tuple[Punctuality, Arrivals]:
        """Return the empty records of a server.

        Args:
            devices: K.
        """
        return Punctuality(devices), Arrivals(devices, self.noise)

    def run(self, server: Server) -> Steps:
        punctuality, arrivals = self.records(server.devices)
        awaited = np.ones(server.devices, bool)  # devices that began from the newest model and are not slow
        server.start(server.everyone)
        while True:
            begin_s = server.now_s
            ready = yield Wait(share=arrivals.best() / server.devices, of=np.flatnonzero(awaited))
            under_way = server.under_way
            under_way = under_way.only(under_way.start_s < server.now_s)  # the others start from the new model anyway
            fresh, missed = ready.version == server.round, under_way.version == server.round
            punctuality.add(ready.device[fresh], under_way.device[missed], ready.device[~fresh])
            arrivals.add(np.sort(ready.finish_s[fresh & awaited[ready.device]]) - begin_s)
            slow = punctuality.slow()
            ended = under_way.device[~slow[under_way.device]]
            starts = np.concatenate([ready.device, ended])
            awaited[under_way.device] = False
            awaited[starts] = ~slow[starts]
            server.abort(ended)
            server.aggregate(ready)
            server.start(starts)


class Arrivals:
    """The times of the arrivals in the last events, and the number m of devices that is best to wait for."""

    def __init__(self, devices: int, noise: float) -> None:
        self.devices, self.noise = devices, noise
        self.after_s: list[Floats] = []  # of each event: seconds from its start to its arrivals, sorted

    def add(self, after_s: Floats) -> None:
        """Record the arrivals of an event.

        Args:
            after_s: seconds from the start of the event to each arrival, sorted, [n].
        """
        if len(after_s):
            self.after_s = [*self.after_s[1 - REMEMBERED_EVENTS :], after_s]

    def best(self) -> int:
        """Return the m with the least q(m) (1 + noise / m), where q(m) is the mean time to the m-th arrival."""
        if not self.after_s:
            return share_of(FIRST_SHARE, self.devices)
        m = np.arange(1, min(self.devices, math.ceil(GROWTH * len(self.after_s[-1]))) + 1)
        q_s = np.mean([extended(after_s, len(m)) for after_s in self.after_s], axis=0)
        return int(m[np.argmin(q_s * (1 + self.noise / m))])


def extended(after_s: Floats, count: int) -> Floats:
    """Return the first `count` arrivals; those after the known ones continue at the mean pace of their second half.

    Args:
        after_s: known arrivals, sorted, [n].
        count: number of arrivals to return.
    """
    known, half = len(after_s), len(after_s) // 2
    pace_s = (after_s[-1] - after_s[half]) / (known - 1 - half) if known > 2 else after_s[-1]
    return np.concatenate([after_s, after_s[-1] + pace_s * np.arange(1, count - known + 1)])[:count]


class Punctuality:
    """The server's record of the last trainings of each device: whether they had finished at the event after their start."""

    def __init__(self, devices: int) -> None:
        self.first = np.zeros((devices, REMEMBERED_TRAININGS), bool)
        self.seen = np.zeros(devices, np.int64)
        self.missed = np.zeros(devices, np.int64)  # trainings in a row that had not finished at the next event

    def add(self, first: Devices, missed: Devices, late: Devices) -> None:
        """Record the trainings that an event ends or passes.

        Args:
            first: devices that have finished at the first event after the start of their training, [n].
            missed: devices that have not, at that event, [m].
            late: devices that finished later, [l]. Half of their misses are forgotten: a device may look slow by chance.
        """
        for device, was_first in ((first, True), (missed, False)):
            self.first[device, self.seen[device] % REMEMBERED_TRAININGS] = was_first
            self.seen[device] += 1
            self.missed[device] = 0 if was_first else self.missed[device] + 1
        self.missed[late] //= 2

    def slow(self) -> Bools:
        """Return whether each device is slow, [K], by an empirical-Bayes estimate of its chance to be among the first.

        The chances follow a beta law whose mean and variance come from the records of all devices (method of moments). A
        device's estimate is its posterior mean. The record shows slow devices only if the variance exceeds chance by a
        standard error. A device that misses every event is slow in any case, after `PATIENCE` over the mean chance.
        """
        n, h = np.minimum(self.seen, REMEMBERED_TRAININGS).astype(float), self.first.sum(axis=1).astype(float)
        pairs = np.sum(n * (n - 1))
        mean = h.sum() / max(n.sum(), 1)
        chance = mean * (1 - mean)
        variance = np.sum(h * (h - 1)) / max(pairs, 1) - mean**2 - chance * np.sqrt(2 / max(pairs, 1))
        never = self.missed * mean >= PATIENCE  # a few devices hardly change the variance, and would not be found
        if variance <= 0:
            return never
        c = max(chance / variance - 1, 0.01)  # a + b of the beta law
        return never | ((c * mean + h) / (c + n) < SLOW * mean)
