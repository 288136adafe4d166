"""The estimators against paths whose constants are known."""

from __future__ import annotations

import numpy as np
import pytest

from paota.studies.bound import minimise
from paota.studies.bound.estimate import Path, constants_of, drift, pl_constant, secant_smoothness


def descent_path(h, eta, steps):
    w = [np.ones(len(h))]
    for _ in range(steps):
        w.append(w[-1] - eta * h * w[-1])
    models = np.array(w)
    return Path(models=models, values=0.5 * models**2 @ h, gradients=models * h)


def test_constants_of_a_known_descent():
    path = descent_path(np.array([2.0]), 0.1, 5)  # w^r = 0.8^r
    assert secant_smoothness(path) == pytest.approx(2.0)
    delta, epsilon, vartheta = drift(path, 2)
    # n = 2: (w^(r-2) - w^r) w^r 2 / (2 w^r)^2 = (1/0.64 - 1)/2; |1 - 0.64|; 1/0.64
    assert delta == pytest.approx((1 / 0.64 - 1) / 2)
    assert epsilon == pytest.approx(0.36)
    assert vartheta == pytest.approx(1 / 0.64)
    assert pl_constant(path, 0.0) == pytest.approx(2.0)  # |2w|^2 / (2 w^2) = 2
    assert drift(path, 0) == (0.0, 0.0, 1.0)  # no device is ever late


def test_every_device_counts_for_the_smoothness(landscape):
    """The mean of the F_k is smoother than the roughest of them."""
    w = np.zeros(landscape.num_parameters)
    path = Path(models=w[None], values=np.zeros(1), gradients=w[None])
    each = [landscape.largest_curvature(w, device=k) for k in range(landscape.shards.num_devices)]
    assert max(each) > landscape.largest_curvature(w)
    found = constants_of(
        landscape, path, minimise(landscape, seed=0, epochs=1, polish=1), max_staleness=0, batch_size=1
    )
    assert found.smoothness == max(each)
