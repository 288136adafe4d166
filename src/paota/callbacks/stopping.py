"""Stopping early, decided on rounds alone, so that the same run always ends in the same round."""

from __future__ import annotations

import math

from ..training.settings import Evaluation
from .base import Callback, Round


class StopAt(Callback):
    """Stops a unit in the first round whose test accuracy is at least `accuracy` (0 to 1)."""

    def __init__(self, accuracy: float) -> None:
        self.accuracy = accuracy

    def round(self, round: Round) -> bool:
        return round.test_accuracy >= self.accuracy  # NaN is not


class Patience(Callback):
    """Stops a unit when its test accuracy has not risen above its best for `looks` evaluations in a row."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self._best: dict[tuple[str, int], float] = {}
        self._since: dict[tuple[str, int], int] = {}  # evaluations since the best one

    def round(self, round: Round) -> bool:
        if not round.evaluated:
            return False
        unit = round.label, round.seed
        if round.test_accuracy > self._best.get(unit, -math.inf):
            self._best[unit], self._since[unit] = round.test_accuracy, 0
        else:
            self._since[unit] += 1
        return self._since[unit] >= self.looks


def stopping_rules(evaluation: Evaluation) -> list[Callback]:
    """What the settings `stop_at` and `patience` ask for."""
    rules: list[Callback] = []
    if evaluation.stop_at is not None:
        rules.append(StopAt(evaluation.stop_at))
    if evaluation.patience is not None:
        rules.append(Patience(evaluation.patience))
    return rules
