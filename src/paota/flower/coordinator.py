"""The server's loop in real time. `periodic` reads like the paper's Algorithm 1 (and TT-Fed, with tiers), `synchronous`
like FedAvg, `buffered` like FedBuff (and FedAsync, whose buffer holds one), `grouped` like Air-FedGA and FedAT.

The coordinator knows a clock and a post office (`Post`), not Flower. Times are seconds of the experiment: real seconds
divided by the deployment's `time_scale`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence

import jax
import numpy as np

from ..errors import UserError
from .aggregation import Aggregator
from .answers import Arrival, Refused, accept
from .history import Checkpoint, History
from .influence import Influence
from .pace import Clock, Pace
from .post import Order, Post
from .roster import Roster
from .selection import draw_oldest, draw_participants

logger = logging.getLogger(__name__)


def never(arrivals: Sequence[Arrival]) -> bool:
    return False


def somebody(arrivals: Sequence[Arrival]) -> bool:
    return bool(arrivals)


class Coordinator:
    """One algorithm of the experiment from version 0, or from a checkpoint, to its end."""

    def __init__(
        self, *, aggregator: Aggregator, post: Post, clock: Clock, pace: Pace, seed: int, label: str,
        judge_every: int, influence: Influence, max_staleness: int | None, save: Callable[[Checkpoint], None],
        resume: Checkpoint | None = None, advanced: Callable[[History], None] = lambda history: None,
        wants_to_stop: Callable[[History], bool] = lambda history: False,
    ) -> None:  # fmt: skip
        self.aggregator, self.post, self.clock, self.pace = aggregator, post, clock, pace
        self.seed, self.label, self.judge_every = seed, label, judge_every
        self.influence, self.max_staleness, self.save, self.advanced = influence, max_staleness, save, advanced
        self.wants_to_stop = wants_to_stop
        self.last_round = pace.rounds
        self.last_update: int | None = None  # in place of `last_round`, for schemes whose rounds are of any size
        self.roster = Roster(aggregator.num_devices, pace.patience_s)
        self.history = History()
        self.model = self.previous_model = aggregator.initial_model
        self.state = aggregator.initial_state()
        self.waiting: list[Arrival] = []  # arrived, but their event is still to come
        self.places: dict[int, int] = {}  # of each device: its tier, or its group
        self.restarts = self.lost = 0
        self.compute_s = 0.0
        if resume is not None:
            self._go_on_from(resume)
        self.versions = {self.round: self.model}  # w^v of every version that somebody may still start from
        self._zero = clock.now()

    # ---- the schemes ----------------------------------------------------------------------------------------

    def periodic(self, *, tiered: bool = False) -> None:
        """PAOTA, Algorithm 1. `tiered` (TT-Fed): a device whose first training took m periods may take part in every m-th."""
        self.begin()
        deadline_s = self.now_s
        self.send(self._unoccupied())  # round 0 broadcasts to all
        while not self.over(deadline_s + self.pace.period_s):
            deadline_s += self.pace.period_s  # (r+1) dT
            if self.now_s > deadline_s + self.pace.period_s:  # the machine slept: no burst of empty rounds
                logger.warning("%.1f s: a deadline was missed by more than a period; going on from now", self.now_s)
                deadline_s = self.now_s
            self.waiting += self.collect(until_s=deadline_s)
            for flight in [arrival.flight for arrival in self.waiting]:
                self.places.setdefault(flight.device, self.round + 1 - flight.version if tiered else 1)
            self._conclude_those({k for k in self._waiting_devices() if (self.round + 1) % self.places[k] == 0})
            if not self.over(deadline_s + self.pace.period_s):
                self.send(self._unoccupied())  # the ready ones, and whoever else waits for a model
            self.look_back()

    def synchronous(
        self, participants: int, selected: int | None = None, deadline_s: float | None = None, *, oldest: bool = False
    ) -> None:
        """Local SGD and COTAF: every round waits for devices it has drawn, though not for ever.

        `selected` begin and the first `participants` count; `deadline_s` ends a round at the latest. A device that is not
        waited for any longer cannot be interrupted: it finishes, and may be drawn again afterwards. `oldest`: those that
        have not counted for longest begin.
        """
        self.begin()
        wait_s = min(self.pace.patience_s, deadline_s or self.pace.patience_s)

        def enough(arrivals: Sequence[Arrival]) -> bool:
            out = any(flight.version == self.round for flight in self.roster.flights.values())
            return not out or sum(arrival.flight.version == self.round for arrival in arrivals) >= participants

        while not self.over(self.now_s):
            idle, devices = self.roster.idle(self.post.reachable()), self.roster.devices
            if oldest:
                drawn = draw_oldest(self.seed, self.history.participants, participants, devices, idle)
            else:
                drawn = draw_participants(self.seed, self.round, selected or participants, devices, idle)
            sent = self.send(drawn)
            # With nobody to wait for, a round lasts a period: devices get time to come back.
            timeout_s = self.now_s + (wait_s if sent else self.pace.period_s)
            arrivals = self.collect(until_s=timeout_s, enough=enough if sent else never)
            here = [arrival for arrival in arrivals if self._of_this_round(arrival)]
            self.conclude(_by_device(_by_time(here)[:participants]))
            self.look_back()

    def buffered(self, size: int, events: int | None) -> None:
        """FedBuff and FedAsync: every `size` arrivals are aggregated; whoever arrives goes on at once.

        Ends after `events` aggregations; None: when the time is over.
        """
        self.last_round = events
        self.begin()
        while not self.over(self.now_s):
            self.send(self.roster.idle(self.post.reachable()))  # everybody at first, later the refused and the returned
            arrivals = _by_time(self.collect(until_s=self.now_s + self.pace.period_s, enough=somebody))
            buffered = len(self.waiting)
            self.waiting += arrivals
            for arrival in arrivals:
                buffered += 1
                if buffered == size and not self.over(self.now_s):
                    full, self.waiting = self.waiting[:size], self.waiting[size:]
                    self.conclude(full)
                    buffered = 0
                    self.look_back()
                self.send([arrival.flight.device] if not self.over(self.now_s) else [])

    def share_ready(self, count: int, updates: int | None) -> None:
        """PAOTA+: as soon as `count` devices are ready they are aggregated and begin again, the others go on.

        Ends with the event that brings the arrivals to `updates`; None: when the time is over.
        """
        self.last_update = updates
        self.begin()
        while not self.over(self.now_s):
            self.send(self._unoccupied())
            self.waiting = _by_time(
                self.waiting + self.collect(until_s=self.now_s + self.pace.period_s, enough=somebody)
            )
            if len(self.waiting) >= count:
                self._conclude_those({arrival.flight.device for arrival in self.waiting[:count]})
                self.look_back()

    def grouped(self, groups: int, updates: int | None) -> None:
        """Air-FedGA and FedAT: a group whose members have all arrived, or been given up, is aggregated and begins again.

        The quickest devices of the first training, that is the first to arrive, are the first group, and so on; whoever
        comes later belongs to the last one. Ends as `share_ready` does.
        """
        self.last_update = updates
        self.begin()
        sizes = [len(part) for part in np.array_split(np.arange(self.aggregator.num_devices), groups)]
        ends = np.cumsum(sizes)
        while not self.over(self.now_s):
            busy = {flight.device for flight in self.roster.flights.values()} | self._waiting_devices()
            begun = {self.places[k] for k in busy if k in self.places}
            # A group begins together, after its event; a device without a group at once.
            self.send([k for k in self._unoccupied() if self.places.get(k) not in begun])
            arrivals = self.collect(until_s=self.now_s + self.pace.period_s, enough=somebody)
            for arrival in _by_time(arrivals):
                place = int(np.searchsorted(ends, len(self.places), side="right"))
                self.places.setdefault(arrival.flight.device, min(place, groups - 1))
            self.waiting += arrivals
            for group in self._complete_groups(sizes):
                if not self.over(self.now_s):
                    self._conclude_those({k for k, place in self.places.items() if place == group}, group)
                    self.look_back()

    # ---- their steps --------------------------------------------------------------------------------------------

    def _waiting_devices(self) -> set[int]:
        return {arrival.flight.device for arrival in self.waiting}

    def _unoccupied(self) -> list[int]:
        """Devices that can be sent a model: reachable, not at work, and not waiting for their event."""
        return [k for k in self.roster.idle(self.post.reachable()) if k not in self._waiting_devices()]

    def _conclude_those(self, due: Collection[int], group: int = 0) -> None:
        """Aggregate the devices that are `due` of those that wait; the others go on waiting."""
        now = [arrival for arrival in self.waiting if arrival.flight.device in due]
        self.waiting = [arrival for arrival in self.waiting if arrival.flight.device not in due]
        self.conclude(_by_device(now), group)

    def _complete_groups(self, sizes: Sequence[int]) -> list[int]:
        """Groups of which somebody waits and nobody is at work, by the time of their last arrival.

        A group that has not its whole size yet is complete when no first training is under way any more.
        """
        at_work = {flight.device for flight in self.roster.flights.values()}
        forming = any(k not in self.places for k in at_work)
        last_s: dict[int, float] = {}
        for arrival in self.waiting:
            group = self.places[arrival.flight.device]
            last_s[group] = max(last_s.get(group, 0.0), arrival.finish_s)
        members = {g: [k for k, place in self.places.items() if place == g] for g in last_s}
        whole = [g for g in last_s if (len(members[g]) >= sizes[g] or not forming) and at_work.isdisjoint(members[g])]
        return sorted(whole, key=lambda g: (last_s[g], g))

    @property
    def round(self) -> int:
        """r: how many aggregations there have been, which is also the version of the newest model."""
        return len(self.history)

    @property
    def now_s(self) -> float:
        return (self.clock.now() - self._zero) / self.pace.time_scale

    def over(self, next_s: float) -> bool:
        """Whether no aggregation at `next_s` is to come any more."""
        if self.history.diverged_round is not None or self.history.stopped_round is not None:
            return True
        if self.pace.duration_s is not None:
            return next_s > self.pace.duration_s * (1 + 1e-9)
        if self.last_update is not None:
            return sum(len(participants.device) for participants in self.history.participants) >= self.last_update
        return self.round >= (self.last_round or 0)

    def begin(self) -> None:
        """Wait for the devices, then start the experiment's clock (where it stood, after a restart)."""
        latest = self.clock.now() + self.pace.join_real_s
        while len(self._welcome()) < self.aggregator.num_devices and self.clock.now() < latest:
            self.clock.sleep_until(min(latest, self.clock.now() + self.pace.poll_real_s))
        here = len(self.roster.node_of)
        if here < self.pace.min_devices:
            needed = f"{self.pace.min_devices} are needed (join-s, min-devices)"
            raise UserError(f"{here} devices joined within {self.pace.join_real_s:g} s, and {needed}")
        if math.isnan(self.history.initial[0]):
            self.history.initial = self.aggregator.judge(self.model)
        self.aggregator.warm_up()
        logger.info("%s: %d of %d devices are here", self.label, here, self.aggregator.num_devices)
        self.look_back()
        elapsed_s = self.history.time_s[-1] if self.history.time_s else 0.0
        self._zero = self.clock.now() - elapsed_s * self.pace.time_scale

    def send(self, devices: Sequence[int]) -> int:
        """The newest model to `devices`, each with the number of its next local training; to how many it went."""
        node_of, trainings = self.roster.node_of, self.roster.trainings
        orders = [Order(node=node_of[k], device=k, version=self.round, training=trainings[k]) for k in devices]
        if not orders:
            return 0
        messages = self.post.send(orders, self.model, self.aggregator.gradient_shifts(self.state, devices))
        for order, message in zip(orders, messages, strict=True):
            if message is None:
                self.roster.note(order.device, "not sent", "the message could not be handed over", self.now_s)
            else:
                self.roster.depart(order.device, message, order.version, self.now_s)
        return sum(message is not None for message in messages)

    def collect(self, *, until_s: float, enough: Callable[[list[Arrival]], bool] = never) -> list[Arrival]:
        """Every usable answer up to `until_s`, in the order of the devices; the rest is noted and left behind."""
        arrivals: list[Arrival] = []
        while True:
            self._welcome()
            arrivals += self._receive()
            self.roster.give_up(self.now_s)
            if enough(arrivals) or self.now_s >= until_s - 1e-9 * self.pace.period_s:
                return _by_device(arrivals)
            until = self._zero + until_s * self.pace.time_scale
            self.clock.sleep_until(min(until, self.clock.now() + self.pace.poll_real_s))

    def conclude(self, arrivals: list[Arrival], group: int = 0) -> None:
        """Aggregate, and save before anybody is told: a restarted server knows at least what the devices know.

        `group`: whose arrivals these are, where there are groups.
        """
        begin = time.perf_counter()
        time_s = self.now_s
        arrivals, notes = self.influence.bounded(arrivals, self.versions)
        for device, kind, detail in notes:
            self.roster.note(device, kind, detail, time_s)
        concluded = self.aggregator(
            self.round, time_s, self.model, self.previous_model, self.versions, self.state, arrivals, group
        )
        self.history.append(time_s, arrivals, concluded)
        self.previous_model, self.model, self.state = self.model, concluded.model, concluded.state
        self.history.judged[-1] = (math.nan, math.nan, concluded.train_loss)
        wanted = self.roster.versions_in_flight() | {arrival.flight.version for arrival in self.waiting}
        self.versions = {v: w for v, w in self.versions.items() if v in wanted} | {self.round: self.model}
        self.compute_s += time.perf_counter() - begin
        self.save(self.checkpoint())

    def look_back(self, *, last: bool = False) -> None:
        """Judge the newest model where it is due, while the devices are training."""
        due = last or self.round % self.judge_every == 0
        if self.history.judged and due and math.isnan(self.history.judged[-1][0]):
            begin = time.perf_counter()
            accuracy, loss, objective = self.aggregator.judge(self.model)
            batches = self.history.judged[-1][2]
            self.history.judged[-1] = (accuracy, loss, batches if math.isnan(objective) else objective)
            self.compute_s += time.perf_counter() - begin
        if self.wants_to_stop(self.history) and not self.over(self.now_s):
            self.history.stopped_round = self.round
        self.save(self.checkpoint())  # once more: who is in flight now, and the judgement
        self.advanced(self.history)

    def finish(self, *, wait_for_devices: bool) -> Checkpoint:
        """The last checkpoint. `wait_for_devices`: wait for what is in flight, so that the next algorithm finds them idle."""
        latest_s = self.now_s + (self.pace.patience_s if wait_for_devices else 0.0)
        while self.roster.flights and self.now_s < latest_s:
            self._receive()
            self.roster.give_up(self.now_s)
            self.clock.sleep_until(self.clock.now() + self.pace.poll_real_s)
        self.look_back(last=True)
        done = self.checkpoint()
        done.finished = True
        self.save(done)
        return done

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(
            label=self.label, history=self.history, model=self.model, previous_model=self.previous_model,
            state=[np.asarray(leaf) for leaf in jax.tree.leaves(self.state)], trainings=self.roster.trainings,
            incidents=list(self.roster.incidents.values()), in_flight=len(self.roster.flights) + len(self.waiting),
            places=self.places, lost=self.lost, restarts=self.restarts, compute_s=self.compute_s, lengths=self.influence.lengths,
        )  # fmt: skip

    # ---- inside -------------------------------------------------------------------------------------------------

    def _go_on_from(self, checkpoint: Checkpoint) -> None:
        self.history, self.model, self.previous_model = checkpoint.history, checkpoint.model, checkpoint.previous_model
        self.state = jax.tree.unflatten(jax.tree.structure(self.state), checkpoint.state)
        self.roster.trainings = list(checkpoint.trainings)
        self.roster.incidents = {(i.device, i.kind): i for i in checkpoint.incidents}
        self.influence.lengths, self.places = dict(checkpoint.lengths), dict(checkpoint.places)
        self.restarts, self.compute_s = checkpoint.restarts + 1, checkpoint.compute_s
        self.lost = checkpoint.lost + checkpoint.in_flight

    def _welcome(self) -> dict[int, int]:
        for node, device in self.post.joined().items():
            self.roster.join(node, device, self.now_s)
        return self.roster.node_of

    def _of_this_round(self, arrival: Arrival) -> bool:
        """A synchronous round averages models with one start; what was asked for in an earlier round is too late."""
        flight = arrival.flight
        if flight.version != self.round:
            self.roster.note(flight.device, "late", f"asked in round {flight.version + 1}", self.now_s)
        return flight.version == self.round

    def _receive(self) -> list[Arrival]:
        waiting = self.roster.waiting_for()
        arrivals = []
        for answer in self.post.fetch(waiting) if waiting else ():
            flight = self.roster.land(answer.message, self.now_s, failed=answer.error is not None)
            if flight is None:
                continue
            try:
                arrival = accept(answer, flight, self.aggregator.layout, self.now_s)
                staleness = self.round - flight.version
                if self.max_staleness is not None and staleness > self.max_staleness:
                    raise Refused("too stale", f"{staleness} rounds, and guards.max_staleness is {self.max_staleness}")
                if "loss" in answer.numbers and not math.isfinite(arrival.loss):
                    self.roster.note(
                        flight.device, "no loss", f"its loss is {answer.numbers['loss']!r}"[:100], self.now_s
                    )
                arrivals.append(arrival)
            except Refused as refusal:
                self.roster.note(flight.device, refusal.kind, refusal.detail, self.now_s)
        return arrivals


def _by_device(arrivals: Sequence[Arrival]) -> list[Arrival]:
    return sorted(arrivals, key=lambda arrival: arrival.flight.device)


def _by_time(arrivals: Sequence[Arrival]) -> list[Arrival]:
    return sorted(arrivals, key=lambda arrival: (arrival.finish_s, arrival.flight.device))
