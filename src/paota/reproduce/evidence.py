"""What the claims are judged by, as plain arrays: nothing here knows about files or runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .statistics import break_point, first_reach, last_known, value_at

Floats = NDArray[np.float64]
BREAKS_AT = 0.05  # a method is broken by noise when it has lost 5 points of accuracy
FINAL = 5  # the last so many looks make the "final" accuracy or gap


@dataclass(frozen=True, kw_only=True)
class Curves:
    """One method in one setting, [seeds, rounds + 1] each."""

    accuracy: Floats
    time_s: Floats
    objective: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # F(w^r)

    @property
    def rounds(self) -> Floats:
        return np.broadcast_to(np.arange(self.accuracy.shape[1], dtype=float), self.accuracy.shape)

    def final_accuracy(self) -> Floats:
        return last_known(self.accuracy, FINAL)

    def accuracy_at_s(self, time_s: float) -> Floats:
        return value_at(self.accuracy, self.time_s, time_s)

    def rounds_to(self, target: float) -> Floats:
        return first_reach(self.accuracy, self.rounds, target)

    def seconds_to(self, target: float) -> Floats:
        return first_reach(self.accuracy, self.time_s, target)

    def final_objective(self) -> Floats:
        return last_known(self.objective, FINAL)


Setting = Mapping[str, Curves]  # by method


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One line of the noise sweep: levels in dBm/Hz (the first means no noise), final accuracy [levels, seeds]."""

    title: str
    levels_dbm: tuple[float, ...]
    accuracy: Floats
    path_loss: bool = False

    def breaks_dbm(self) -> Floats:
        """Where each seed breaks."""
        return np.array([break_point(self.levels_dbm, column, BREAKS_AT) for column in self.accuracy.T])

    def break_of_median_dbm(self) -> float:
        return break_point(self.levels_dbm, np.median(self.accuracy, axis=1), BREAKS_AT)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that the claims of the paper are about."""

    quiet: Setting  # N0 = -174 dBm/Hz, dT = 8 s
    loud: Setting  # N0 = -74 dBm/Hz; Local SGD, which has no channel, is the same as in `quiet`
    six: Setting  # N0 = -174 dBm/Hz, dT = 6 s
    optimum: Floats  # F(w*) of each seed
    noise: Mapping[str, Sweep] = field(default_factory=dict)
    targets: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)

    def gap(self, setting: Setting, method: str) -> Floats:
        """F(w^r) - F(w*), [seeds, rounds + 1]."""
        return setting[method].objective - self.optimum[:, None]
