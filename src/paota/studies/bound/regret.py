"""A bound that says something at the learning rates of practice: for a convex F, from convexity alone.

Write w^(r+1) = w^r - eta M (grad F(w^r) + e^r): e^r is everything that keeps a round from being a step of gradient
descent on F, i.e. mini-batches, local drift, heterogeneity, staleness and the channel. For any model u, summing
|w^(r+1) - u|^2 over R rounds and using F(w^r) - F(u) <= <grad F(w^r), w^r - u> gives

    mean_r F(w^r) - F* <= F(u) - F* + |w^0 - u|^2 / (2 eta M R)       comparator and start: known before the run
                          + sum_r |w^(r+1) - w^r|^2 / (2 eta M R)      steps: measured along the run
                          - mean_r <e^r, w^r - u>                      errors: measured along the run

for every single run: no smoothness, no variance, no expectation, whatever payload, staleness and weights. With
|e^r| |w^r - u| in the last line only the lengths of the errors need be known, not where they point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize

from ...models.base import Model
from ...models.mlp import Softmax
from .estimate import Path
from .landscape import Landscape
from .theorem import System

Floats = NDArray[np.float64]

CONVEX = (Softmax,)  # models whose loss is convex in their parameters
SEARCH = 40  # steps of L-BFGS for the comparator; any u is valid, a better one only makes the bound smaller


@dataclass(frozen=True, kw_only=True)
class Regret:
    """The parts of the bound for the first R = 1, 2, ... rounds, [rounds] each, in units of F."""

    mean_gap: Floats  # measured: mean over r < R of F(w^r) - F*
    comparator: float  # F(u) - F*
    start: Floats  # |w^0 - u|^2 / (2 eta M R)
    step: Floats  # sum |w^(r+1) - w^r|^2 / (2 eta M R)
    error: Floats  # -mean <e^r, w^r - u>; may be negative
    error_length: Floats  # mean |e^r| |w^r - u|

    @property
    def bound(self) -> Floats:
        """With the errors as they were."""
        return self.comparator + self.start + self.step + self.error

    @property
    def length_bound(self) -> Floats:
        """With errors of the same lengths in the worst direction."""
        return self.comparator + self.start + self.step + self.error_length

    def at_the_end(self) -> dict[str, float]:
        """The measured mean, both bounds and their parts after the last round."""
        parts = {
            "mean_gap": self.mean_gap, "bound": self.bound, "length_bound": self.length_bound,
            "start": self.start, "step": self.step, "error": self.error, "error_length": self.error_length,
        }  # fmt: skip
        return {"comparator": self.comparator} | {name: float(values[-1]) for name, values in parts.items()}


def is_convex(model: Model) -> bool:
    """Whether F is known to be convex for this model."""
    return isinstance(model, CONVEX)


def regret_of(path: Path, system: System, comparator: Floats, comparator_value: float, best: float) -> Regret:
    """The bound along `path` against the model `comparator` [d] with F = `comparator_value`; `best` is F*."""
    scale = system.learning_rate * system.local_steps
    rounds = np.arange(1, len(path.models))
    moves = np.diff(path.models, axis=0)
    errors = -moves / scale - path.gradients[:-1]
    away = path.models[:-1] - comparator

    def mean(values: Floats) -> Floats:
        averaged: Floats = np.cumsum(values) / rounds
        return averaged

    return Regret(
        mean_gap=mean(path.values[:-1]) - best,
        comparator=comparator_value - best,
        start=np.sum(away[0] ** 2) / (2 * scale * rounds),
        step=mean(np.sum(moves**2, axis=1)) / (2 * scale),
        error=-mean(np.sum(errors * away, axis=1)),
        error_length=mean(np.linalg.norm(errors, axis=1) * np.linalg.norm(away, axis=1)),
    )


def comparator_of(landscape: Landscape, start: Floats, scale: float) -> tuple[Floats, float]:
    """(u [d], F(u)) with F(u) + |u - start|^2 / (2 `scale`) about as small as can be; `scale` is eta M R.

    It does not look at the run. A minimiser of F would be the wrong choice: of separable data it is infinitely far away.
    """

    def penalised(u: Any) -> tuple[float, Floats]:
        value, gradient = landscape.value_and_gradient(u)
        away = u - start
        return value + float(away @ away) / (2 * scale), gradient + away / scale

    options = {"maxiter": SEARCH, "maxfun": 2 * SEARCH}
    found: Floats = scipy_minimize(penalised, start, jac=True, method="L-BFGS-B", options=options).x
    return found, landscape.value_and_gradient(found)[0]
