"""The built-in aggregation schemes, each a short coroutine (`scheme.py` explains the interface)."""

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
    """PAOTA, Algorithm 1: every `timing.period_s` seconds the server aggregates the trainings that have finished."""

    uses_period: ClassVar[bool] = True

    def run(self, server: Server) -> Steps:
        server.start(server.everyone)
        while True:
            ready = yield Wait(until_s=(server.round + 1) * server.period_s)
            server.aggregate(ready)
            server.start(ready.device)


@dataclass(frozen=True)
class Tiered(Scheme):
    """TT-Fed: `Periodic`, but a device whose first training took m periods takes part in every m-th round."""

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
    """Rounds with a common start (Local SGD, COTAF): the server aggregates the first devices to finish and aborts the others.

    Args:
        participants: number of aggregated devices per round; None: PAOTA's average number of ready devices.
        selected: number of devices that are drawn and start in each round; None: as many as `participants`.
        deadline_s: seconds after which a round ends with the devices that have finished.
    """

    participants: int | None = None
    selected: int | None = None
    deadline_s: float | None = None

    def run(self, server: Server) -> Steps:
        count = server.participants(self.participants)
        selected = min(self.selected or count, server.devices)
        if selected < count:
            raise UserError(
                f"selected = {selected} devices are fewer than the {count} participants that a round waits for"
            )
        while True:
            chosen = server.draw(selected)
            server.start(chosen, together=True)
            ready = yield Wait(count=count, within_s=self.deadline_s)
            if len(ready.device) or self.deadline_s is not None:  # else none of them ever finishes: draw again
                server.abort(np.setdiff1d(chosen, ready.device))
                server.aggregate(ready)

    def concurrency(self, inputs: TimelineInputs) -> int:
        return min(self.selected or inputs.participants(self.participants), inputs.latencies.devices)


@dataclass(frozen=True)
class OldestFirst(Scheme):
    """Rounds with a common start of the `participants` devices whose last aggregation is longest ago; ties are random."""

    participants: int | None = None

    def run(self, server: Server) -> Steps:
        count = server.participants(self.participants)
        last = np.full(server.devices, -1)  # round in which each device took part
        while True:
            present = server.present()
            chosen = np.sort(present[np.lexsort((server.random_order()[present], last[present]))][:count])
            server.start(chosen, together=True)
            ready = yield Wait(count=count)
            last[ready.device] = server.round
            server.aggregate(ready)

    def concurrency(self, inputs: TimelineInputs) -> int:
        return min(inputs.participants(self.participants), inputs.latencies.devices)


@dataclass(frozen=True)
class Buffered(Scheme):
    """FedBuff: an aggregation after every `buffer_size` arrivals; a device that arrives restarts from the newest model."""

    counts_updates: ClassVar[bool] = True
    buffer_size: int

    def run(self, server: Server) -> Steps:
        server.start(server.everyone)
        buffer = []
        while True:
            arrival = yield Wait(count=1)
            buffer.append(arrival)
            if len(buffer) == self.buffer_size:  # the device that fills the buffer already gets the new model
                server.aggregate(joined(buffer))
                buffer = []
            server.start(arrival.device)


@dataclass(frozen=True)
class Asynchronous(Buffered):
    """FedAsync: an aggregation at every arrival."""

    buffer_size: int = 1


@dataclass(frozen=True)
class ShareReady(Scheme):
    """An aggregation as soon as a `share` of all devices is ready; these devices then start from the new model.

    The period adapts to the devices: by Little's law the mean time between aggregations is `share` times the mean time
    between two starts of a device, for any distribution of the latencies.
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
    """Air-FedGA, FedAT: `groups` groups of similar speed, synchronous within a group, asynchronous across groups."""

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
