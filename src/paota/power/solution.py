"""The exact optimum of P2, and the certificate of any solution, which needs no trust in the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..base.errors import UserError
from .level import level as level_of_optimum
from .level import lower_bound, over_square
from .problem import Problem, Vector


@dataclass(frozen=True, kw_only=True, repr=False)
class Solution:
    """Amplitudes of one round with their certificate. `message` is a sentence about the end of the search."""

    power: Vector  # amplitude of each device, [K]; 0 where not ready
    beta: Vector  # p = p_max*(beta*rho + (1-beta)*theta), [K]; 1 where any beta gives the same p, 0 where not ready
    level: float  # tau: the amplitude of every device that its box leaves free
    objective: float  # f = term_d + term_e
    term_d: float  # L*eps^2*K*sum alpha^2, Eq. eq:G^r (d)
    term_e: float  # 2*L*d*sigma^2/S^2, Eq. eq:G^r (e)
    kkt_residual: float  # 0 at the optimum, relative to each device's upper bound
    gap: float  # objective/lower bound - 1: nothing can be better by more than this share (0 where all is 0)
    unique: bool  # no other vector of amplitudes is optimal
    method: str
    message: str

    def __repr__(self) -> str:
        powers = f"{int((self.power > 0).sum())} of {len(self.power)} devices send"
        return f"<paota.power.Solution by {self.method}: {powers}, objective {self.objective:.6g}, gap {self.gap:.1e}>"

    def _repr_html_(self) -> str:
        return solution_html(self)


def solve_exact(problem: Problem) -> Solution:
    """Return the global optimum of P2 in O(K log K), from one scalar level (see `level`), with its certificate."""
    if problem.is_empty:
        return nothing_to_solve(problem, method="exact")
    lo, hi = problem.ready_lo, problem.ready_hi
    tau = level_of_optimum(lo, hi, problem.c)
    if problem.c1 == 0:
        why = "Only the noise counts (c1 = 0), so every ready device sends at its upper bound."
    elif not is_unique(problem):
        why = (
            f"Without noise every common level from {lo.max():.6g} to {hi[hi > 0].min():.6g} is optimal; "
            "the largest one was taken."
        )
    elif tau >= hi.max():
        why = "The noise outweighs the differences between the bounds, so every ready device sends at its upper bound."
    else:
        why = "The level was found between two neighbouring bounds and solved for in closed form: a global optimum."
    return certified(problem, np.clip(tau, lo, hi), method="exact", message=why, level=tau)


def terms(problem: Problem, power: Vector) -> tuple[float, float]:
    """Return terms (d) and (e) of Eq. eq:G^r at the amplitudes of all devices, [K]."""
    largest = float(power.max())
    shares = power / largest  # keeps the sums in range for any unit of power
    total = float(shares.sum())
    with np.errstate(over="ignore"):
        term_d = problem.c1 * float(np.square(shares / total).sum())
        term_e = float(np.float64(problem.c2) / largest / largest / total / total)
    if not math.isfinite(term_d + term_e):
        raise UserError("the objective overflows a float64: the powers are too small beside the noise")
    return term_d, term_e


def stationary_level(power: Vector, c: float) -> float:
    """Return (|p|^2 + c)/1'p, the level of every free device at a stationary point."""
    largest = float(power.max())
    shares = power / largest
    with np.errstate(over="ignore", under="ignore"):
        return float((np.square(shares).sum() + over_square(c, largest)) / shares.sum() * largest)


def kkt_residual(lo: Vector, hi: Vector, c: float, power: Vector) -> float:
    """Return max_k |p_k - clip((|p|^2 + c)/1'p, lo_k, hi_k)| / hi_k, which is zero exactly at the optimum.

    The upper bound of each device is its unit, so the residual has the same meaning for microwatts and megawatts. An
    absolute residual could not stay below 1e-12 at 1e6, where neighbouring float64 numbers are 1e-10 apart.
    """
    gap = np.abs(power - np.clip(stationary_level(power, c), lo, hi))
    return float(np.divide(gap, hi, out=np.zeros_like(gap), where=hi > 0).max())


