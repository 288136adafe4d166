"""The one event structure behind every scheme: a sequence of aggregations and who takes part in each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Trainings(NamedTuple):
    """Local trainings, one entry each: of one event, or those that a scheme is handed."""

    device: NDArray[np.int64]
    version: NDArray[np.int64]  # of the global model each of them started from
    training: NDArray[np.int64]  # how many local trainings the device had begun before this one
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    group: int = 0  # which of the groups that a scheme waited for

    def only(self, which: NDArray[np.bool_]) -> Trainings:
        """Those for which `which` is true."""
        columns = (self.device, self.version, self.training, self.start_s, self.finish_s)
        return Trainings._make([*(column[which] for column in columns), self.group])


COLUMNS = dict(zip(Trainings._fields[:-1], "qqqdd", strict=True))  # and their types: integers and floats of 64 bits


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """When an experiment ends: after so many rounds, or at a simulated time that is the same for everybody.

    With both: at the first of them.
    """

    rounds: int | None = 100
    duration_s: float | None = None


@dataclass(frozen=True)
class Timeline:
    """E aggregation events; event e turns model version e into version e+1 at `time_s[e]`.

    The participants of event e are the slice `offsets[e]:offsets[e + 1]` of the flat arrays.
    """

    time_s: NDArray[np.float64]  # [E]
    offsets: NDArray[np.int64]  # [E+1]
    device: NDArray[np.int64]
    version: NDArray[np.int64]
    training: NDArray[np.int64]
    start_s: NDArray[np.float64]
    finish_s: NDArray[np.float64]
    lost: NDArray[np.int64] | None = None  # updates an event lost to faults or held back, [E]
    aborted: Timeline | None = (
        None  # the same events, with the trainings that each ended; `finish_s`: when they would have
    )
    first: int = 0  # the number of its first event, of a `part`
    group: NDArray[np.int64] | None = None  # whose event it is, [E], where the scheme numbers its groups

    @classmethod
    def build(cls, events: Iterable[tuple[float, Trainings]]) -> Timeline:
        """From (time, participants) of every event, in order."""
        made = Builder()
        for time_s, participants in events:
            made.add(time_s, participants)
        return made.timeline()

    def __len__(self) -> int:
        return len(self.time_s)

    def part(self, first: int, events: int) -> Timeline:
        """The events `first`, `first` + 1, ... alone; events and versions keep their numbers."""
        offsets = self.offsets[first : first + events + 1]
        flat = slice(offsets[0], offsets[-1])
        return Timeline(
            time_s=self.time_s[first : first + events],
            offsets=offsets - offsets[0],
            device=self.device[flat],
            version=self.version[flat],
            training=self.training[flat],
            start_s=self.start_s[flat],
            finish_s=self.finish_s[flat],
            lost=None if self.lost is None else self.lost[first : first + events],
            aborted=None if self.aborted is None else self.aborted.part(first, events),
            first=self.first + first,
            group=None if self.group is None else self.group[first : first + events],
        )

    def without_broadcasts(
        self, missed: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
    ) -> Timeline:
        """The timeline as it goes where broadcasts get lost: a device that misses one trains on from the newest version
        that it has heard, which is that of the training before, or of the one before that. Its first one always arrives.

        Args:
            missed: whether the broadcast for the given (device [n], training [n]) is missed, [n].
        """
        parts = (
            [self] if self.aborted is None else [self, self.aborted]
        )  # an aborted training has heard its broadcast too
        device, training, version = (
            np.concatenate([getattr(part, name) for part in parts]) for name in ("device", "training", "version")
        )
        order = np.lexsort((training, device))
        first = np.diff(device[order], prepend=-1) != 0
        # Position of the newest training, at or before each, whose broadcast arrived.
        arrived = np.where(~missed(device, training)[order] | first, np.arange(len(order)), 0)
        heard = np.empty_like(version)
        heard[order] = version[order][np.maximum.accumulate(arrived)] if len(order) else version
        return replace(self, version=heard[: len(self.device)])

    @property
    def ready(self) -> NDArray[np.int64]:
        """Number of participants of each event, [E]."""
        return np.diff(self.offsets)

    @property
    def event(self) -> NDArray[np.int64]:
        """Event number of each flat entry."""
        return np.repeat(self.first + np.arange(len(self), dtype=np.int64), self.ready)

    @property
    def staleness(self) -> NDArray[np.int64]:
        """s_k of each flat entry: how many aggregations the device's start version is behind."""
        return self.event - self.version

    @property
    def max_staleness(self) -> int:
        return int(self.staleness.max(initial=0))


class Builder:
    """A timeline in the making, event by event, in little more memory than it takes in the end."""

    def __init__(self) -> None:
        self._time_s, self._ready = array("d"), array("q")
        self._flat = {name: array(code) for name, code in COLUMNS.items()}

    def add(self, time_s: float, trainings: Trainings) -> None:
        """Add the next event."""
        self._time_s.append(time_s)
        self._ready.append(len(trainings.device))
        for column, values in zip(self._flat.values(), trainings, strict=False):
            column.frombytes(np.asarray(values, column.typecode).tobytes())

    def timeline(self) -> Timeline:
        """All of it. The builder is empty then."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(self._ready, np.int64))])
        flat: dict[str, Any] = {name: np.array(self._flat.pop(name)) for name in COLUMNS}
        return Timeline(time_s=np.array(self._time_s), offsets=offsets, **flat)
