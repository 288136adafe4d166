"""The learning half of a deployment's server: the simulator's own round and evaluation, fed by real devices."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from .. import engine
from ..base.types import Table
from ..experiment.experiment import AlgorithmConfig
from ..training.learner import LocalUpdates
from .answers import Arrival
from .transport import Layout

SMALLEST_PADDING = 8

Played = tuple[engine.RoundOutcome, engine.State]


class Aggregator:
    """The model and the state of one algorithm. Channel and noise come from the simulator's keys (seed, round, device)."""

    def __init__(
        self, problem: engine.LearningProblem, data: engine.DeviceData, entry: AlgorithmConfig, seed: int
    ) -> None:
        self.problem, self.data = problem, data
        self.config = engine.RoundConfig.of(entry)
        self.num_devices = len(data.shard_sizes)
        self.layout = Layout.of(problem.parameters)
        self.model = self.previous_model = np.asarray(problem.initial_model(seed))
        # The server computes the devices' reports and memories from the models that they send.
        initial = engine.State.initial(self.config, jnp.asarray(self.model), 1, self.num_devices)
        self.state = initial._replace(ring=())
        self.round = 0
        self.versions = {0: self.model}  # w^v of every version that a training may still start from
        self._key = jax.random.key(seed)

    def resume(
        self, round: int, model: Float[np.ndarray, " d"], previous_model: Float[np.ndarray, " d"], leaves: PyTree
    ) -> None:
        """Continue from a checkpoint. `leaves` are the leaves of the state."""
        self.round, self.model, self.previous_model, self.versions = round, model, previous_model, {round: model}
        self.state = jax.tree.unflatten(jax.tree.structure(self.state), leaves)

    def play_round(
        self, time_s: float, arrivals: Sequence[Arrival], *, group: int = 0, aborted: int = 0
    ) -> engine.RoundOutcome:
        """Compute the next model from n arrivals. The outcome's arrays [n] are in their order."""
        n = len(arrivals)
        outcome, state = self._play(time_s, arrivals, self._padding(n), group, aborted)
        self.previous_model, self.model, self.state = self.model, np.asarray(outcome.model), state
        self.round += 1
        self.versions[self.round] = self.model
        on_host: Table = {name: np.asarray(getattr(outcome, name))[:n] for name in engine.PER_DEVICE}
        if outcome.left_out is not None:
            on_host["left_out"] = np.asarray(outcome.left_out)[:n]
        on_host |= {"model": self.model, "noise_std": float(outcome.noise_std) if n else math.nan}
        return outcome._replace(**on_host)

    def train_loss(self, arrivals: Sequence[Arrival]) -> float:
        """Return the mean loss that the devices report; NaN unless the experiment records it."""
        reported = [arrival.loss for arrival in arrivals if math.isfinite(arrival.loss)]
        return float(np.mean(reported)) if reported and self.problem.train_loss == "batches" else math.nan

    def forget_versions(self, wanted: Collection[int]) -> None:
        """Drop all versions except the newest and those that are `wanted`."""
        self.versions = {v: w for v, w in self.versions.items() if v in wanted or v == self.round}

    def warm_up(self) -> None:
        """Compile before the clock starts, so that the first deadline does not wait for it."""
        for padded in {self._padding(1), self._padding(self.num_devices)}:
            self._play(0.0, (), padded, 0, 0)

    def gradient_shifts(self, devices: Sequence[int]) -> Float[np.ndarray, "n d"] | None:
        """Return what each device adds to its gradients, None for an algorithm that does not shift gradients."""
        algorithm = self.config.algorithm
        if not algorithm.shifts_gradients:
            return None
        memory = [jax.tree.map(lambda column: column[k], self.state.devices) for k in devices]  # noqa: B023
        return np.stack([np.asarray(algorithm.gradient_shift(one, self.state.server), np.float32) for one in memory])

    def evaluate(self) -> tuple[float, float, float]:
        """Return test accuracy, test loss and F(w) of the newest model on the server's data."""
        accuracy, loss, objective, _ = engine.evaluate_model(self.problem, jnp.asarray(self.model), self.data)
        return float(accuracy), float(loss), float(objective)

    def _padding(self, n: int) -> int:
        """Return the padded number of places. There are few sizes, so few programs are compiled."""
        return max(n, min(max(SMALLEST_PADDING, 1 << max(0, n - 1).bit_length()), self.num_devices))

    def _play(self, time_s: float, arrivals: Sequence[Arrival], places: int, group: int, aborted: int) -> Played:
        n, d = len(arrivals), self.model.size
        flights = [arrival.flight for arrival in arrivals]

        def column(kind: type[np.generic], values: Sequence[float], padding: float) -> np.ndarray:
            return np.concatenate([np.asarray(values, kind), np.full(places - n, padding, kind)])

        inputs = engine.EventInputs(
            round=np.int32(self.round), time_s=np.float32(time_s), evaluate=np.zeros((), bool),  # type: ignore[arg-type]
            ready=np.arange(places) < n,  # type: ignore[arg-type]
            device=column(np.int32, [f.device for f in flights], 0),  # type: ignore[arg-type]
            version=column(np.int32, [f.version for f in flights], self.round),  # type: ignore[arg-type]
            training=column(np.int32, [f.training for f in flights], 0),  # type: ignore[arg-type]
            aborted=np.int32(aborted), group=np.int32(group),  # type: ignore[arg-type]
        )  # fmt: skip
        start, local = np.zeros((2, places, d), np.float32)
        for i, arrival in enumerate(arrivals):
            start[i], local[i] = self.versions[arrival.flight.version], arrival.model
        loss = column(np.float32, [arrival.loss for arrival in arrivals], 0.0)
        before = engine.RoundStart(
            inputs, self.model, self.previous_model,  # type: ignore[arg-type]
            num_samples=column(np.float32, [arrival.num_samples for arrival in arrivals], 1.0),  # type: ignore[arg-type]
            num_devices=np.float32(self.num_devices), state=self.state,  # type: ignore[arg-type]
        )  # fmt: skip
        played: Played = _play(self.config, self._key, before, start, local, loss)
        return played


@jax.jit
def _play(
    config: engine.RoundConfig, key: jax.Array, before: engine.RoundStart,
    start: Float[Array, "n d"], local: Float[Array, "n d"], loss: Float[Array, " n"],
) -> Played:  # fmt: skip
    def devices(inputs: engine.EventInputs) -> engine.DeviceSignals:
        return engine.prepare(config, key, before, LocalUpdates(local, local - start, loss), start)

    return engine.play_round(config, key, before, devices)[:2]
