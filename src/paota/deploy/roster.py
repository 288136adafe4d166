"""The devices of a deployment: their nodes, their orders, what went wrong with them, and their groups by speed.

Bookkeeping without clock and network: every method is given the time. A device is either in flight (it has been sent a
model and has not answered) or idle. After an aggregation, every reachable idle device can be sent the newest model.
The same line of code serves devices that were ready, refused, given up, new or back after an absence.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from ..base.errors import one_line
from ..timing.scheme import Devices

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Flight:
    """One local training that a device has been asked for."""

    message: str  # the id of the order and of its answer
    node: int
    device: int
    version: int  # of the global model it starts from
    training: int  # local trainings that the device had begun before
    start_s: float


@dataclass(kw_only=True)
class Incident:
    """A problem with one device. The log shows the first case; later cases are counted."""

    device: int  # -1: a node whose device is unknown
    kind: str
    detail: str
    first_s: float
    count: int = 1


@dataclass
class Roster:
    """All K devices of the experiment.

    `patience_s` is how long the server waits for an answer. A device that answers later is slow, not dead: from then on
    it gets twice the time that it needed.
    """

    devices: int
    patience_s: float
    trainings: list[int] = field(default_factory=list)  # begun so far, by device
    node_of: dict[int, int] = field(default_factory=dict)  # device -> node, for devices that have joined
    flights: dict[str, Flight] = field(default_factory=dict)  # by message
    given_up: dict[str, Flight] = field(default_factory=dict)  # a late answer is recognised by these
    longer_s: dict[int, float] = field(default_factory=dict)  # patience with slow devices
    answered: dict[int, str] = field(default_factory=dict)  # the last message that each device has answered
    incidents: dict[tuple[int, str], Incident] = field(default_factory=dict)
    aborted: dict[str, int] = field(default_factory=dict)  # messages whose answers are dropped -> device

    def __post_init__(self) -> None:
        self.trainings = self.trainings or [0] * self.devices

    def join(self, node: int, device: int, now_s: float) -> None:
        """Record which device a node is. The newest claim wins: a restarted device has another node."""
        if not 0 <= device < self.devices:
            self.note(-1, "unknown device", f"node {node} says partition-id={device}, of {self.devices} devices", now_s)
            return
        before = self.node_of.get(device)
        if before not in (None, node):
            self.note(device, "replaced", f"node {node} took the place of node {before}", now_s)
            for flight in [f for f in self.flights.values() if f.device == device]:
                self._abandon(flight)
        self.node_of[device] = node

    def idle(self, reachable: Collection[int]) -> list[int]:
        """Return the devices that can be sent a model now, in order. `reachable` holds nodes."""
        busy = self.at_work
        return sorted(k for k, node in self.node_of.items() if node in reachable and k not in busy)

    @property
    def at_work(self) -> set[int]:
        """The devices in flight."""
        return {flight.device for flight in self.flights.values()}

    def depart(self, device: int, message: str, version: int, now_s: float) -> Flight:
        """Record that the device has been sent global model `version`."""
        flight = Flight(
            message=message, node=self.node_of[device], device=device, version=version,
            training=self.trainings[device], start_s=now_s,
        )  # fmt: skip
        self.flights[message] = flight
        self.trainings[device] += 1
        return flight

    def land(self, message: str, now_s: float, *, failed: bool = False) -> Flight | None:
        """Record an answer to `message`. Return its flight, None for an answer that is late, repeated or dropped.

        `failed`: the answer is an error. An error says nothing about the speed of a device that was given up.
        """
        flight = self.flights.pop(message, None)
        if flight is not None:
            self.answered[flight.device] = message
            return flight
        late = self.given_up.pop(message, None)
        if failed or self.aborted.pop(message, None) is not None:
            return None
        if late is not None:
            took_s = now_s - late.start_s
            self.longer_s[late.device] = max(2 * took_s, self.patience_with(late.device))
            self.note(late.device, "late", f"answered {took_s:.1f} s after it was asked", now_s)
            return None
        device = next((k for k, last in self.answered.items() if last == message), -1)
        self.note(device, "answered twice" if device >= 0 else "unasked", f"message {message[:12]}", now_s)
        return None

    def give_up(self, now_s: float) -> list[Flight]:
        """Stop waiting for trainings that exceed the patience. Return them; their devices are idle again."""
        overdue = [f for f in self.flights.values() if now_s - f.start_s > self.patience_with(f.device) - 1e-6]
        for flight in overdue:
            self._abandon(flight)
            self.note(flight.device, "no answer", f"nothing within {self.patience_with(flight.device):.3g} s", now_s)
        return overdue

    def abort(self, devices: Collection[int]) -> int:
        """End the trainings of these devices and return their number. Their late answers are dropped."""
        ended = [flight for flight in self.flights.values() if flight.device in devices]
        for flight in ended:
            del self.flights[flight.message]
            for old in [message for message, device in self.aborted.items() if device == flight.device]:
                del self.aborted[old]  # keep one per device
            self.aborted[flight.message] = flight.device
        return len(ended)

    def patience_with(self, device: int) -> float:
        """Return how many seconds the server waits for an answer of this device."""
        return self.longer_s.get(device, self.patience_s)

    def note(self, device: int, kind: str, detail: str, now_s: float) -> None:
        """Record an incident. `detail` may be a device's own text: it is cleaned and shortened."""
        known = self.incidents.get((device, kind))
        if known is not None:
            known.count += 1
            return
        detail = one_line(detail)
        self.incidents[device, kind] = Incident(device=device, kind=kind, detail=detail, first_s=now_s)
        who = f"device {device}" if device >= 0 else "a node"
        logger.warning("%.1f s: %s: %s (%s); further cases are counted, not shown", now_s, who, kind, detail)

    def waiting_for(self) -> list[str]:
        """Return every message whose answer the server fetches."""
        return [*self.flights, *self.given_up, *self.aborted]

    def _abandon(self, flight: Flight) -> None:
        del self.flights[flight.message]
        for old in [m for m, f in self.given_up.items() if f.device == flight.device]:
            del self.given_up[old]  # keep one per device: a mute device must not fill the memory
        self.given_up[flight.message] = flight


