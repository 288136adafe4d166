"""The evidence of the claims, as plain arrays that are independent of files and runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...results import measures
from ...results.inference import Bounds
from ...results.measures import Floats

NAMES = {"paota": "PAOTA", "paota-update": "PAOTA (update)", "local-sgd": "Local SGD", "cotaf": "COTAF"}
BREAKS_AT = 0.05  # a method is broken by noise when it has lost 5 points of accuracy


class Radiated(NamedTuple):
    """The power |phi_k payload_k|^2 of a method's transmissions (Eq. individual_power)."""

    median_w: float  # over rounds and seeds, of the mean over the transmitting devices
    over_budget: float  # the share of transmissions above P_max, 0 to 1


@dataclass(frozen=True, kw_only=True)
class Curves:
    """One method in one setting: `[seeds, rounds + 1]` each, NaN without an evaluation or after the end of a shorter run."""

    accuracy: Floats  # of the test set, 0 to 1
    time_s: Floats  # simulated
    objective: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # F(w^r)
    diverged: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((), bool))  # [seeds]; by default none
    radiated: Radiated | None = None  # None: it does not use the air

    @property
    def rounds(self) -> Floats:
        """The round number of each value, [seeds, rounds + 1]."""
        return np.broadcast_to(np.arange(self.accuracy.shape[1], dtype=float), self.accuracy.shape)

    def final_accuracy(self) -> Floats:
        """Return the last test accuracy, [seeds]."""
        return self.accuracy_at_s(math.inf)

    def accuracy_at_s(self, time_s: float) -> Floats:
        """Return the newest test accuracy at a simulated time, [seeds]."""
        return measures.newest(self.accuracy, self.time_s, time_s, diverged=self.diverged, lost=0.0)

    def objective_bounds(self) -> Bounds:
        """Return F(w^r), [seeds, rounds + 1]; after divergence it is at least that of the initial model."""
        lost = np.broadcast_to(self.diverged, len(self.objective))[:, None] & np.isnan(self.objective)
        return Bounds(np.where(lost, self.objective[:, :1], self.objective), np.where(lost, math.inf, self.objective))

    def final_objective(self) -> Bounds:
        """Return the last known F(w^r), [seeds]; after divergence it is at least that of the initial model."""
        last = measures.newest(self.objective)
        return Bounds(np.where(self.diverged, self.objective[:, 0], last), np.where(self.diverged, math.inf, last))

    def seen_until_s(self) -> Floats:
        """Return the last simulated second of each seed, [seeds]: a lower bound for targets that were not reached."""
        return self._seen_until(self.time_s)

    def seen_until_round(self) -> Floats:
        """Return the last round of each seed, [seeds]."""
        return self._seen_until(np.where(np.isnan(self.time_s), np.nan, self.rounds))

    def _seen_until(self, along: Floats) -> Floats:
        last = np.nanmax(along, axis=1)
        return np.where(self.diverged, last.max(), last)  # a run that diverged never reaches the target

    def rounds_to(self, target: float) -> Floats:
        """Return the rounds to a test accuracy, [seeds]; infinite if it is never reached."""
        return measures.first_reach(self.accuracy, self.rounds, target, self.diverged)

    def seconds_to(self, target: float) -> Floats:
        """Return the simulated seconds to a test accuracy, [seeds]; infinite if it is never reached."""
        return measures.first_reach(self.accuracy, self.time_s, target, self.diverged)


Setting = Mapping[str, Curves]  # by method


@dataclass(frozen=True, kw_only=True)
class NoiseCurve:
    """One method against the noise: levels in dBm/Hz (the first means no noise), final accuracy `[levels, seeds]`."""

    title: str
    levels_dbm: tuple[float, ...]
    accuracy: Floats
    path_loss: bool = False
    radiated: Radiated | None = None

    def lost(self, quiet_dbm: float, loud_dbm: float) -> Floats:
        """Return the accuracy that each seed loses between two of the levels, [seeds]."""
        quiet, loud = (self.accuracy[self.levels_dbm.index(level)] for level in (quiet_dbm, loud_dbm))
        return quiet - loud

    def break_bounds_dbm(self) -> Bounds:
        """Return bounds of the noise level at which each seed breaks, [seeds]; it may lie outside the measured levels."""
        where = self.breaks_dbm()
        never, at_once = np.isposinf(where), np.isneginf(where)
        return Bounds(np.where(never, self.levels_dbm[-1], where), np.where(at_once, self.levels_dbm[1], where))

    def breaks_dbm(self) -> Floats:
        """Return the noise level at which each seed breaks, [seeds]."""
        return np.array([break_point(self.levels_dbm, column, BREAKS_AT) for column in self.accuracy.T])


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All data that decide the claims of the paper."""

    quiet: Setting  # N0 = -174 dBm/Hz, dT = 8 s
    loud: Setting  # N0 = -74 dBm/Hz; Local SGD, which has no channel, is the same as in `quiet`
    six: Setting  # N0 = -174 dBm/Hz, dT = 6 s
    optimum: Floats  # F(w*) of each seed
    noise: Mapping[str, NoiseCurve] = field(default_factory=dict)
    targets: tuple[float, ...] = (0.5, 0.6, 0.7, 0.8)

    def gap(self, setting: Setting, method: str) -> Floats:
        """Return F(w^r) - F(w*), [seeds, rounds + 1]."""
        return setting[method].objective - self.optimum[:, None]


def break_point(levels: Sequence[float], accuracy: Floats, drop: float) -> float:
    """Return the level at which the accuracy has fallen by `drop` below that of the first level, which means no noise.

    The result is infinite if the accuracy never falls so far, and minus infinity if it does at the second level.

    Args:
        levels: Noise levels in dBm/Hz, [levels]; they rise from the second one on.
        accuracy: Accuracy at each level, [levels]; linear between two levels.
        drop: Loss of accuracy, 0 to 1.
    """
    floor = accuracy[0] - drop
    for i in range(1, len(levels)):
        if not accuracy[i] >= floor:  # NaN counts as broken
            if i == 1:
                return -math.inf
            above = accuracy[i - 1] - floor
            fall = accuracy[i - 1] - np.nan_to_num(accuracy[i], nan=0.0)
            return float(levels[i - 1] + (levels[i] - levels[i - 1]) * above / fall)
    return math.inf
