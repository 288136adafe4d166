"""The bound from convexity alone: on any path over a convex function, and on runs at the learning rates of practice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.experiment.experiment import Experiment
from paota.studies.bound import System, analyse, regret_of
from paota.studies.bound.estimate import Path

SYNTHETIC = {"dataset": "synthetic", "devices": 8, "sizes": [60, 90]}


def system(eta):
    return System(learning_rate=eta, local_steps=1, devices=1, parameters=3, noise_power_w=0.0)


@given(seed=st.integers(0, 10_000), eta=st.floats(1e-3, 10.0), curvature=st.floats(0.0, 100.0))
@settings(max_examples=100, deadline=None)
def test_it_holds_on_any_path_whatever_moved_the_model(seed, eta, curvature):
    """Moves that have nothing to do with gradients, learning rates far beyond 2/L, comparators anywhere."""
    rng = np.random.default_rng(seed)
    h = curvature * rng.random(3)
    models = np.cumsum(rng.standard_normal((20, 3)), axis=0)
    path = Path(models=models, values=0.5 * models**2 @ h, gradients=models * h)
    u = rng.standard_normal(3) * 3
    made = regret_of(path, system(eta), u, float(0.5 * u**2 @ h), 0.0)
    slack = 1e-9 * (1 + made.start + made.step + made.error_length)
    assert (made.mean_gap <= made.bound + slack).all()
    assert (made.bound <= made.length_bound + slack).all()


def test_by_hand():
    """F = w^2/2 from w = 2 with eta = 1/2, u = 0: w = 2, 1, 1/2; no errors. One round: 4/1 + 1/1 = 5 against 2."""
    models = np.array([[2.0], [1.0], [0.5]])
    path = Path(models=models, values=0.5 * models[:, 0] ** 2, gradients=models)
    made = regret_of(path, system(0.5), np.zeros(1), 0.0, 0.0)
    np.testing.assert_allclose(made.mean_gap, [2.0, 1.25])
    np.testing.assert_allclose(made.bound, [4 + 1, 2 + (1 + 0.25) / 2])
    np.testing.assert_allclose(made.error_length, 0.0, atol=1e-15)


def test_it_needs_convexity():
    """F = -w^2/2 at rest in 1, against u = 3: the tangent promises 2, the gap is 4."""
    models = np.array([[1.0], [1.0], [1.0]])
    path = Path(models=models, values=-0.5 * models[:, 0] ** 2, gradients=-models)
    made = regret_of(path, system(100.0), np.array([3.0]), -4.5, -4.5)
    assert (made.mean_gap > made.bound + 1).all()


@pytest.mark.parametrize("payload", ["model", "update"])
@pytest.mark.parametrize("eta", [0.05, 0.1])
def test_it_says_something_of_a_run_at_the_learning_rates_of_practice(payload, eta):
    table = {
        "rounds": 25,
        "data": SYNTHETIC,
        "model": {"name": "softmax"},
        "training": {"learning_rate": eta},
        "algorithms": [{"name": "paota", "payload": payload}],
    }
    made = analyse(Experiment.from_dict(table), probes=1, epochs=3, polish=10)
    regret = made.regret
    assert (regret.mean_gap <= regret.bound * (1 + 1e-5)).all()
    assert regret.bound[-1] < 1.25 * regret.mean_gap[-1]
    assert regret.length_bound[-1] < 1.6 * regret.mean_gap[-1]
    assert regret.bound[-1] < made.gap[0]  # more than "it does not get worse"
    if payload == "update":  # stale starts are long errors
        assert regret.length_bound[-1] < made.gap[0]
    assert not made.bounds[made.form][-1] < made.gap[0]  # which is all that Theorem 1 has to say here
    assert "F is convex" in made.sentences()[-1]
    assert made.table()["regret_bound"][-1] == regret.bound[-1]


def test_a_network_is_not_convex():
    table = {"rounds": 2, "data": SYNTHETIC, "algorithms": [{"name": "paota"}]}
    made = analyse(Experiment.from_dict(table), probes=1, epochs=1, polish=1)
    assert made.regret is None
    assert "regret_bound" not in made.table()
