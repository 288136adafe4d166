"""The corrected forms on quadratics, where the expected gap and every constant are known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.studies.bound import Constants, System, averaged_gradient_bound, bound, descent, lemma1, terms

DIMENSIONS, DEVICES = 4, 5


class Quadratic:
    """F_k(w) = (w - c_k)' H (w - c_k) / 2 with H = diag(h) and mean c_k = 0, so grad F = H w and F* is at 0."""

    def __init__(self, rng: np.random.Generator, largest: float, smallest: float) -> None:
        self.h = np.concatenate([[smallest, largest], rng.uniform(smallest, largest, DIMENSIONS - 2)])
        c = rng.standard_normal((DEVICES, DIMENSIONS))
        self.c = c - c.mean(axis=0)
        self.zeta = float(
            np.max(np.sum((self.h * self.c) ** 2, axis=1))
        )  # |grad F_k - grad F|^2 = |H c_k|^2 everywhere

    def gap(self, mean, variance=0.0):
        return 0.5 * float(self.h @ (mean**2 + variance))

    def gradient_square(self, mean, variance=0.0):
        return float(self.h**2 @ (mean**2 + variance))


@given(
    seed=st.integers(0, 10_000),
    local_steps=st.integers(1, 5),
    condition=st.floats(1.5, 50),
    fraction=st.floats(0.05, 0.95),
    sigma=st.floats(0, 2),
    noise=st.floats(0, 0.5),
    payload=st.sampled_from(["model", "update"]),
)
@settings(max_examples=150, deadline=None)
def test_synchronous_rounds_stay_below_the_bounds(seed, local_steps, condition, fraction, sigma, noise, payload):
    """Weighted averages of M noisy local steps plus channel noise; mean and variance follow exact recursions."""
    rng = np.random.default_rng(seed)
    problem = Quadratic(rng, largest=1.0, smallest=1.0 / condition)
    c = Constants(
        smoothness=1.0,
        heterogeneity=problem.zeta,
        delta=0.0,
        epsilon=0.0,
        vartheta=1.0,
        sigma=sigma,
        pl=1.0 / condition,
    )
    # a > 0 at vartheta = 1 needs roughly eta M L < 1/16; take a fraction of that.
    eta = fraction / (18 * local_steps)
    s = System(
        learning_rate=eta, local_steps=local_steps, devices=DEVICES, parameters=DIMENSIONS, noise_power_w=noise,
        payload=payload,  # the same algorithm while no device is stale, with a smaller bound
    )  # fmt: skip
    assert descent(c, s) > 0

    shrink = 1 - eta * problem.h
    mean, variance = rng.standard_normal(DIMENSIONS) * 3, np.zeros(DIMENSIONS)
    gaps, squares, g = [problem.gap(mean)], [], []
    for _ in range(40):
        power = rng.uniform(0.5, 2.0, DEVICES)
        alpha, total = power / power.sum(), power.sum()
        squares.append(problem.gradient_square(mean, variance))
        g.append(terms("corrected", c, s, alpha @ alpha, total).total)
        through = shrink**local_steps
        step_noise = eta**2 * sigma**2 / DIMENSIONS * sum(shrink ** (2 * j) for j in range(local_steps))
        mean = through * mean + (1 - through) * (alpha @ problem.c)
        variance = through**2 * variance + (alpha @ alpha) * step_noise + noise / total**2
        gaps.append(problem.gap(mean, variance))
    limit = bound("corrected", c, s, gaps[0], np.array(g))
    assert (np.array(gaps) <= limit * (1 + 1e-12)).all()
    assert np.mean(squares) <= averaged_gradient_bound(c, s, gaps[0], np.array(g)) * (1 + 1e-12)


