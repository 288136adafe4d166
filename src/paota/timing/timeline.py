"""The event structure behind every scheme: a sequence of aggregations with the participants of each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..base.types import Bools, Floats, Ints, NumPyArray


class Trainings(NamedTuple):
    """Local trainings, one entry each: the participants of an event, or the answer to a scheme's wait.

    Args:
        device: number of the device, [n].
        start_s: start in simulated seconds, [n].
        finish_s: end in simulated seconds, [n].
    """

    device: Ints
    version: Ints  # version of the global model that the training started from
    training: Ints  # number of local trainings that the device began before this one
    start_s: Floats
    finish_s: Floats
    group: int = 0  # index of the group that a scheme waited for

    def only(self, which: Bools) -> Trainings:
        """Return the trainings for which `which` [n] is true."""
        return Trainings._make([*(getattr(self, name)[which] for name in COLUMNS), self.group])


COLUMNS = dict(zip(Trainings._fields[:-1], "qqqdd", strict=True))  # with their types: 64-bit integers and floats


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """The end of an experiment: a number of rounds, a simulated time, or the earlier of both."""

    rounds: int | None = 100
    duration_s: float | None = None


@dataclass(frozen=True)
class Timeline:
    """E aggregation events; event e turns model version e into version e+1 at `time_s[e]`.

    The participants of event e are the slice `offsets[e]:offsets[e + 1]` of the flat arrays.
    """

    time_s: Floats  # [E]
    offsets: Ints  # [E+1]
    device: Ints
    version: Ints
    training: Ints
    start_s: Floats
    finish_s: Floats
    lost: Ints | None = None  # updates that each event lost to faults or to guards, [E]
    aborted: Timeline | None = None  # the same events, with the trainings that each aborted; `finish_s`: planned end
    first: int = 0  # number of the first event, in a `part`
    group: Ints | None = None  # group of each event, [E], if the scheme numbers its groups

    @classmethod
    def build(cls, events: Iterable[tuple[float, Trainings]]) -> Timeline:
        """Return the timeline of these events, each a (time, participants), in order."""
        made = Builder()
        for time_s, participants in events:
            made.add(time_s, participants)
        return made.timeline()

    def __len__(self) -> int:
        return len(self.time_s)

    def part(self, first: int, events: int) -> Timeline:
        """Return the `events` events from event `first` on; events and versions keep their numbers."""
        offsets = self.offsets[first : first + events + 1]
        chosen = slice(first, first + events)
        columns = {name: getattr(self, name)[offsets[0] : offsets[-1]] for name in COLUMNS}
        return Timeline(
            time_s=self.time_s[chosen],
            offsets=offsets - offsets[0],
            lost=None if self.lost is None else self.lost[chosen],
            aborted=None if self.aborted is None else self.aborted.part(first, events),
            first=self.first + first,
            group=None if self.group is None else self.group[chosen],
            **columns,
        )

    def without_broadcasts(self, missed: Callable[[Ints, Ints], Bools]) -> Timeline:
        """Return the timeline with lost broadcasts.

        A device that misses a broadcast trains from the newest version that it has received: the version of its last
        training whose broadcast arrived. The first broadcast of a device always arrives.

        Args:
            missed: a function that returns whether the broadcast for (device [n], training [n]) is missed, [n].
        """
        parts = [self] if self.aborted is None else [self, self.aborted]  # aborted trainings receive broadcasts, too
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
    def ready(self) -> Ints:
        """Number of participants of each event, [E]."""
        return np.diff(self.offsets)

    @property
    def event(self) -> Ints:
        """Event number of each flat entry."""
        return np.repeat(self.first + np.arange(len(self), dtype=np.int64), self.ready)

    @property
    def staleness(self) -> Ints:
        """s_k of each flat entry: number of aggregations since the version that the training started from."""
        return self.event - self.version

    @property
    def max_staleness(self) -> int:
        return int(self.staleness.max(initial=0))


class Builder:
    """Builds a timeline event by event, in little more memory than the result needs."""

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
        """Return the timeline and empty the builder."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(self._ready, np.int64))])
        flat: dict[str, NumPyArray] = {name: np.array(self._flat.pop(name)) for name in COLUMNS}
        return Timeline(time_s=np.array(self._time_s), offsets=offsets, **flat)  # type: ignore[arg-type]
