"""What the server computes at a deadline: the simulator's own aggregation and judgement, fed by real devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import engine
from ..experiment import Contestant
from ..training.learner import Trained
from .answers import Arrival
from .layout import Layout

SMALLEST_PADDING = 8


class Concluded(NamedTuple):
    """The outcome of one event; [n] arrays in the order of the arrivals."""

    model: NDArray[np.float32]
    state: Any
    noise_std: float
    train_loss: float  # of the mini-batches
    weight: NDArray[Any]
    amplitude: NDArray[Any]
    similarity: NDArray[Any]
    transmit_power_w: NDArray[Any]
    channel_gain: NDArray[Any]


class Kept(NamedTuple):
    """What is kept from one event to the next beside the model."""

    server: Any  # by the algorithm
    optimiser: Any  # by the server's optimiser
    devices: Any  # by the devices, [K, ...] each: the server works it out from what they send, as it does their reports


class Aggregator:
    """One algorithm of the experiment. Channel and noise come from the keys (seed, round, device) of the simulator."""

    def __init__(self, task: engine.Task, fleet: engine.Fleet, contestant: Contestant, seed: int) -> None:
        self.task, self.fleet = task, fleet
        self.rule = engine.Rule.of(contestant)
        self.num_devices = len(fleet.shard_sizes)
        self.initial_model = np.asarray(task.initial_model(seed))
        self.layout = Layout.of(task.parameters)
        self._key = jax.random.key(seed)

    def warm_up(self) -> None:
        """Compile before the clock runs: the first deadline should not wait for it."""
        zeros = np.zeros_like(self.initial_model)
        for padded in {self._padding(1), self._padding(self.num_devices)}:
            self._run(0, 0.0, zeros, zeros, self.initial_state(), _blank(padded, zeros.size))

    def _padding(self, n: int) -> int:
        """Few sizes, so that the step is compiled a handful of times however many devices come."""
        return max(n, min(max(SMALLEST_PADDING, 1 << max(0, n - 1).bit_length()), self.num_devices))

    def initial_state(self) -> Kept:
        """Before the first round."""
        state = engine.State.initial(self.rule, jnp.asarray(self.initial_model), 1, self.num_devices)
        return Kept(state.server, state.optimiser, state.devices)

    def gradient_shifts(self, state: Kept, devices: Sequence[int]) -> NDArray[np.float32] | None:
        """What each of `devices` adds to its gradients, [n, d]; None for an algorithm that leaves them alone."""
        algorithm = self.rule.algorithm
        if not algorithm.shifts_gradients:
            return None
        memory = [jax.tree.map(lambda column: column[k], state.devices) for k in devices]  # noqa: B023
        return np.stack([np.asarray(algorithm.gradient_shift(one, state.server), np.float32) for one in memory])

    def judge(self, model: NDArray[Any]) -> tuple[float, float, float]:
        """(test accuracy, test loss, F(w)) with the data that the server holds."""
        accuracy, loss, objective, _ = engine.judge(self.task, jnp.asarray(model), self.fleet)
        return float(accuracy), float(loss), float(objective)

    def __call__(
        self,
        round: int,
        time_s: float,
        model: NDArray[Any],
        previous_model: NDArray[Any],
        starts: Mapping[int, NDArray[Any]],
        state: Any,
        arrivals: Sequence[Arrival],
        group: int = 0,
    ) -> Concluded:
        """w^(r+1) from w^r and the arrivals of a `group`; `starts` holds the model of every version they started from."""
        n = len(arrivals)
        padded = self._padding(n)
        inputs = _blank(padded, model.size)
        inputs.ready[:n] = True
        inputs.version[:] = round
        for i, arrival in enumerate(arrivals):
            flight = arrival.flight
            inputs.device[i], inputs.version[i], inputs.training[i] = flight.device, flight.version, flight.training
            inputs.start[i], inputs.local[i] = starts[flight.version], arrival.model
            inputs.num_samples[i], inputs.loss[i] = arrival.num_samples, arrival.loss
        outcome = self._run(round, time_s, model, previous_model, state, inputs, group)
        return Concluded(
            model=np.asarray(outcome.model),
            state=outcome.state,
            noise_std=float(outcome.noise_std) if n else math.nan,
            train_loss=_mean_loss(arrivals) if n and self.task.train_loss == "batches" else math.nan,
            weight=np.asarray(outcome.weight)[:n],
            amplitude=np.asarray(outcome.amplitude)[:n],
            similarity=np.asarray(outcome.similarity)[:n],
            transmit_power_w=np.asarray(outcome.transmit_power_w)[:n],
            channel_gain=np.asarray(outcome.channel_gain)[:n],
        )

    def _run(
        self, round: int, time_s: float, model: Any, previous_model: Any, state: Kept, inputs: _Inputs, group: int = 0
    ) -> Any:
        when = np.int32(round), np.float32(time_s), np.int32(group), np.float32(self.num_devices)
        return _aggregate(self.rule, self._key, *when, model, previous_model, state, inputs)


def _mean_loss(arrivals: Sequence[Arrival]) -> float:
    told = [arrival.loss for arrival in arrivals if math.isfinite(arrival.loss)]
    return float(np.mean(told)) if told else math.nan


class _Inputs(NamedTuple):
    """What the devices of one event bring, padded."""

    ready: NDArray[np.bool_]
    device: NDArray[np.int32]
    version: NDArray[np.int32]
    training: NDArray[np.int32]
    start: NDArray[np.float32]  # [n, d]
    local: NDArray[np.float32]  # [n, d]
    num_samples: NDArray[np.float32]
    loss: NDArray[np.float32]  # NaN where a device does not say


def _blank(n: int, d: int) -> _Inputs:
    def whole() -> NDArray[np.int32]:
        return np.zeros(n, np.int32)

    vectors = np.zeros((2, n, d), np.float32)
    ones, zeros = np.ones(n, np.float32), np.zeros(n, np.float32)
    return _Inputs(np.zeros(n, bool), whole(), whole(), whole(), vectors[0], vectors[1], ones, zeros)


@jax.jit
def _aggregate(
    rule: engine.Rule, key: Any, round: Any, time_s: Any, group: Any, num_devices: Any, model: Any, previous_model: Any,
    state: Kept, inputs: Any,
) -> engine.Served:  # fmt: skip
    row = engine.Row(
        round=round, time_s=time_s, evaluate=jnp.zeros((), bool), ready=inputs.ready, device=inputs.device,
        version=inputs.version, training=inputs.training, group=group,
    )  # fmt: skip
    trained = Trained(inputs.local, inputs.local - inputs.start, inputs.loss)
    memory = jax.tree.map(lambda column: column[row.device], state.devices)
    prepared = engine.prepare(
        rule, key, row, trained, model, previous_model, inputs.num_samples, memory, state.server, inputs.start
    )
    event = engine.event_of(row, prepared, model, previous_model, inputs.num_samples, num_devices, state.server)
    uplink = engine.uplink_of(rule, key, row, prepared.ready, model.size)
    decision = engine.decide(rule.algorithm, rule.power, event, uplink)
    everything = prepared.payload if rule.algorithm.needs_payloads else None
    sums = engine.superpose(decision.gains, prepared.payload)
    served = engine.conclude(rule.algorithm, event, decision, sums, everything)
    served, optimiser = engine.optimise(rule.server, model, served._replace(memory=prepared.memory), state.optimiser)
    devices = engine.remembered(state.devices, row.device, served)
    return served._replace(state=Kept(served.state, optimiser, devices))
