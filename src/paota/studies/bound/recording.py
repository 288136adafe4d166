"""A run that keeps every global model. Its results are bit-identical to those of the same run without keeping them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
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
    models: Float[np.ndarray, "R+1 d"]

    @property
    def max_staleness(self) -> int:
        """The largest staleness s_k of the run, in rounds."""
        return int(np.max(self.trajectory.devices["staleness"], initial=0))

    @property
    def weight_sums(self) -> NDArray[np.float64]:
        """sum_k alpha_k of every round in which a device transmits."""
        weight, rounds = self._weights
        sums: NDArray[np.float64] = np.bincount(rounds, weight).astype(np.float64)
        return sums[np.bincount(rounds, weight != 0) > 0]

    @property
    def weight_peak(self) -> float:
        """kappa: the largest n max_k alpha_k of all rounds with n ready devices; at least 1."""
        weight, rounds = self._weights
        return float(np.max(np.bincount(rounds)[rounds] * weight, initial=1.0))

    @property
    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        devices = self.trajectory.devices
        return devices["weight"].astype(np.float64), devices["round"]


class _ModelKeeper(Callback):
    """A callback that keeps the global model of every round."""

    models = True

    def __init__(self) -> None:
        self.kept: list[NDArray[np.float32]] = []

    def round(self, round: Round) -> None:
        assert round.model is not None
        self.kept.append(round.model)


def chosen_of(experiment: Experiment, label: str | None) -> AlgorithmConfig:
    """Return the algorithm with this label, by default the first one."""
    labels = [c.label for c in experiment.algorithms]
    if label is not None and label not in labels:
        raise unknown_name("algorithm label", label, labels)
    return experiment.algorithms[labels.index(label) if label is not None else 0]


def record(experiment: Experiment, *, label: str | None = None) -> Record:
    """Run one algorithm of an experiment and keep every global model.

    Args:
        experiment: The experiment; its seed is used.
        label: Label of the algorithm, by default that of the first one.
    """
    chosen = chosen_of(experiment, label)
    plan = simulate.prepare(replace(experiment, algorithms=(chosen,)), seeds=1)
    keeper = _ModelKeeper()
    trajectory = simulate.execute(plan, callbacks=[keeper]).trajectories[0]
    if trajectory.diverged_round is not None:
        raise UserError(f"'{chosen.label}' diverges in round {trajectory.diverged_round}: no bound to compare with")
    return Record(plan=plan, entry=chosen, seed=experiment.seed, trajectory=trajectory, models=np.stack(keeper.kept))
