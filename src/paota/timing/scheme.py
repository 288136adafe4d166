"""The interface of an aggregation scheme: a coroutine that starts trainings, waits, and aggregates finished ones.

PAOTA's Algorithm 1 reads (`schemes.Periodic`):

    def run(self, server):
        server.start(server.everyone)                                      # broadcast w^0; all devices train
        while True:
            ready = yield Wait(until_s=(server.round + 1) * server.period_s)  # devices that have finished by then
            server.aggregate(ready)                                           # makes w^(r+1)
            server.start(ready.device)                                        # they train on w^(r+1)

A scheme is written once and runs on two clocks. `virtual.VirtualServer` drives it on a virtual clock, which yields the
timeline of a simulation. `deploy.server.DeployedServer` drives the same coroutine on the wall clock. A scheme sees a
`Server`, not the clock behind it.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..base.errors import UserError
from ..base.types import Floats, Ints
from .timeline import Trainings

if TYPE_CHECKING:
    from .virtual import TimelineInputs

Devices = Ints  # numbers of devices, [n]


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The condition that a scheme waits for: exactly one of `until_s`, `count`, `share` and `groups`.

    The server answers with the finished trainings that may be aggregated now, in the order of their devices.

    Args:
        until_s: a time on the server's clock.
        count: the first `count` trainings to finish; fewer if no more will finish.
        share: a share of the available devices, rounded up.
        of: with `share`, the devices [n] that count, at most all of them; other finished trainings join the answer.
        groups: all trainings of one of these groups of devices; the answer's `group` is its index.
        within_s: seconds from now after which the wait ends with the trainings that have finished.
    """

    until_s: float | None = None
    count: int | None = None
    share: float | None = None
    of: Devices | None = None
    groups: Sequence[Devices] | None = None
    within_s: float | None = None


class Server(abc.ABC):
    """The parameter server as a scheme sees it. Axes: K devices in all, n devices in a call."""

    devices: int  # K
    period_s: float  # timing.period_s
    round: int = 0  # number of aggregations so far, which is also the version of the newest model
    now_s: float = 0.0

    @property
    def everyone(self) -> Devices:
        """The numbers of all devices, [K]."""
        return np.arange(self.devices)

    @abc.abstractmethod
    def start(self, device: Devices, *, together: bool = False) -> None:
        """Send the newest model to devices, which start a training as soon as they are available.

        Args:
            device: [n].
            together: start them all at one time, and leave out those that are not available then.
        """

    @abc.abstractmethod
    def aggregate(self, trainings: Trainings) -> None:
        """Make the next model from these trainings. An empty set counts as a round that leaves the model as it is.

        Args:
            trainings: finished trainings.
        """

    @abc.abstractmethod
    def abort(self, device: Devices) -> None:
        """End the trainings of these devices [n] without a result, at the next aggregation.

        Args:
            device: [n].
        """

    @property
    @abc.abstractmethod
    def under_way(self) -> Trainings:
        """The trainings that have not finished; their `finish_s` is unknown (NaN)."""

    @abc.abstractmethod
    def present(self) -> Devices:
        """Return the available and idle devices, at the next time at which there are any."""

    @abc.abstractmethod
    def draw(self, count: int) -> Devices:
        """Return at most `count` devices of those `present`, drawn at random for this round, sorted."""

    @abc.abstractmethod
    def random_order(self) -> Devices:
        """Return a random permutation of all devices for this round, [K]."""

    @abc.abstractmethod
    def first_training_s(self, device: Devices) -> Floats:
        """Return the seconds of the first training of these devices, [n], as a measure of their speed.

        Args:
            device: [n].
        """

    @abc.abstractmethod
    def by_speed(self, groups: int) -> Sequence[Devices]:
        """Return the members of (almost) equally large groups by the first training, the quickest group first.

        Args:
            groups: number of groups.
        """

    @abc.abstractmethod
    def participants(self, count: int | None) -> int:
        """Return `count`; None: PAOTA's average number of ready devices, the paper's rule for fair comparisons."""


Steps = Generator[Wait, Trainings, None]


class Scheme(abc.ABC):
    """A rule for when the server aggregates and which devices it sends the new model. Subclass as a frozen dataclass."""

    uses_period: ClassVar[bool] = False  # whether `timing.period_s` has an effect
    counts_updates: ClassVar[bool] = False  # the run ends after as many device updates as a synchronous scheme makes

    @abc.abstractmethod
    def run(self, server: Server) -> Steps:
        """Run the scheme as a coroutine. The server stops it at the end of the experiment, so it may run forever.

        Args:
            server: starts and aborts trainings, and aggregates them.

        Returns:
            A coroutine that yields a `Wait` and receives the finished `Trainings`.
        """

    def concurrency(self, inputs: TimelineInputs) -> int:
        """Return the largest number of devices that train or upload at the same time; all unless overridden.

        Args:
            inputs: fleet, latencies and horizon of the run.
        """
        return inputs.latencies.devices


def next_wait(scheme: Scheme, steps: Steps, ready: Trainings | None) -> Wait:
    """Send the finished trainings to a scheme (None at its start) and return its next wait."""
    name = type(scheme).__name__
    try:
        wait = next(steps) if ready is None else steps.send(ready)
    except StopIteration:
        raise UserError(f"the scheme {name} ended before the experiment: its `run` must never return") from None
    if not isinstance(wait, Wait):
        raise UserError(f"the scheme {name} must yield paota.Wait(...), not {wait!r:.60}")
    return wait


def share_of(share: float, devices: int) -> int:
    """Return the number of devices in a share of `devices`: rounded up, at least one."""
    return max(1, min(devices, math.ceil(share * devices - 1e-9)))


def joined(parts: Sequence[Trainings]) -> Trainings:
    """Return several answers as one, in their order."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part[:-1] for part in parts), strict=True)
    return Trainings._make([*(np.concatenate(column) for column in columns), parts[0].group])
