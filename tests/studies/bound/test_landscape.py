"""The objective against finite differences, and the search for its minimum."""

from __future__ import annotations

import numpy as np
import pytest

from paota.studies.bound import minimise
from paota.studies.bound.estimate import device_spread


def test_gradient_and_curvature_against_differences(landscape):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(landscape.num_parameters) * 0.1
    v = rng.standard_normal(landscape.num_parameters)
    v /= np.linalg.norm(v)
    _, gradient = landscape.value_and_gradient(w)
    step = 1e-2
    up, down = (landscape.value_and_gradient(w + sign * step * v) for sign in (1, -1))
    assert (up[0] - down[0]) / (2 * step) == pytest.approx(gradient @ v, rel=2e-2, abs=1e-4)
    # No direction may bend more than the largest eigenvalue.
    along = abs((up[1] - down[1]) @ v) / (2 * step)
    assert along <= landscape.largest_curvature(w, iterations=30) * 1.01


def test_device_gradients_add_up_to_the_gradient_of_the_objective(landscape):
    w = np.random.default_rng(1).standard_normal(landscape.num_parameters) * 0.1
    gradients, squares = landscape.device_moments(w)
    share = landscape.shards.sizes / landscape.shards.sizes.sum()
    assert share @ gradients == pytest.approx(landscape.value_and_gradient(w)[1], abs=1e-5)  # Eq. sys_FL_task
    assert (squares >= np.sum(gradients**2, axis=1) - 1e-6).all()  # a variance is not negative
    zeta, variance = device_spread(landscape, [w])
    assert zeta >= np.max(np.sum((gradients - share @ gradients) ** 2, axis=1)) * (1 - 1e-9)
    assert variance > 0


def test_the_optimum_is_below_every_start_and_nearly_flat(landscape):
    found = minimise(landscape, seed=0, epochs=5, polish=60)
    start, gradient = landscape.value_and_gradient(landscape.initial_model(0))
    assert found.value < 0.5 * start
    assert found.gradient_norm < 0.1 * np.linalg.norm(gradient)
    assert found.last_gain >= 0
