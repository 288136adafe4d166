"""An independent convex solver confirms the exact optimum.

With y = p/S and t = 1/S (Charnes-Cooper), P2 is a quadratic programme: minimise |y|^2 + c*t^2 over 1'y = 1,
lo*t <= y <= hi*t. Clarabel gets it in x_k = y_k/hi_k, so devices with different caps range over the same interval.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from paota.power import problem_from
from paota.power.solution import certified, solve_exact


def by_clarabel(problem):
    """The solution of one instance from Clarabel's interior-point method."""
    import clarabel  # optional: tests are collected without it

    lo, hi = problem.ready_lo, problem.ready_hi
    sends = hi > 0
    ratio, share = lo[sends] / hi[sends], hi[sends] / hi.max()
    c, n = problem.c / hi.max() ** 2, share.size
    identity, unit = sparse.identity(n), n / share.sum()
    constraints = sparse.vstack(
        [
            sparse.csr_matrix(np.r_[share * unit, 0.0][None, :]),
            sparse.hstack([-identity, sparse.csr_matrix(ratio[:, None])]),
            sparse.hstack([identity, sparse.csr_matrix(-np.ones((n, 1)))]),
        ]
    ).tocsc()
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    hessian = sparse.diags(2.0 * np.r_[share * share, c]).tocsc()
    right = np.r_[float(n), np.zeros(2 * n)]
    x = np.array(clarabel.DefaultSolver(hessian, np.zeros(n + 1), constraints, right, cones, settings).solve().x)
    power = np.zeros_like(hi)
    power[sends] = hi[sends] * np.clip(x[:-1] / x[-1], ratio, 1.0)
    return certified(problem, np.clip(power, lo, hi), method="qp", message="Clarabel.")


def well_scaled(seed):
    generator = np.random.default_rng(seed)
    n = 1 + seed % 20
    rho, theta = generator.choice([1, 0.75, 0.6], n), generator.random(n)
    return {
        "p_max": generator.uniform(5, 15, n),
        "rho": rho,
        "theta": np.where(generator.random(n) < 0.2, rho, theta),
        "ready": np.r_[True, generator.random(n - 1) < 0.8],
        "noise_power_w": [0.0, 7.96e-14, 1e-2, 1.0, 1e6][seed % 5],
        "num_parameters": 100,
    }


def badly_scaled(seed):
    """Caps over six decades."""
    generator = np.random.default_rng(seed)
    instance = well_scaled(seed)
    return instance | {"p_max": 10.0 ** generator.uniform(-3, 3, len(instance["p_max"]))}


@pytest.mark.parametrize("make", [well_scaled, badly_scaled])
def test_an_interior_point_solver_finds_the_same_optimum(make):
    for seed in range(100):
        problem = problem_from(**make(seed))
        exact, found = solve_exact(problem), by_clarabel(problem)
        assert exact.objective <= found.objective * (1 + 1e-9)
        assert found.objective <= exact.objective * (1 + 1e-8)


@pytest.mark.parametrize(
    ("instance", "power"),
    [
        ({"lo": [1], "hi": [3], "noise_power_w": 1.0}, [3]),
        ({"lo": [2, 5], "hi": [2, 5]}, [2, 5]),
        ({"lo": [0, 1, 4], "hi": [0, 2, 6], "noise_power_w": 0.0}, [0, 2, 4]),
        ({"lo": [1, 4, 9], "hi": [2, 6, 9], "ready": [1, 1, 0], "noise_power_w": 0.0}, [2, 4, 0]),
    ],
)
def test_edge_cases(instance, power):
    problem = problem_from(**instance)
    np.testing.assert_allclose(by_clarabel(problem).power, power, rtol=1e-6)
    np.testing.assert_allclose(solve_exact(problem).power, power, rtol=1e-12)