def relative_gap(problem: Problem, objective: float, level: float) -> float:
    """Return objective/bound - 1 with the dual bound at this level: the largest possible improvement.

    The KKT residual alone does not bound the improvement. Without noise, the boxes [0, 1e-15], [0, 1], [0, 1] and p = hi
    have a residual of 5e-16, but three amplitudes of 1e-15 are better by a third.
    """
    if not math.isfinite(level):  # only the noise counts: f >= c2/S^2, least at full power
        _, bound = terms(problem, problem.spread(problem.ready_hi))
    else:
        bound = problem.c1 * lower_bound(problem.ready_lo, problem.ready_hi, problem.c, level)
    return max(objective / bound - 1.0, 0.0) if bound > 0 else 0.0


def is_unique(problem: Problem) -> bool:
    """Return True if P2 has a single minimiser."""
    lo, hi = problem.ready_lo, problem.ready_hi
    if problem.c2 > 0 or problem.is_empty:
        return True  # the noise rewards every increase of the common scale
    if problem.c1 == 0:
        return bool((lo == hi).all())  # f is 0 everywhere
    # Without noise f does not change when p is scaled; that is possible only where all boxes share an interior.
    return bool(lo.max() >= hi[hi > 0].min())


def beta_of(problem: Problem, power: Vector) -> Vector:
    """Return the inverse of Eq. asy:power_control, exactly 0 or 1 at the ends of the box."""
    width = problem.hi - problem.lo
    place = np.divide(power - problem.lo, width, out=np.ones_like(width), where=width > 0)
    beta = np.where((problem.rho < problem.theta) & (width > 0), 1.0 - place, place)
    return np.where(problem.ready, np.clip(beta, 0.0, 1.0), 0.0)


def certified(
    problem: Problem, ready_power: Vector, *, method: str, message: str, level: float | None = None
) -> Solution:
    """Return the solution for amplitudes of the ready devices from any solver, with its certificate."""
    power = problem.spread(ready_power)
    term_d, term_e = terms(problem, power)
    optimal_level = level_of_optimum(problem.ready_lo, problem.ready_hi, problem.c) if level is None else level
    return Solution(
        power=power,
        beta=beta_of(problem, power),
        level=stationary_level(ready_power, problem.c) if level is None else level,
        objective=term_d + term_e,
        term_d=term_d,
        term_e=term_e,
        kkt_residual=kkt_residual(problem.ready_lo, problem.ready_hi, problem.c, ready_power),
        gap=relative_gap(problem, term_d + term_e, optimal_level),
        unique=is_unique(problem),
        method=method,
        message=message,
    )


def nothing_to_solve(problem: Problem, *, method: str) -> Solution:
    """Return the solution of an instance without ready devices."""
    zeros = np.zeros_like(problem.hi)
    unknown = dict.fromkeys(("level", "objective", "term_d", "term_e"), math.nan)
    return Solution(
        power=zeros,
        beta=zeros,
        **unknown,
        kkt_residual=0.0,
        gap=0.0,
        unique=True,
        method=method,
        message="No device is ready, so there is nothing to solve: every power is 0.",
    )


def solution_html(solution: Solution) -> str:
    """Return the message, the certificate, and the amplitude of each device as a number and a bar."""
    from ..base.formatting import counted  # start-up time
    from ..pages.notebook import MOST_ROWS, bar, page_html  # start-up time
    from ..pages.page import Table, TableCell, TableRow  # start-up time

    largest = float(solution.power.max(initial=0.0))
    rows = [
        TableRow(
            head=TableCell(text=str(device)),
            cells=[TableCell(text=f"{power:.4g}"), TableCell(text=f"{beta:.3g}"), TableCell(text=bar(power, largest))],
        )
        for device, (power, beta) in enumerate(zip(solution.power, solution.beta, strict=True))
    ]
    left = len(rows) - MOST_ROWS
    return page_html(
        f"Power control, {solution.method}",
        [
            solution.message,
            f"Objective {solution.objective:.6g} = term (d) {solution.term_d:.6g} + term (e) {solution.term_e:.6g}; "
            f"KKT residual {solution.kkt_residual:.1e}, gap {solution.gap:.1e}.",
            *([f"The first {MOST_ROWS} of {counted(len(rows), 'device')}."] if left > 0 else []),
        ],
        Table(label="powers", heads=["device", "power", "beta", ""], rows=rows[:MOST_ROWS]),
    )