class Groups(Sequence[Devices]):
    """The groups of a deployment by speed: the first devices to arrive are the first group, and so on.

    Before the first arrival all devices belong to the first group.
    """

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.first_s: dict[int, float] = {}  # of each device's first training, in the order of their arrival
        self.of: dict[int, int] = {}  # the group of each device whose first training has arrived
        self.sizes = [devices]

    def split(self, groups: int) -> None:
        """Form `groups` groups of (almost) equal size."""
        self.sizes = [len(part) for part in np.array_split(np.arange(self.devices), min(groups, self.devices))]
        known, self.first_s, self.of = self.first_s, {}, {}
        for device, first_s in known.items():
            self.note(device, first_s)

    def note(self, device: int, first_s: float) -> None:
        """Record a training that has arrived. The first one of a device decides its group."""
        if device not in self.first_s:
            self.of[device] = int(np.searchsorted(np.cumsum(self.sizes), len(self.first_s), side="right"))
            self.first_s[device] = first_s

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, group: int) -> Devices: ...
    @overload
    def __getitem__(self, group: slice) -> Sequence[Devices]: ...
    def __getitem__(self, group: int | slice) -> Devices | Sequence[Devices]:
        if isinstance(group, slice):
            return [self[g] for g in range(len(self))[group]]
        if not 0 <= group < len(self):
            raise IndexError(group)
        if not self.of:
            return np.arange(self.devices if group == 0 else 0)
        return np.array(sorted(k for k, place in self.of.items() if place == group), np.int64)

    def complete(self, finish_s: Mapping[int, float], at_work: set[int]) -> int | None:
        """Return the group that has waited longest among those with no device at work, None if there is none.

        A group below its full size is complete when no first training is under way any more.

        Args:
            finish_s: when each finished device has arrived.
            at_work: the devices in flight.
        """
        forming = any(k not in self.of for k in at_work)
        last_s: dict[int, float] = {}
        for device, arrived_s in finish_s.items():
            group = self.of[device]
            last_s[group] = max(last_s.get(group, 0.0), arrived_s)
        members = {g: [k for k, place in self.of.items() if place == g] for g in last_s}
        whole = [
            g for g in last_s if (len(members[g]) >= self.sizes[g] or not forming) and at_work.isdisjoint(members[g])
        ]
        return min(whole, key=lambda g: (last_s[g], g), default=None)
