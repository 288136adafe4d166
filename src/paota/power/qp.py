"""P2 as the plain convex quadratic programme that it is, for any QP solver: an independent check of `exact`.

With y = p/S and t = 1/S (Charnes-Cooper), P2 is: minimise |y|^2 + c*t^2 over 1'y = 1, lo*t <= y <= hi*t. It is given to
the solver in x_k = y_k/hi_k, so that devices with very different caps all range over the same interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import unknown_name
from . import checks
from .backends import installed
from .checks import Vector
from .level import over_square
from .problem import Problem
from .solution import Solution, certified, nothing_to_solve


@dataclass(frozen=True, kw_only=True)
class QpOptions:
    backend: str = "highs"  # clarabel where installed
    time_limit_s: float = 60.0

    def __post_init__(self) -> None:
        if self.time_limit_s != math.inf:
            checks.scalar("time_limit_s", self.time_limit_s, at_least=0)
        if self.backend not in BACKENDS:
            raise unknown_name("backend", self.backend, BACKENDS)


def solve(problem: Problem, **options: Any) -> Solution:
    """One instance through a QP solver; the certificate shows how well it did."""
    chosen = QpOptions(**options)
    if problem.nobody_ready:
        return nothing_to_solve(problem, method="qp")
    lo, hi = problem.ready_lo, problem.ready_hi
    sends = hi > 0
    scale = float(hi.max())
    with np.errstate(over="ignore", under="ignore"):
        noise = over_square(problem.c, scale)
    if not math.isfinite(noise):
        why = "Only the noise counts (c1 = 0), so every ready device sends at its upper bound."
        return certified(problem, hi, method="qp", message=why)
    share, status = BACKENDS[chosen.backend](lo[sends] / hi[sends], hi[sends] / scale, noise, chosen.time_limit_s)
    power = np.zeros_like(hi)
    # A solver that gave up may leave anything behind: then full power is the honest, feasible fallback.
    power[sends] = hi[sends] * (np.clip(share, lo[sends] / hi[sends], 1.0) if np.isfinite(share).all() else 1.0)
    message = f"The {chosen.backend} QP solver reports: {status}."
    return certified(problem, np.clip(power, lo, hi), method="qp", message=message)


def _highs(ratio: Vector, hi: Vector, c: float, time_limit_s: float) -> tuple[Vector, str]:
    """p/hi by the active-set QP solver of HiGHS, which can cycle on degenerate instances: hence the limit."""
    highspy = installed("highspy", "HiGHS", "highspy")
    n = hi.size
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("time_limit", time_limit_s)
    solver.setOptionValue("qp_iteration_limit", 1000 + 20 * n)
    model = highspy.HighsModel()
    lp = model.lp_
    lp.num_col_, lp.num_row_ = n + 1, 2 * n + 1
    lp.col_cost_, lp.col_lower_ = np.zeros(n + 1), np.zeros(n + 1)
    lp.col_upper_ = np.full(n + 1, np.inf)
    unit = n / hi.sum()  # 1'y = 1, written so that its coefficients are about 1
    device, infinite = np.arange(n), np.full(n, np.inf)
    lp.row_lower_, lp.row_upper_ = np.r_[n, np.zeros(n), -infinite], np.r_[n, infinite, np.zeros(n)]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.r_[0, n + 2 * np.arange(2 * n + 1)]
    pairs = np.column_stack([device, np.full(n, n)]).ravel()
    lp.a_matrix_.index_ = np.r_[device, pairs, pairs]
    lp.a_matrix_.value_ = np.r_[hi * unit, np.column_stack([np.ones(n), -ratio]).ravel(), np.tile([1.0, -1.0], n)]
    hessian = model.hessian_
    hessian.dim_, hessian.format_ = n + 1, highspy.HessianFormat.kTriangular
    hessian.start_, hessian.index_ = np.arange(n + 2), np.arange(n + 1)
    hessian.value_ = 2.0 * np.r_[hi * hi, c]
    solver.passModel(model)
    solver.run()
    x = np.array(solver.getSolution().col_value)
    return _shares(x), str(solver.modelStatusToString(solver.getModelStatus())).lower()


def _clarabel(ratio: Vector, hi: Vector, c: float, time_limit_s: float) -> tuple[Vector, str]:
    """p/hi by Clarabel's interior-point method."""
    clarabel = installed("clarabel", "Clarabel", "clarabel")
    sparse = installed("scipy.sparse", "SciPy", "scipy")
    n = hi.size
    identity, unit = sparse.identity(n), n / hi.sum()
    constraints = sparse.vstack(
        [
            sparse.csr_matrix(np.r_[hi * unit, 0.0][None, :]),
            sparse.hstack([-identity, sparse.csr_matrix(ratio[:, None])]),
            sparse.hstack([identity, sparse.csr_matrix(-np.ones((n, 1)))]),
        ]
    ).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.time_limit = time_limit_s
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    hessian = sparse.diags(2.0 * np.r_[hi * hi, c]).tocsc()
    right = np.r_[float(n), np.zeros(2 * n)]
    result = clarabel.DefaultSolver(hessian, np.zeros(n + 1), constraints, right, cones, settings).solve()
    return _shares(np.array(result.x)), str(result.status).lower()


def _shares(x: Vector) -> Vector:
    """p/hi = (y/hi)/t."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Vector = x[:-1] / x[-1]
    return shares


BACKENDS: dict[str, Callable[[Vector, Vector, float, float], tuple[Vector, str]]] = {
    "highs": _highs,
    "clarabel": _clarabel,
}
