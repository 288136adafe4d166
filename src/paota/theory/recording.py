"""A run that keeps every global model: the same run, bit for bit, with somebody watching."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback
from numpy.typing import NDArray

from .. import simulate
from ..algorithms.base import Algorithm, Event, Outcome, World
from ..errors import UserError, unknown_name
from ..experiment import Contestant, Experiment
from ..runs.results import Trajectory
from ..timing.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class Record:
    """One algorithm with one seed, and its global models w^0, w^1, ..., w^R."""

    plan: simulate.Plan
    contestant: Contestant
    seed: int
    trajectory: Trajectory
    models: NDArray[np.float32]  # [R+1, d]

    @property
    def max_staleness(self) -> int:
        return int(np.max(self.trajectory.devices["staleness"], initial=0))


def record(experiment: Experiment, *, label: str | None = None) -> Record:
    """Run one algorithm of an experiment (its first one, unless `label` names another) and keep every model."""
    labels = [c.label for c in experiment.contestants]
    if label is not None and label not in labels:
        raise unknown_name("algorithm label", label, labels)
    chosen = experiment.contestants[labels.index(label) if label is not None else 0]
    kept: dict[int, NDArray[np.float32]] = {}
    everything_else = {f.name: getattr(chosen, f.name) for f in fields(chosen) if f.name != "algorithm"}
    watched = _Watched(algorithm=_Watching(inner=chosen.algorithm, sink=_Sink(kept)), **everything_else)
    plan = simulate.plan(replace(experiment, contestants=(watched,)), seeds=1)
    trajectory = simulate.execute(plan).trajectories[0]
    jax.effects_barrier()  # type: ignore[no-untyped-call]
    rounds = len(trajectory.metrics["round"]) - 1
    if trajectory.diverged_round is not None:
        raise UserError(f"'{chosen.label}' diverges in round {trajectory.diverged_round}: no bound to compare with")
    return Record(
        plan=plan,
        contestant=chosen,
        seed=experiment.seed,
        trajectory=trajectory,
        models=np.stack([*(kept[r] for r in range(rounds)), np.asarray(trajectory.model)]),
    )


@dataclass(frozen=True)
class _Sink:
    """Where the compiled program drops the models; compared by identity, so every record has its own program."""

    kept: dict[int, NDArray[np.float32]]

    def __call__(self, round: Any, model: Any) -> None:
        self.kept[int(round)] = np.array(model)

    def __hash__(self) -> int:
        return id(self.kept)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sink) and other.kept is self.kept


@dataclass(frozen=True, kw_only=True)
class _Watching(Algorithm):
    """Any algorithm, with w^r handed to the host before each aggregation."""

    inner: Algorithm
    sink: Any

    def timeline(self, world: World) -> Timeline:
        return self.inner.timeline(world)

    def init(self, model: jax.Array) -> Any:
        return self.inner.init(model)

    def aggregate(self, event: Event, uplink: Any, power: Any) -> Outcome:
        io_callback(self.sink, None, event.round, event.model, ordered=True)
        return self.inner.aggregate(event, uplink, power)


@dataclass(frozen=True, kw_only=True)
class _Watched(Contestant):
    @property
    def algorithm_name(self) -> str:
        return "recorded"
