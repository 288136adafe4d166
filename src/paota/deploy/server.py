"""The server on the wall clock: it drives a scheme's coroutine with the trainings of real devices.

It knows a `Clock` and a `Post`, not Flower. Times are simulated seconds: real seconds divided by the deployment's
`time_scale`. Devices may fail, vanish and come back. A device whose training was lost is sent the newest model again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Sequence

import jax
import numpy as np
from jaxtyping import Float, Int

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from ..timing.scheme import Devices, Scheme, Server, Wait, next_wait, share_of
from ..timing.timeline import Trainings
from .aggregation import Aggregator
from .answers import Arrival, Influence, Refused, accept, trainings_of
from .history import Checkpoint, History
from .roster import Groups, Roster
from .settings import Pace
from .transport import Clock, Order, Post

logger = logging.getLogger(__name__)


class DeployedServer(Server):
    """One algorithm of the experiment from version 0, or from a checkpoint, to its end.

    `save` writes a checkpoint. `notify` is called after every round and returns whether to stop there.
    """

    def __init__(
        self, *, aggregator: Aggregator, post: Post, clock: Clock, pace: Pace, seed: int, label: str,
        evaluate_every: int, influence: Influence, max_staleness: int | None, save: Callable[[Checkpoint], None],
        notify: Callable[[History], bool], resume: Checkpoint | None = None,
    ) -> None:  # fmt: skip
        self.aggregator, self.post, self.clock, self.pace = aggregator, post, clock, pace
        self.devices, self.period_s = aggregator.num_devices, pace.period_s
        self.seed, self.label, self.evaluate_every = seed, label, evaluate_every
        self.influence, self.max_staleness, self.save, self.notify = influence, max_staleness, save, notify
        self.roster = Roster(self.devices, pace.patience_s)
        self.history = History()
        self.wanted: set[int] = set()  # devices that the scheme has started, one by one
        self.finished: dict[int, Arrival] = {}  # by device: arrived, and neither aggregated nor started again
        self.held: dict[tuple[int, int], Arrival] = {}  # by device and training: started again, not yet aggregated
        self.groups = Groups(self.devices)
        self.aborted = 0  # trainings that the next aggregation ends
        self.restarts = self.lost = 0
        self.compute_s = 0.0
        if resume is not None:
            self._resume(resume)
        self._zero = clock.now()

    def run(self, scheme: Scheme, *, wait_for_devices: bool) -> Checkpoint:
        """Drive the scheme to the end of the experiment and return the last checkpoint.

        After a restart the scheme starts with the newest model. `wait_for_devices`: wait at the end for trainings in
        flight, so that the devices are idle when the next algorithm begins.
        """
        self._begin()
        steps = scheme.run(self)
        wait = next_wait(scheme, steps, None)
        while (ready := self._answer(wait)) is not None:
            wait = next_wait(scheme, steps, ready)
        return self._finish(wait_for_devices=wait_for_devices)

    # ---- what a scheme sees and does ------------------------------------------------------------------------------

    @property
    def round(self) -> int:  # type: ignore[override]
        return len(self.history)

    @property
    def now_s(self) -> float:  # type: ignore[override]
        return (self.clock.now() - self._zero) / self.pace.time_scale

    def start(self, device: Devices, *, together: bool = False) -> None:
        if self._over:
            return
        chosen = set(device.tolist())
        for k in chosen & set(self.finished):
            arrival = self.finished.pop(k)
            self.held[k, arrival.flight.training] = arrival
        if together:
            self._send(sorted(chosen & set(self._idle())))
        else:
            self.wanted |= chosen
            self._send_wanted()

    def aggregate(self, trainings: Trainings) -> None:
        """Aggregate, and save before any device gets the model: a restarted server knows every version in use."""
        if self._over:
            return
        pairs = list(zip(trainings.device.tolist(), trainings.training.tolist(), strict=True))
        arrivals = [self.held.pop(pair) if pair in self.held else self.finished.pop(pair[0]) for pair in pairs]
        begin = time.perf_counter()
        time_s = self.now_s
        arrivals, notes = self.influence.bounded(arrivals, self.aggregator.versions)
        for device, kind, detail in notes:
            self.roster.note(device, kind, detail, time_s)
        outcome = self.aggregator.play_round(time_s, arrivals, group=trainings.group, aborted=self.aborted)
        self.aborted = 0
        self.history.append(time_s, arrivals, outcome, self.aggregator.train_loss(arrivals))
        self.compute_s += time.perf_counter() - begin
        flights = [a.flight for a in (*self.finished.values(), *self.held.values())] + [*self.roster.flights.values()]
        self.aggregator.forget_versions({flight.version for flight in flights})
        self.save(self._checkpoint())

    def abort(self, device: Devices) -> None:
        """End trainings. Flower cannot stop a device at work: it gets the next model, and its late result is dropped."""
        chosen = set(device.tolist())
        self.wanted -= chosen
        self.aborted += self.roster.abort(chosen)
        for k in chosen & set(self.finished):
            del self.finished[k]
            self.aborted += 1

    @property
    def under_way(self) -> Trainings:
        flights = sorted(self.roster.flights.values(), key=lambda flight: flight.device)
        return trainings_of(flights, [math.nan] * len(flights))

    def present(self) -> Devices:
        return np.array(self._idle(), np.int64)

    def draw(self, count: int) -> Devices:
        """Return the simulator's draw. Devices that are not idle are replaced by others, drawn after them."""
        rng = host_rng(self.seed, Purpose.SELECTION, self.round)
        chosen = rng.choice(self.devices, min(count, self.devices), replace=False)
        here, spare = (order[np.isin(order, self.present())] for order in (chosen, rng.permutation(self.devices)))
        spare = spare[~np.isin(spare, chosen)]
        return np.sort(np.concatenate([here, spare[: count - len(here)]]))

    def random_order(self) -> Int[np.ndarray, " K"]:
        return host_rng(self.seed, Purpose.SELECTION, self.round).permutation(self.devices)

    def first_training_s(self, device: Devices) -> Float[np.ndarray, " n"]:
        return np.array([self.groups.first_s[k] for k in device.tolist()], float)

    def by_speed(self, groups: int) -> Sequence[Devices]:
        self.groups.split(groups)
        return self.groups

    def participants(self, count: int | None) -> int:
        return min(count or self.pace.participants, self.devices)

    # ---- what a scheme waits for --------------------------------------------------------------------------------

    def _answer(self, wait: Wait) -> Trainings | None:
        """Receive until `wait` is over and return its trainings; None at the end of the experiment."""
        self._end_round()
        if wait.until_s is not None and self.now_s > wait.until_s + self.period_s:  # no burst of empty rounds
            logger.warning("%.1f s: a deadline was missed by more than a period: the clock is set back", self.now_s)
            self._zero = self.clock.now() - wait.until_s * self.pace.time_scale
        latest_s = wait.until_s if wait.within_s is None else self.now_s + wait.within_s
        pause_s = self.now_s + self.period_s  # before lost devices are sent a model again
        while not self._over and not self._beyond(latest_s if wait.until_s is not None else self.now_s):
            self._receive(latest_s)
            done = self._done(wait)
            if done is not None or (latest_s is not None and self.now_s >= latest_s - 1e-9 * self.period_s):
                return self._handed_over(wait, done)
            if wait.until_s is None and self.now_s >= pause_s:
                pause_s = self.now_s + self.period_s
                self._send_wanted()
                if wait.groups is not None:
                    self._send_lost_groups()
                if not self.roster.flights and not self.finished:  # no device is there: an empty round passes
                    self.aggregate(trainings_of([], []))
                    return self._handed_over(wait, [])
            until = math.inf if latest_s is None else self._zero + latest_s * self.pace.time_scale
            self.clock.sleep_until(min(until, self.clock.now() + self.pace.poll_real_s))
        return None

    def _done(self, wait: Wait) -> list[Arrival] | None:
        """Return the arrivals that end a wait for some of them, None while it lasts."""
        if wait.count is not None:
            first = sorted(self.finished.values(), key=lambda a: (a.finish_s, a.flight.device))[: wait.count]
            return first if len(first) == wait.count or (first and not self.roster.flights) else None
        if wait.share is not None:
            enough, counted = share_of(wait.share, len(self.roster.node_of)), set(self.finished)
            if wait.of is not None:  # at most all of these; any device if none of them is there
                chosen = set(wait.of.tolist()) & (self.roster.at_work | counted)
                enough, counted = min(enough, max(1, len(chosen))), counted & chosen if chosen else counted
            return list(self.finished.values()) if len(counted) >= enough else None
        if wait.groups is not None:
            finish_s = {device: arrival.finish_s for device, arrival in self.finished.items()}
            group = self.groups.complete(finish_s, self.roster.at_work)
            return None if group is None else [a for k, a in self.finished.items() if self.groups.of[k] == group]
        return None

    def _handed_over(self, wait: Wait, done: Collection[Arrival] | None) -> Trainings:
        arrivals = sorted(self.finished.values() if done is None else done, key=lambda a: a.flight.device)
        group = self.groups.of[arrivals[0].flight.device] if wait.groups is not None and arrivals else 0
        return trainings_of([a.flight for a in arrivals], [a.finish_s for a in arrivals], group)

    @property
    def _over(self) -> bool:
        """True after the last aggregation."""
        if self.history.diverged_round is not None or self.history.stopped_round is not None:
            return True
        if self.pace.updates is not None:
            sizes = [len(played.trainings.device) for played in self.history.rounds]
            return sum(size or self.pace.participants for size in sizes) >= self.pace.updates
        return self.pace.rounds is not None and self.round >= self.pace.rounds

    def _beyond(self, time_s: float | None) -> bool:
        return self.pace.duration_s is not None and (time_s or 0.0) > self.pace.duration_s * (1 + 1e-9)

    # ---- inside -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Wait for the devices, then start the experiment's clock. After a restart, it continues from the last round."""
        latest = self.clock.now() + self.pace.join_real_s
        while len(self._welcome()) < self.devices and self.clock.now() < latest:
            self.clock.sleep_until(min(latest, self.clock.now() + self.pace.poll_real_s))
        here = len(self.roster.node_of)
        if here < self.pace.min_devices:
            needed = f"{self.pace.min_devices} are needed (join-s, min-devices)"
            raise UserError(f"{here} devices joined within {self.pace.join_real_s:g} s, and {needed}")
        if math.isnan(self.history.initial[0]):
            self.history.initial = self.aggregator.evaluate()
        self.aggregator.warm_up()
        logger.info("%s: %d of %d devices are here", self.label, here, self.devices)
        self._end_round()
        elapsed_s = self.history.rounds[-1].time_s if self.history.rounds else 0.0
        self._zero = self.clock.now() - elapsed_s * self.pace.time_scale

    def _idle(self) -> list[int]:
        """Devices that can be sent a model: reachable, not at work, and not waiting to be aggregated."""
        return [k for k in self.roster.idle(self.post.reachable()) if k not in self.finished]

    def _send_wanted(self) -> None:
        self._send([k for k in self._idle() if k in self.wanted])

    def _send_lost_groups(self) -> None:
        """Start the groups without a device at work or finished, and the devices that have no group yet."""
        busy = self.roster.at_work | set(self.finished)
        begun = {self.groups.of[k] for k in busy if k in self.groups.of}
        self._send([k for k in self._idle() if self.groups.of.get(k) not in begun])

    def _send(self, devices: Sequence[int]) -> None:
        """Send the newest model to `devices`, each with the number of its next local training."""
        node_of, trainings = self.roster.node_of, self.roster.trainings
        orders = [Order(node=node_of[k], device=k, version=self.round, training=trainings[k]) for k in devices]
        if not orders:
            return
        messages = self.post.send(orders, self.aggregator.model, self.aggregator.gradient_shifts(devices))
        for order, message in zip(orders, messages, strict=True):
            if message is None:
                self.roster.note(order.device, "not sent", "the message could not be handed over", self.now_s)
            else:
                self.roster.depart(order.device, message, order.version, self.now_s)

    def _welcome(self) -> dict[int, int]:
        for node, device in self.post.joined().items():
            self.roster.join(node, device, self.now_s)
        return self.roster.node_of

    def _receive(self, latest_s: float | None = None) -> None:
        """Take in every usable answer and note the others. An answer in time for `latest_s` is not dated later."""
        self._welcome()
        waiting = self.roster.waiting_for()
        for answer in self.post.fetch(waiting) if waiting else ():
            now_s = min(self.now_s, math.inf if latest_s is None else latest_s)
            flight = self.roster.land(answer.message, now_s, failed=answer.error is not None)
            if flight is None:
                continue
            try:
                arrival = accept(answer, flight, self.aggregator.layout, now_s)
                staleness = self.round - flight.version
                if self.max_staleness is not None and staleness > self.max_staleness:
                    raise Refused("too stale", f"{staleness} rounds, and guards.max_staleness is {self.max_staleness}")
                if "loss" in answer.numbers and not math.isfinite(arrival.loss):
                    self.roster.note(flight.device, "no loss", f"its loss is {answer.numbers['loss']!r}"[:100], now_s)
                self.finished[flight.device] = arrival
                self.groups.note(flight.device, now_s - flight.start_s)
            except Refused as refusal:
                self.roster.note(flight.device, refusal.kind, refusal.detail, now_s)
        self.roster.give_up(self.now_s)

    def _end_round(self, *, last: bool = False) -> None:
        """Evaluate the newest model if it is due, and notify the callbacks. The devices train at the same time."""
        rounds = self.history.rounds
        due = last or self._over or self.round % self.evaluate_every == 0
        if rounds and due and math.isnan(rounds[-1].evaluation[0]):
            begin = time.perf_counter()
            accuracy, loss, objective = self.aggregator.evaluate()
            reported = rounds[-1].evaluation[2]
            rounds[-1].evaluation = (accuracy, loss, reported if math.isnan(objective) else objective)
            self.compute_s += time.perf_counter() - begin
        if self.notify(self.history) and not self._over:
            self.history.stopped_round = self.round
        self.save(self._checkpoint())  # again: with the evaluation, and with the trainings now in flight

    def _finish(self, *, wait_for_devices: bool) -> Checkpoint:
        latest_s = self.now_s + (self.pace.patience_s if wait_for_devices else 0.0)
        while self.roster.flights and self.now_s < latest_s:
            self._receive()
            self.clock.sleep_until(self.clock.now() + self.pace.poll_real_s)
        self._end_round(last=True)
        done = self._checkpoint()
        done.finished = True
        self.save(done)
        return done

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(
            label=self.label, history=self.history, model=self.aggregator.model,
            previous_model=self.aggregator.previous_model,
            state=[np.asarray(leaf) for leaf in jax.tree.leaves(self.aggregator.state)], trainings=self.roster.trainings,
            incidents=list(self.roster.incidents.values()),
            in_flight=len(self.roster.flights) + len(self.finished) + len(self.held), first_s=self.groups.first_s,
            lost=self.lost, restarts=self.restarts, compute_s=self.compute_s, lengths=self.influence.lengths,
        )  # fmt: skip

    def _resume(self, checkpoint: Checkpoint) -> None:
        self.history = checkpoint.history
        self.aggregator.resume(self.round, checkpoint.model, checkpoint.previous_model, checkpoint.state)
        self.roster.trainings = list(checkpoint.trainings)
        self.roster.incidents = {(i.device, i.kind): i for i in checkpoint.incidents}
        self.influence.lengths = dict(checkpoint.lengths)
        for device, first_s in checkpoint.first_s.items():
            self.groups.note(device, first_s)
        self.restarts, self.compute_s = checkpoint.restarts + 1, checkpoint.compute_s
        self.lost = checkpoint.lost + checkpoint.in_flight
