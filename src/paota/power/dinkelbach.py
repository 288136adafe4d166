"""Dinkelbach's method (Algorithm 2): maximise h2/h1 through a sequence of maximisations of h2 - lambda*h1.

`stopping = "printed"` is Algorithm 2 to the letter: it tests F(beta; lambda_(n+1)) with lambda_(n+1) =
h2(beta)/h1(beta), which is 0 by construction, so it ends after its first pass, and it returns that pass's point.
`stopping = "mended"` tests F at the lambda that the maximisation used, relative to h2; and because P5 only approximates
P3, so that a pass may return a worse point than an earlier one, it keeps the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .checks import Vector
from .quadratics import Quadratics

STOPPING = ("mended", "printed")


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Answer of one maximisation of h2 - lambda*h1: its point, or None, and why it has to be the last, if it has."""

    beta: Vector | None
    give_up: str | None = None


@dataclass(frozen=True, kw_only=True)
class RatioOptimum:
    """The point to use, how many maximisations it took, whether the stopping rule was met, and that in a sentence."""

    beta: Vector
    passes: int
    converged: bool
    message: str


def maximise_ratio(
    functions: Quadratics,
    maximise: Callable[[float, Vector], Pass],
    start: Vector,
    *,
    tolerance: float,
    max_passes: int,
    stopping: str = "mended",
) -> RatioOptimum:
    """The best beta found for h2/h1, or with `stopping` = "printed" the last one.

    `maximise(lambda, beta)` may use the current beta as its starting point; `tolerance` is of F, relative to h2.
    """
    best = current = start
    best_ratio = lambda_ = functions.h2(start) / functions.h1(start)
    for passes in range(1, max_passes + 1):
        step = maximise(lambda_, current)
        if step.beta is not None:
            current = step.beta
            h1, h2 = functions.h1(current), functions.h2(current)
            if stopping == "printed" or h2 / h1 > best_ratio:
                best, best_ratio = current, h2 / h1
            tested = h2 / h1 if stopping == "printed" else lambda_  # of this pass, or of the next one
            remaining = (h2 - tested * h1) / h2  # F relative to h2
            if step.give_up is None and remaining <= tolerance:
                why = f"F fell to {max(remaining, 0.0):.1e} of h2 (tolerance {tolerance:g}) after {_passes(passes)}."
                return RatioOptimum(beta=best, passes=passes, converged=True, message=why)
            lambda_ = h2 / h1
        if step.give_up is not None:
            why = f"{step.give_up} in pass {passes}; the best point so far was kept."
            return RatioOptimum(beta=best, passes=passes, converged=False, message=why)
    why = f"Stopped after the most passes allowed ({max_passes}); the best point was kept."
    return RatioOptimum(beta=best, passes=max_passes, converged=False, message=why)


def _passes(count: int) -> str:
    return f"{count} pass" if count == 1 else f"{count} passes"