@given(
    seed=st.integers(0, 10_000),
    local_steps=st.integers(1, 4),
    eta_m=st.floats(0.005, 0.3),
    max_staleness=st.integers(1, 3),
    payload=st.sampled_from(["model", "update"]),
)
@settings(max_examples=100, deadline=None)
def test_stale_rounds_obey_the_one_step_inequality(seed, local_steps, eta_m, max_staleness, payload):
    """Staleness is random, the rest is not: the path gives every constant of Assumption 3 exactly."""
    rng = np.random.default_rng(seed)
    problem = Quadratic(rng, largest=1.0, smallest=0.1)
    eta = eta_m / local_steps
    through = (1 - eta * problem.h) ** local_steps
    models, weights, worst_wander = [rng.standard_normal(DIMENSIONS) * 5], [], []
    for r in range(25):
        alpha = rng.dirichlet(np.ones(DEVICES))
        stale = np.minimum(rng.integers(0, max_staleness + 1, DEVICES), r)
        start = np.array([models[r - s] for s in stale])
        sent = through * start + (1 - through) * problem.c
        models.append(alpha @ sent if payload == "model" else models[r] + alpha @ (sent - start))
        weights.append(alpha @ alpha)
        worst_wander.append(_wander(problem, start, eta, local_steps))
    w = np.array(models)
    gradients = problem.h * w
    pairs = [(r, r - n) for r in range(1, 25) for n in range(1, min(r, max_staleness) + 1)]
    length = np.linalg.norm(gradients, axis=1)
    c = Constants(
        smoothness=1.0,
        heterogeneity=problem.zeta,
        delta=max(0.0, *((w[old] - w[r]) @ gradients[r] / length[r] ** 2 for r, old in pairs)),
        epsilon=max(np.linalg.norm(w[old] - w[r]) for r, old in pairs),
        vartheta=max(1.0, *(length[old] / length[r] for r, old in pairs)),
        sigma=0.0,
        pl=0.1,
    )
    s = System(
        learning_rate=eta, local_steps=local_steps, devices=DEVICES, parameters=DIMENSIONS, noise_power_w=0.0,
        payload=payload,
    )  # fmt: skip
    gaps = 0.5 * (w**2 @ problem.h)
    g = terms("corrected", c, s, np.array(weights), 1.0).total
    assert (gaps[1:] <= gaps[:-1] - descent(c, s) * length[:-1] ** 2 + g + 1e-12).all()
    assert (gaps <= bound("corrected", c, s, gaps[0], g) * (1 + 1e-12)).all()
    for r, wandered in enumerate(worst_wander):
        assert wandered <= lemma1(c, s, length[r] ** 2) + 1e-12


def _wander(problem, start, eta, local_steps):
    """max_k sum_tau |w_g - w_k^tau|^2."""
    w, total = start.copy(), np.zeros(len(start))
    for _ in range(local_steps):
        total += np.sum((w - start) ** 2, axis=1)
        w = w - eta * problem.h * (w - problem.c)
    return total.max()


def test_staleness_in_plain_descent_leaves_the_theorem_nothing_to_promise():
    """delta >= eta M while the model moves downhill, and a <= eta M / 2 - delta: a is negative for any eta."""
    h = np.array([1.0, 0.5])
    for eta in (1e-4, 1e-3, 1e-2):
        w = [np.array([1.0, 1.0])]
        for _ in range(10):
            w.append(w[-1] - eta * h * w[-1])
        delta = max((w[r - 1] - w[r]) @ (h * w[r]) / np.sum((h * w[r]) ** 2) for r in range(1, 10))
        assert delta >= eta
        c = Constants(smoothness=1.0, heterogeneity=0.0, delta=delta, epsilon=0.0, vartheta=1.0, sigma=0.0, pl=0.5)
        s = System(learning_rate=eta, local_steps=1, devices=1, parameters=2, noise_power_w=0.0)
        assert descent(c, s) < 0
        assert descent(c, s) == pytest.approx(eta / 2 - delta, abs=10 * eta**2)
        assert descent(c, replace(s, payload="update")) > 0  # no stale start pulls the model back
