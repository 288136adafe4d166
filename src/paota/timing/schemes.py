"""The aggregation schemes of the field, each a short coroutine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..base.errors import UserError
from .scheme import Scheme, Server, Steps, Wait, joined

if TYPE_CHECKING:
    from .virtual import TimelineInputs


@dataclass(frozen=True)
class Periodic(Scheme):
    """Every `timing.period_s` seconds the server aggregates the trainings that have finished (PAOTA, Algorithm 1)."""

    uses_period: ClassVar[bool] = True

    def run(self, server: Server) -> Steps:
        server.start(server.everyone)
        while True:
            ready = yield Wait(until_s=(server.round + 1) * server.period_s)
            server.aggregate(ready)
            server.start(ready.device)


@dataclass(frozen=True)
class Tiered(Scheme):
    """As `Periodic`, and a device whose first training took m periods takes part in every m-th round (TT-Fed)."""

    uses_period: ClassVar[bool] = True

    def run(self, server: Server) -> Steps:
        server.start(server.everyone)
        while True:
            finished = yield Wait(until_s=(server.round + 1) * server.period_s)
            first_s = server.first_training_s(finished.device)
            tier = np.maximum(np.ceil(first_s / server.period_s - 1e-9), 1).astype(np.int64)
            ready = finished.only((server.round + 1) % tier == 0)
            server.aggregate(ready)
            server.start(ready.device)


@dataclass(frozen=True)
class Synchronous(Scheme):
    """Rounds with a common start (Local SGD, COTAF): the first `participants` devices to finish count, the others abort.

    `participants` None: PAOTA's mean number of ready devices. `selected` devices are drawn for each round and start;
    None: as many as count. `deadline_s` ends a round with those that have finished.
    """

    participants: int | None = None
    selected: int | None = None
    deadline_s: float | None = None

    def run(self, server: Server) -> Steps:
        count = server.participants(self.participants)
        selected = min(self.selected or count, server.devices)
        if selected < count:
            raise UserError(
                f"selected = {selected} devices cannot give the {count} participants that a round waits for"
            )
        while True:
            chosen = server.draw(selected)
            server.start(chosen, together=True)
            ready = yield Wait(count=count, within_s=self.deadline_s)
            if len(ready.device) or self.deadline_s is not None:  # else none of them ever finishes: draw others
                server.abort(np.setdiff1d(chosen, ready.device))
                server.aggregate(ready)

    def concurrency(self, inputs: TimelineInputs) -> int:
        return min(self.selected or inputs.participants(self.participants), inputs.latencies.devices)


@dataclass(frozen=True)
class OldestFirst(Scheme):
    """Rounds with a common start of the `participants` devices that have not been aggregated for longest; ties by lot."""

    participants: int | None = None

    def run(self, server: Server) -> Steps:
        count = server.participants(self.participants)
        last = np.full(server.devices, -1)  # round in which each device took part
        while True:
            present = server.present()
            chosen = np.sort(present[np.lexsort((server.lot()[present], last[present]))][:count])
            server.start(chosen, together=True)
            ready = yield Wait(count=count)
            last[ready.device] = server.round
            server.aggregate(ready)

    def concurrency(self, inputs: TimelineInputs) -> int:
        return min(inputs.participants(self.participants), inputs.latencies.devices)


@dataclass(frozen=True)
class Buffered(Scheme):
    """After every `buffer_size` arrivals (FedBuff); a device that arrives takes the newest model and starts again."""

    counts_updates: ClassVar[bool] = True
    buffer_size: int

    def run(self, server: Server) -> Steps:
        server.start(server.everyone)
        buffer = []
        while True:
            arrival = yield Wait(count=1)
            buffer.append(arrival)
            if len(buffer) == self.buffer_size:  # the arrival that fills the buffer gets the new model already
                server.aggregate(joined(buffer))
                buffer = []
            server.start(arrival.device)


@dataclass(frozen=True)
class Asynchronous(Buffered):
    """At every arrival (FedAsync)."""

    buffer_size: int = 1


@dataclass(frozen=True)
class ShareReady(Scheme):
    """As soon as a `share` of all devices is ready; they wait for the event, then start again with the new model.

    A period that sets itself: by Little's law events are share * (mean time from a device's start to its next) apart,
    whatever the law of the latencies.
    """

    counts_updates: ClassVar[bool] = True
    share: float

    def run(self, server: Server) -> Steps:
        server.start(server.everyone)
        while True:
            ready = yield Wait(share=self.share)
            server.aggregate(ready)
            server.start(ready.device)


@dataclass(frozen=True)
class Grouped(Scheme):
    """Synchronous inside each of `groups` groups of similar speed, groups asynchronous (Air-FedGA, FedAT)."""

    counts_updates: ClassVar[bool] = True
    groups: int

    def run(self, server: Server) -> Steps:
        members = server.by_speed(self.groups)
        for group in members:
            server.start(group, together=True)
        while True:
            ready = yield Wait(groups=members)
            group = members[ready.group]
            server.abort(np.setdiff1d(group, ready.device))
            server.aggregate(ready)
            server.start(group, together=True)
