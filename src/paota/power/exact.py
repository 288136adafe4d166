"""The exact optimum of P2 in O(K log K): one scalar level, found between two neighbouring bounds.

The optimum is p_k = clip(tau, lo_k, hi_k), where tau is the root of the continuous, nondecreasing, piecewise-linear

    psi(tau) = sum_k [ hi_k*(tau - hi_k)+  -  lo_k*(lo_k - tau)+ ] - c.

docs/power.md derives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from paota.power.checks import Vector
from paota.power.problem import Problem
from paota.power.solution import Solution, certified, nothing_to_solve


def level(lo: Vector, hi: Vector, c: float) -> float:
    """The largest root tau of psi, for 0 <= lo <= hi with some hi > 0, and c >= 0 (infinity included).

    psi is summed from differences that all have one sign: as tau*b0 - a0 it would drown a c of 1e-11 beside
    powers of 1e2. Without noise psi can be flat at 0; the largest root is the limit of vanishing noise.
    """
    scale = _power_of_two_near(float(hi.max()))  # exact to divide by, and keeps the squares in range
    lo, hi = np.sort(lo) / scale, np.sort(hi) / scale
    with np.errstate(over="ignore", under="ignore"):
        c = float(np.float64(c) / scale / scale)

    def psi(tau: float) -> float:
        above_hi = hi[: np.searchsorted(hi, tau)]
        below_lo = lo[np.searchsorted(lo, tau, side="right") :]
        return float((above_hi * (tau - above_hi)).sum() - (below_lo * (below_lo - tau)).sum() - c)

    # The last bound at which psi is not yet positive starts the segment of the root. psi(lo[0]) <= 0 always.
    last_lo, last_hi = _last_not_positive(psi, lo), _last_not_positive(psi, hi)
    start = lo[max(last_lo, 0)] if last_hi < 0 else max(lo[max(last_lo, 0)], hi[last_hi])
    slope = hi[: np.searchsorted(hi, start, side="right")].sum() + lo[np.searchsorted(lo, start, side="right") :].sum()
    if slope == 0:
        return float(start * scale)
    return float((start - psi(start) / slope) * scale)


def solve(problem: Problem) -> Solution:
    """Global optimum of one instance, with its certificate."""
    if problem.nobody_ready:
        return nothing_to_solve(problem, method="exact")
    lo, hi = problem.ready_lo, problem.ready_hi
    tau = level(lo, hi, problem.c)
    solution = certified(problem, np.clip(tau, lo, hi), method="exact", message="", level=tau)
    return _explained(problem, solution)


def _power_of_two_near(value: float) -> float:
    return float(np.ldexp(1.0, np.frexp(value)[1] - 1))


def _last_not_positive(function: Callable[[float], float], points: Vector) -> int:
    """Index of the last of the ascending points where the nondecreasing function is <= 0, or -1."""
    first, end = 0, points.size
    while first < end:
        middle = (first + end) // 2
        if function(float(points[middle])) <= 0:
            first = middle + 1
        else:
            end = middle
    return first - 1


def _explained(problem: Problem, solution: Solution) -> Solution:
    lo, hi = problem.ready_lo, problem.ready_hi
    if problem.c1 == 0:
        why = "Only the noise counts (c1 = 0), so every ready device sends at its upper bound."
    elif not solution.unique:
        positive = hi[hi > 0]
        why = (
            f"Without noise every common level from {lo.max():.6g} to {positive.min():.6g} is optimal; "
            "the largest one was taken."
        )
    elif solution.level >= hi.max():
        why = "The noise outweighs the differences between the bounds, so every ready device sends at its upper bound."
    else:
        why = "The level was found between two neighbouring bounds and solved for in closed form: a global optimum."
    return replace(solution, message=why)
