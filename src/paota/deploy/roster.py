"""Who takes part in a deployment: which device sits on which node, what it has been asked for, and what went wrong.

Pure bookkeeping, no clock and no network: every method is told the time. One rule keeps it simple: a device is either
in flight (it has been sent a model and has not answered) or idle, and whoever is idle and reachable gets the newest
model after the next aggregation. So the ready, the rejected, the given up, the newcomer and the returned are all
re-armed by the same line.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from ..base.errors import one_line

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Flight:
    """One local training that a device has been asked for."""

    message: str  # the id under which the answer will come
    node: int
    device: int
    version: int  # of the global model it starts from
    training: int  # how many local trainings the device had begun before this one
    start_s: float


@dataclass(kw_only=True)
class Incident:
    """Something that went wrong with one device: logged when it first happens, counted afterwards."""

    device: int  # -1: a node that could not say which device it is
    kind: str
    detail: str
    first_s: float
    count: int = 1


@dataclass
class Roster:
    """All K devices of the experiment; `patience_s` is how long an answer may take before nobody waits for it.

    A device whose answer comes after that gets twice the time it needed from then on: slow is not dead.
    """

    devices: int
    patience_s: float
    trainings: list[int] = field(default_factory=list)  # begun so far, by device
    node_of: dict[int, int] = field(default_factory=dict)  # device -> node, for those that have joined
    flights: dict[str, Flight] = field(default_factory=dict)  # by message
    given_up: dict[str, Flight] = field(default_factory=dict)  # nobody waits, but a late answer is recognised
    longer_s: dict[int, float] = field(default_factory=dict)  # patience with devices that turned out to be slower
    answered: dict[int, str] = field(default_factory=dict)  # the last message that each device has answered
    incidents: dict[tuple[int, str], Incident] = field(default_factory=dict)
    aborted: dict[str, int] = field(default_factory=dict)  # messages whose answers are dropped -> device

    def __post_init__(self) -> None:
        self.trainings = self.trainings or [0] * self.devices

    def join(self, node: int, device: int, now_s: float) -> None:
        """A node says which device it is. The newest claim wins: a restarted device comes back under another node."""
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
        """Devices that can be sent a model now, in order."""
        busy = {flight.device for flight in self.flights.values()}
        return sorted(k for k, node in self.node_of.items() if node in reachable and k not in busy)

    def depart(self, device: int, message: str, version: int, now_s: float) -> Flight:
        """The device has been sent global model `version`."""
        flight = Flight(
            message=message, node=self.node_of[device], device=device, version=version,
            training=self.trainings[device], start_s=now_s,
        )  # fmt: skip
        self.flights[message] = flight
        self.trainings[device] += 1
        return flight

    def land(self, message: str, now_s: float, *, failed: bool = False) -> Flight | None:
        """An answer to `message` has come. None if nobody waits for it: it is late, or the second one.

        `failed`: it is only the news that there will be no answer, which says nothing new of a training given up.
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
        """Stop waiting for trainings that are as old as the patience; their devices are idle again."""
        overdue = [f for f in self.flights.values() if now_s - f.start_s > self.patience_with(f.device) - 1e-6]
        for flight in overdue:
            self._abandon(flight)
            self.note(flight.device, "no answer", f"nothing within {self.patience_with(flight.device):.3g} s", now_s)
        return overdue

    def abort(self, devices: Collection[int]) -> int:
        """End the trainings of these devices: they are idle at once, and their answers are dropped. Return how many."""
        ended = [flight for flight in self.flights.values() if flight.device in devices]
        for flight in ended:
            del self.flights[flight.message]
            for old in [message for message, device in self.aborted.items() if device == flight.device]:
                del self.aborted[old]  # remember one per device
            self.aborted[flight.message] = flight.device
        return len(ended)

    def patience_with(self, device: int) -> float:
        return self.longer_s.get(device, self.patience_s)

    def note(self, device: int, kind: str, detail: str, now_s: float) -> None:
        known = self.incidents.get((device, kind))
        if known is not None:
            known.count += 1
            return
        detail = one_line(detail)  # it may be a device's own text
        self.incidents[device, kind] = Incident(device=device, kind=kind, detail=detail, first_s=now_s)
        who = f"device {device}" if device >= 0 else "a node"
        logger.warning("%.1f s: %s: %s (%s); further cases are counted, not shown", now_s, who, kind, detail)

    def waiting_for(self) -> list[str]:
        """Every message whose answer is worth fetching."""
        return [*self.flights, *self.given_up, *self.aborted]

    def versions_in_flight(self) -> set[int]:
        return {flight.version for flight in self.flights.values()}

    def _abandon(self, flight: Flight) -> None:
        del self.flights[flight.message]
        for old in [m for m, f in self.given_up.items() if f.device == flight.device]:
            del self.given_up[old]  # remember one a device: memory stays bounded however long a device is mute
        self.given_up[flight.message] = flight
