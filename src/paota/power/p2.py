"""The exact method: the global optimum of P2 in O(K log K), from one scalar level (see `level`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .level import level
from .problem import Problem
from .solution import Solution, certified, nothing_to_solve


def solve(problem: Problem) -> Solution:
    """Global optimum of one instance, with its certificate."""
    if problem.nobody_ready:
        return nothing_to_solve(problem, method="exact")
    lo, hi = problem.ready_lo, problem.ready_hi
    tau = level(lo, hi, problem.c)
    solution = certified(problem, np.clip(tau, lo, hi), method="exact", message="", level=tau)
    return _explained(problem, solution)


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
