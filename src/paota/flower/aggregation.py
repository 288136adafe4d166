"""What the server computes at a deadline: the simulator's own aggregation and judgement, fed by real devices."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .. import engine, settings, simulate
from ..experiment import Contestant
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


class Aggregator:
    """One algorithm of the experiment. Channel and noise come from the keys (seed, round, device) of the simulator."""

    def __init__(self, simulator: simulate.Simulator, contestant: Contestant, seed: int) -> None:
        experiment = simulator.plan.experiment
        self.program: engine.Program = simulator._program(contestant)
        self.rule: engine.Rule = simulate._rule(contestant)
        self.num_devices = experiment.data.devices
        self._batch_loss = experiment.evaluation.train_loss == "batches"
        self.initial_model = np.asarray(self.program.initial_model(seed))
        self.layout = Layout.of(self.program.unravel(jnp.asarray(self.initial_model)))
        self._numbers = {name: jnp.asarray(value, float) for name, value in settings.floats(self.rule).items()}
        self._key = jax.random.key(seed)
        self._step = jax.jit(functools.partial(_aggregate, self.program, self.num_devices))
        self._fleet = simulator._fleet(seed, self.program.learner)

    def warm_up(self) -> None:
        """Compile before the clock runs: the first deadline should not wait for it."""
        zeros = np.zeros_like(self.initial_model)
        for padded in {self._padding(1), self._padding(self.num_devices)}:
            self._run(0, 0.0, zeros, zeros, self.initial_state(), _blank(padded, zeros.size))

    def _padding(self, n: int) -> int:
        """Few sizes, so that the step is compiled a handful of times however many devices come."""
        return max(n, min(max(SMALLEST_PADDING, 1 << max(0, n - 1).bit_length()), self.num_devices))

    def initial_state(self) -> Any:
        return self.rule.algorithm.init(jnp.asarray(self.initial_model))

    def judge(self, model: NDArray[Any]) -> tuple[float, float, float]:
        """(test accuracy, test loss, F(w)) with the data that the server holds."""
        accuracy, loss, objective = self.program.judge(jnp.asarray(model), self._fleet)
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
    ) -> Concluded:
        """w^(r+1) from w^r and the arrivals; `starts` holds the model of every version that they started from."""
        n = len(arrivals)
        padded = self._padding(n)
        inputs = _blank(padded, model.size)
        inputs.ready[:n] = True
        inputs.version[:] = round
        for i, arrival in enumerate(arrivals):
            flight = arrival.flight
            inputs.device[i], inputs.version[i], inputs.training[i] = flight.device, flight.version, flight.training
            inputs.start[i], inputs.local[i] = starts[flight.version], arrival.model
            inputs.num_samples[i] = arrival.num_samples
        outcome = self._run(round, time_s, model, previous_model, state, inputs)
        return Concluded(
            model=np.asarray(outcome.model),
            state=outcome.state,
            noise_std=float(outcome.noise_std) if n else math.nan,
            train_loss=float(np.mean([a.loss for a in arrivals])) if n and self._batch_loss else math.nan,
            weight=np.asarray(outcome.weight)[:n],
            amplitude=np.asarray(outcome.amplitude)[:n],
            similarity=np.asarray(outcome.similarity)[:n],
            transmit_power_w=np.asarray(outcome.transmit_power_w)[:n],
        )

    def _run(self, round: int, time_s: float, model: Any, previous_model: Any, state: Any, inputs: _Inputs) -> Any:
        when = np.int32(round), np.float32(time_s)
        return self._step(self._numbers, self._key, *when, model, previous_model, state, inputs)


class _Inputs(NamedTuple):
    """What the devices of one event bring, padded."""

    ready: NDArray[np.bool_]
    device: NDArray[np.int32]
    version: NDArray[np.int32]
    training: NDArray[np.int32]
    start: NDArray[np.float32]  # [n, d]
    local: NDArray[np.float32]  # [n, d]
    num_samples: NDArray[np.float32]


def _blank(n: int, d: int) -> _Inputs:
    def whole() -> NDArray[np.int32]:
        return np.zeros(n, np.int32)

    vectors = np.zeros((2, n, d), np.float32)
    return _Inputs(np.zeros(n, bool), whole(), whole(), whole(), vectors[0], vectors[1], np.ones(n, np.float32))


def _aggregate(
    program: engine.Program, num_devices: int, numbers: Any, key: Any, round: Any, time_s: Any, model: Any,
    previous_model: Any, state: Any, inputs: Any,
) -> Any:  # fmt: skip
    rule = settings.replace_floats(program.template, numbers)
    row = engine.Rows(
        round=round, evaluate=False, ready=inputs.ready, device=inputs.device, version=inputs.version,  # type: ignore[arg-type]
        training=inputs.training, time_s=time_s,
    )  # fmt: skip
    return program.aggregate(
        rule, key, row, model, previous_model, inputs.start, inputs.local,
        num_samples=inputs.num_samples, num_devices=num_devices, state=state,
    )  # fmt: skip
