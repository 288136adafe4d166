"""P2 as a ratio of two quadratics, and Dinkelbach's method (Algorithm 2), which optimises the ratio.

The paper writes P2 as f = h1(beta)/h2(beta) over beta in [0, 1]^K:

    h1 = beta'G beta + g'beta + g0,    h2 = beta'Q beta + q'beta + q0

G is diagonal and Q has rank one. The paper calls G positive definite. That is true only for ready devices with
rho != theta, so `Quadratics.only` drops the others before anything is inverted. Their share stays in q, g0 and q0.

Algorithm 2 maximises h2/h1 through a sequence of maximisations of h2 - lambda*h1. With `stopping = "printed"` it tests
F(beta; lambda_(n+1)) with lambda_(n+1) = h2(beta)/h1(beta), which is 0 by construction. It therefore ends after its first
pass and returns the point of that pass. With `stopping = "mended"` it tests F at the lambda of the maximisation, relative
to h2. P5 only approximates P3, so a pass may return a worse point than an earlier one; "mended" keeps the best point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from .problem import Flags, Vector


@dataclass(frozen=True, kw_only=True)
class Quadratics:
    """h1 and h2 with G = diag(`G_diagonal`) and Q = `Q_factor` `Q_factor`'."""

    G_diagonal: Vector
    Q_factor: Vector
    g: Vector
    q: Vector
    g0: float
    q0: float

    def h1(self, beta: Vector) -> float:
        return float((self.G_diagonal * beta * beta).sum() + (self.g * beta).sum()) + self.g0

    def h2(self, beta: Vector) -> float:
        return float((self.Q_factor * beta).sum()) ** 2 + float((self.q * beta).sum()) + self.q0

    def only(self, active: Flags) -> Quadratics:
        """Return the same functions of the active devices alone; beta is 0 (p = p_max*theta) for the others."""
        kept = {name: getattr(self, name)[active] for name in ("G_diagonal", "Q_factor", "g", "q")}
        return replace(self, **kept)


def quadratics(at_zero: Vector, slope: Vector, *, c1: float, c2: float) -> Quadratics:
    """Return h1 and h2 of P2 for ready devices.  # Eq. opt2:problem

    Args:
        at_zero: amplitude of each device at beta = 0 (P*theta in the paper), [n].
        slope: its derivative in beta (P*D in the paper), [n].
        c1: weight of |p|^2.
        c2: weight of the noise.
    """
    total = float(at_zero.sum())
    return Quadratics(
        G_diagonal=c1 * slope * slope,
        Q_factor=slope,
        g=2.0 * c1 * at_zero * slope,
        q=2.0 * total * slope,
        g0=c1 * float((at_zero * at_zero).sum()) + c2,
        q0=total * total,
    )


@dataclass(frozen=True, kw_only=True)
class Pass:
    """Result of one maximisation of h2 - lambda*h1: its point, and the reason why it has to be the last, if any."""

    beta: Vector | None
    give_up: str | None = None


@dataclass(frozen=True, kw_only=True)
class RatioOptimum:
    """The best point, the number of maximisations, whether the stopping rule was met, and a sentence about it."""

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
    """Maximise h2/h1 with Algorithm 2 and return the best point found, or the last one if `stopping` is "printed".

    Args:
        functions: h1 and h2.
        maximise: solves one step P3 (Eq. opt3:problem) for lambda; it may start from the current beta.
        start: first beta, [n].
        tolerance: largest F at which the search stops, relative to h2.
        max_passes: largest number of maximisations.
        stopping: "mended" or "printed", as the module explains.
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
                count = f"{passes} pass" if passes == 1 else f"{passes} passes"
                why = f"F fell to {max(remaining, 0.0):.1e} of h2 (tolerance {tolerance:g}) after {count}."
                return RatioOptimum(beta=best, passes=passes, converged=True, message=why)
            lambda_ = h2 / h1
        if step.give_up is not None:
            why = f"{step.give_up} in pass {passes}; the best point so far was kept."
            return RatioOptimum(beta=best, passes=passes, converged=False, message=why)
    why = f"Stopped after the most passes allowed ({max_passes}); the best point was kept."
    return RatioOptimum(beta=best, passes=max_passes, converged=False, message=why)
