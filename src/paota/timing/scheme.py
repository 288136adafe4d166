"""What an aggregation scheme is: a coroutine that starts trainings, waits, and aggregates what has finished.

A scheme is written once. `timing.virtual` drives it on a virtual clock, which makes the timeline of a simulation. A
deployment drives the same coroutine on the wall clock. The scheme sees a `Server`, and does not know which of the two
it is.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from .timeline import Trainings

if TYPE_CHECKING:
    from .virtual import TimelineInputs

Devices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Wait:
    """What a scheme waits for; one of the first four, and `within_s` where that may take too long.

    The answer holds the trainings that have finished and may be aggregated now, in the order of their devices.

    Args:
        until_s: a moment on the server's clock.
        count: so many finished trainings, the first ones; fewer where no more will finish.
        share: a share of the devices that are there, rounded up.
        groups: all trainings of one of these groups of devices; the answer's `group` says which.
        within_s: seconds from now, after which the wait ends with what has finished.
    """

    until_s: float | None = None
    count: int | None = None
    share: float | None = None
    groups: Sequence[Devices] | None = None
    within_s: float | None = None


class Server(abc.ABC):
    """What a scheme can see and do. Axes: K devices, n of them in a call."""

    devices: int  # K
    period_s: float  # timing.period_s
    round: int = 0  # aggregations so far, which is also the version of the newest model
    now_s: float = 0.0

    @property
    def everyone(self) -> Devices:
        """The numbers of all devices, [K]."""
        return np.arange(self.devices)

    @abc.abstractmethod
    def start(self, device: Devices, *, together: bool = False) -> None:
        """Send the newest model to these devices [n], which begin a training as soon as they are there.

        `together`: they begin at one moment, and those that are not there are left out.
        """

    @abc.abstractmethod
    def aggregate(self, trainings: Trainings) -> None:
        """Make the next model from these trainings. None at all is a round, too: it changes nothing."""

    @abc.abstractmethod
    def abort(self, device: Devices) -> None:
        """End the trainings of these devices [n] without a result, with the next aggregation."""

    @property
    @abc.abstractmethod
    def under_way(self) -> Trainings:
        """The trainings that have not finished; their `finish_s` is unknown (NaN)."""

    @abc.abstractmethod
    def present(self) -> Devices:
        """The devices that are there and idle, at the next moment at which there are any."""

    @abc.abstractmethod
    def draw(self, count: int) -> Devices:
        """So many devices of those `present`, drawn at random for this round and sorted."""

    @abc.abstractmethod
    def lot(self) -> NDArray[np.int64]:
        """A random order of all devices for this round, [K]."""

    @abc.abstractmethod
    def first_training_s(self, device: Devices) -> NDArray[np.float64]:
        """How long the first training of these devices took, [n]: how quick they are."""

    @abc.abstractmethod
    def by_speed(self, groups: int) -> Sequence[Devices]:
        """The members of groups of (almost) equal size, the quickest group first, by the first training."""

    @abc.abstractmethod
    def participants(self, count: int | None) -> int:
        """`count`, None: as many devices as PAOTA has ready on average, the paper's rule for fair comparisons."""


Steps = Generator[Wait, Trainings, None]


class Scheme(abc.ABC):
    """When the server aggregates, and which devices it sends the new model. Subclass as a frozen dataclass."""

    uses_period: ClassVar[bool] = False  # whether `timing.period_s` makes a difference
    counts_updates: ClassVar[bool] = False  # `rounds` allows as many device updates as a synchronous scheme makes

    @abc.abstractmethod
    def run(self, server: Server) -> Steps:
        """The coroutine. The server stops it at the end of the experiment, so it may run forever."""

    def concurrency(self, inputs: TimelineInputs) -> int:
        """How many devices may be training or uploading at the same time: all, unless the scheme starts fewer."""
        return inputs.latencies.devices


def share_of(share: float, devices: int) -> int:
    """How many of `devices` a share is: rounded up, at least one."""
    return max(1, min(devices, math.ceil(share * devices - 1e-9)))


def joined(parts: Sequence[Trainings]) -> Trainings:
    """Several answers as one, in their order."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part[:-1] for part in parts), strict=True)
    return Trainings._make([*(np.concatenate(column) for column in columns), parts[0].group])
