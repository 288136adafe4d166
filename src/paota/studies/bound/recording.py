"""A run that keeps every global model: the same run, bit for bit, with somebody watching."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import simulate
from ...base.errors import UserError, unknown_name
from ...callbacks.base import Callback, Round
from ...experiment.experiment import AlgorithmConfig, Experiment
from ...results.result import Trajectory


@dataclass(frozen=True, kw_only=True)
class Record:
    """One algorithm with one seed, and its global models w^0, w^1, ..., w^R."""

    plan: simulate.PreparedRun
    entry: AlgorithmConfig
    seed: int
    trajectory: Trajectory
    models: NDArray[np.float32]  # [R+1, d]

    @property
    def max_staleness(self) -> int:
        """The largest s_k that occurred."""
        return int(np.max(self.trajectory.devices["staleness"], initial=0))


class _ModelKeeper(Callback):
    """Keeps the model of every round."""

    models = True

    def __init__(self) -> None:
        self.kept: list[NDArray[Any]] = []

    def round(self, round: Round) -> None:
        assert round.model is not None
        self.kept.append(round.model)


def chosen_of(experiment: Experiment, label: str | None) -> AlgorithmConfig:
    """The algorithm that `label` names; the first one without it."""
    labels = [c.label for c in experiment.algorithms]
    if label is not None and label not in labels:
        raise unknown_name("algorithm label", label, labels)
    return experiment.algorithms[labels.index(label) if label is not None else 0]


def record(experiment: Experiment, *, label: str | None = None) -> Record:
    """Run one algorithm of an experiment (its first one, unless `label` names another) and keep every model."""
    chosen = chosen_of(experiment, label)
    plan = simulate.prepare(replace(experiment, algorithms=(chosen,)), seeds=1)
    keeper = _ModelKeeper()
    trajectory = simulate.execute(plan, callbacks=[keeper]).trajectories[0]
    if trajectory.diverged_round is not None:
        raise UserError(f"'{chosen.label}' diverges in round {trajectory.diverged_round}: no bound to compare with")
    return Record(plan=plan, entry=chosen, seed=experiment.seed, trajectory=trajectory, models=np.stack(keeper.kept))
