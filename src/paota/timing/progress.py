"""Where every device of a timeline in the making stands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .latency import Latencies
from .timeline import Participants

UNKNOWN = -1  # the version of a device that gets its model later: the newest one by then


class Devices:
    """What every device is doing: which training, from which version, since when, until when. [K] each."""

    def __init__(self, latencies: Latencies) -> None:
        self.latencies = latencies
        self.training = np.zeros(latencies.devices, np.int64)
        self.versions = Versions()
        self.version = np.zeros(latencies.devices, np.int64)
        self.start_s = np.zeros(latencies.devices)
        self.finish_s = np.zeros(latencies.devices)
        self.heard_s = np.zeros(latencies.devices)
        self._begin(np.arange(latencies.devices), 0.0)

    def take_part(self, ready: NDArray[np.int64], now_s: float) -> Participants:
        """An event with these devices; they get the version that it makes, and begin again."""
        part = self._as_they_are(ready)
        self.versions.add(now_s)
        self._begin_again(ready, now_s)
        return part

    def abort(self, device: NDArray[np.int64], now_s: float) -> Participants:
        """These devices end what they are doing and begin again with the newest version; returns what they did."""
        ended = self._as_they_are(device)
        self._begin_again(device, now_s)
        return ended

    def _as_they_are(self, device: NDArray[np.int64]) -> Participants:
        version = self.versions.known(self.version[device], self.heard_s[device])
        return Participants(device, version, self.training[device], self.start_s[device], self.finish_s[device])

    def _begin_again(self, device: NDArray[np.int64], now_s: float) -> None:
        self.training[device] += 1
        self._begin(device, now_s)

    def _begin(self, device: NDArray[np.int64], now_s: float) -> None:
        begun = self.latencies.begin(device, self.training[device], now_s)
        self.start_s[device], self.finish_s[device], self.heard_s[device] = begun
        self.version[device] = np.where(begun.heard_s > now_s, UNKNOWN, self.versions.count)


class Versions:
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


class Ahead:
    """Devices that begin again as soon as they are done, whatever the others do: so their times can be made in advance.

    They are made for all devices that need them at once, since asking for one costs almost as much.
    """

    def __init__(self, latencies: Latencies) -> None:
        self.latencies = latencies
        self.training = np.full(latencies.devices, -1)  # that each device is in
        self._done_s = np.zeros(latencies.devices)
        self._made: dict[int, tuple[float, float, float]] = {}
        self._wanted = set(range(latencies.devices))

    def next(self, device: int) -> tuple[float, float, float]:
        """The next training of a device: (start_s, finish_s, heard_s)."""
        if device in self._wanted:
            who = np.array(sorted(self._wanted))
            begun = self.latencies.begin(who, self.training[who] + 1, self._done_s[who])
            self._made.update(zip(who.tolist(), zip(*(column.tolist() for column in begun), strict=True), strict=True))
            self._wanted.clear()
        made = self._made.pop(device)
        self.training[device] += 1
        self._done_s[device] = made[1]
        if np.isfinite(made[1]):
            self._wanted.add(device)
        return made
