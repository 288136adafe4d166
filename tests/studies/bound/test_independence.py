"""Weights that depend on the noise of their updates: the corrected bound is broken, the dependent one holds."""

from __future__ import annotations

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.experiment.experiment import Experiment
from paota.studies.bound import Constants, System, bound, descent, terms
from paota.studies.bound.independence import weights_depend_on_updates


def similarity_weights(updates, step):
    """Weights of `power.method = "similarity"`, [runs, K]: alpha_k is proportional to (cos(dw_k, w^r - w^(r-1)) + 1)/2."""
    length = np.linalg.norm(updates, axis=2) * np.linalg.norm(step, axis=1)[:, None]
    cosine = np.einsum("rkd,rd->rk", updates, step) / np.where(length > 0, length, 1.0)
    theta = (np.where(length > 0, cosine, 0.0) + 1) / 2
    theta[theta < 1e-12] = 0.0
    total = theta.sum(axis=1, keepdims=True)
    return theta / np.where(total > 0, total, 1.0)


def simulate(h, centres, start, *, eta, local_steps, sigma, rounds, runs, seed):
    """Mean gap [R+1], mean of chi = K sum alpha^2 - 1 [R] and the largest K max alpha of fresh devices, many runs."""
    rng = np.random.default_rng(seed)
    devices, dimensions = centres.shape
    w = np.tile(np.asarray(start, float), (runs, 1))
    step, gaps, chi, peak = np.zeros_like(w), [], [], 1.0
    for _ in range(rounds):
        gaps.append(np.mean(0.5 * (w**2 @ h)))
        local = np.repeat(w[:, None, :], devices, axis=1)
        for _ in range(local_steps):
            noise = sigma / np.sqrt(dimensions) * rng.standard_normal(local.shape)
            local = local - eta * (h * (local - centres) + noise)
        updates = local - w[:, None, :]
        alpha = similarity_weights(updates, step)
        chi.append(np.mean(np.maximum(devices * np.sum(alpha**2, axis=1) - 1, 0.0)))
        peak = max(peak, devices * alpha.max())
        step = np.einsum("rk,rkd->rd", alpha, updates)
        w = w + step
    gaps.append(np.mean(0.5 * (w**2 @ h)))
    return np.array(gaps), np.array(chi), peak


def limits(c, s, gaps, chi):
    square_sums = (chi + 1) / s.devices
    return {
        form: bound(
            form, c, s, gaps[0], np.broadcast_to(terms(form, c, s, square_sums, 1.0, s.devices).total, len(chi))
        )
        for form in ("corrected", "dependent")
    }


@pytest.mark.parametrize(("eta", "rounds", "times"), [(0.01, 400, 50), (0.001, 1500, 250)])
def test_the_counterexample(eta, rounds, times):
    """F = w^2/2, d = 1, M = 1, all fresh, sigma = 1, zeta = delta = eps = 0, K = 100.

    In a rare round no update points in the last direction. Then no device transmits, and the model stays.
    """
    gaps, chi, peak = simulate(
        np.ones(1), np.zeros((100, 1)), [0.0], eta=eta, local_steps=1, sigma=1.0, rounds=rounds, runs=40, seed=0
    )
    c = Constants(smoothness=1.0, heterogeneity=0.0, delta=0.0, epsilon=0.0, vartheta=1.0, sigma=1.0, pl=1.0)
    for payload in ("model", "update"):  # the same algorithm while no device is stale
        s = System(
            learning_rate=eta, local_steps=1, devices=100, parameters=1, noise_power_w=0.0, weight_peak=peak,
            payload=payload,
        )  # fmt: skip
        assert descent(c, s, "dependent") > 0  # it does promise something
        limit = limits(c, s, gaps, chi)
        assert np.max(gaps[1:] / limit["corrected"][1:]) > times
        assert (gaps <= limit["dependent"] * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(12))
def test_random_quadratics_with_similarity_weights(seed):
    rng = np.random.default_rng(seed)
    devices, dimensions, local_steps = int(rng.integers(2, 20)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    h = rng.uniform(0.2, 1.0, dimensions)
    centres = rng.standard_normal((devices, dimensions)) * rng.choice([0.0, 0.1, 1.0])
    centres -= centres.mean(axis=0)
    sigma, eta = rng.uniform(0.2, 3.0), 10 ** rng.uniform(-3.5, -1.5) / local_steps
    start = rng.standard_normal(dimensions) * rng.choice([0.0, 1.0, 5.0])
    gaps, chi, peak = simulate(
        h, centres, start, eta=eta, local_steps=local_steps, sigma=sigma, rounds=150, runs=60, seed=seed
    )
    c = Constants(
        smoothness=float(h.max()),
        heterogeneity=float(np.max(np.sum((h * centres) ** 2, axis=1))),
        delta=0.0,
        epsilon=0.0,
        vartheta=1.0,
        sigma=sigma,
        pl=float(h.min()),
    )
    for payload in ("model", "update"):
        s = System(
            learning_rate=eta, local_steps=local_steps, devices=devices, parameters=dimensions, noise_power_w=0.0,
            weight_peak=peak, payload=payload,
        )  # fmt: skip
        assert (gaps <= limits(c, s, gaps, chi)["dependent"] * (1 + 1e-12)).all()


def test_the_covariance_of_weights_and_noise_is_within_its_bound():
    """|E sum_k alpha_k xi_k| <= sqrt(chi M) sigma: the Cauchy-Schwarz bound against 40,000 draws."""
    rng = np.random.default_rng(1)
    xi = rng.standard_normal((40_000, 10, 1))
    alpha = similarity_weights(xi, np.ones((40_000, 1)))
    bias = abs(np.mean(np.sum(alpha[:, :, None] * xi, axis=1)))
    chi = np.mean(10 * np.sum(alpha**2, axis=1) - 1)
    assert 0.5 < bias <= np.sqrt(chi)  # independent weights would have none


@pytest.mark.parametrize(
    ("algorithm", "depends"),
    [
        ({"name": "paota"}, True),
        ({"name": "paota", "payload": "update"}, True),
        ({"name": "paota", "power": {"method": "similarity"}}, True),
        ({"name": "paota", "power": {"method": "mip", "segments": 4}}, True),
        ({"name": "paota", "power": {"method": "staleness", "cap": "paper"}}, False),
        ({"name": "paota", "power": {"method": "uniform", "cap": "paper"}}, False),
        ({"name": "paota", "power": {"method": "staleness", "cap": "physical"}}, True),  # p_max from |w_k|
        ({"name": "paota", "power": {"method": "uniform", "cap": "physical"}}, False),  # loudness, not shares
        ({"name": "local-sgd", "weighting": "samples"}, False),
        ({"name": "cotaf"}, False),
        ({"name": "full-power"}, True),
    ],
)
def test_which_rules_depend_on_the_updates(algorithm, depends):
    (entry,) = Experiment.from_dict({"algorithms": [algorithm]}).algorithms
    assert weights_depend_on_updates(entry) is depends


def test_the_dependent_form_asks_for_what_it_needs():
    c = Constants(smoothness=1.0, heterogeneity=0.0, delta=0.0, epsilon=0.0, vartheta=1.0, sigma=1.0, pl=1.0)
    s = System(learning_rate=0.01, local_steps=1, devices=10, parameters=1, noise_power_w=0.0)
    with pytest.raises(UserError, match="number of ready devices"):
        terms("dependent", c, s, 0.1, 1.0)
    with pytest.raises(UserError, match="at least 1"):
        System(learning_rate=0.01, local_steps=1, devices=10, parameters=1, noise_power_w=0.0, weight_peak=0.5)
