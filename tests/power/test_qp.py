"""Convex quadratic solvers as independent judges of the exact optimum."""

from __future__ import annotations

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.power import solve


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
    generator = np.random.default_rng(seed)
    instance = well_scaled(seed)
    return instance | {"p_max": 10.0 ** generator.uniform(-3, 3, len(instance["p_max"]))}


@pytest.mark.parametrize("backend", ["highs", "clarabel"])
@pytest.mark.parametrize("block", range(5))
def test_qp_solvers_find_the_same_optimum(backend, block):
    for seed in range(block * 20, block * 20 + 20):
        instance = well_scaled(seed)
        exact, qp = solve(**instance), solve(**instance, method="qp", backend=backend)
        assert exact.objective <= qp.objective * (1 + 1e-9)
        assert qp.objective <= exact.objective * (1 + 1e-8), qp.message


def test_caps_over_six_decades():
    """The interior-point solver still confirms the optimum; HiGHS' active-set one may give up, and never wins."""
    for seed in range(60):
        instance = badly_scaled(seed)
        exact = solve(**instance)
        interior = solve(**instance, method="qp", backend="clarabel")
        active_set = solve(**instance, method="qp")
        assert exact.objective <= min(interior.objective, active_set.objective) * (1 + 1e-9)
        assert interior.objective <= exact.objective * (1 + 1e-8)


@pytest.mark.parametrize(
    ("instance", "power"),
    [
        ({"lo": [1, 2], "hi": [3, 5], "epsilon2": 0.0}, [3, 5]),
        ({"lo": [1], "hi": [3], "noise_power_w": 1.0}, [3]),
        ({"lo": [2, 5], "hi": [2, 5]}, [2, 5]),
        ({"lo": [0, 1, 4], "hi": [0, 2, 6], "noise_power_w": 0.0}, [0, 2, 4]),
        ({"lo": [1, 2], "hi": [3, 5], "ready": [0, 0]}, [0, 0]),
        ({"lo": [1, 4, 9], "hi": [2, 6, 9], "ready": [1, 1, 0], "noise_power_w": 0.0}, [2, 4, 0]),
    ],
)
@pytest.mark.parametrize("backend", ["highs", "clarabel"])
def test_edge_cases(instance, power, backend):
    np.testing.assert_allclose(solve(**instance, method="qp", backend=backend).power, power, rtol=1e-6)


def test_the_solvers_word_is_handed_on():
    assert solve(lo=[1, 4], hi=[2, 6], method="qp").message == "The highs QP solver reports: optimal."
    with pytest.raises(UserError, match="did you mean 'clarabel'"):
        solve(lo=[1, 4], hi=[2, 6], method="qp", backend="clarabell")
