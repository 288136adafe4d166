"""Theorem 1 against numbers worked out by hand, and the case that refutes the printed contraction."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from paota.errors import UserError
from paota.theory import (
    Constants,
    System,
    averaged_gradient_bound,
    bound,
    contraction,
    descent,
    largest_learning_rate,
    lemma1,
    terms,
)

# eta M L = 0.1, so D = 0.98; eta L^2 + 4 M eta^2 L^3 = 0.25 + 0.1 = 0.35; over D: 0.35/0.98 = 5/14.
CONSTANTS = Constants(smoothness=5.0, heterogeneity=0.3, delta=0.001, epsilon=0.2, vartheta=1.0, sigma=0.5, pl=0.1)
SYSTEM = System(learning_rate=0.01, local_steps=2, devices=10, parameters=100, noise_power_w=0.004)


@pytest.mark.parametrize(
    ("form", "a"),
    [
        ("printed", (0.04 + 1.6 + 0.08 * 5 / 14) * 0.3),  # 8 L eta M^2, and L^2 zeta in the last part
        ("corrected", (0.04 + 0.016 + 0.0032 * 5 / 14) * 0.3),  # 8 L eta^2 M^2, and zeta
    ],
)
def test_terms_by_hand(form, a):
    made = terms(form, CONSTANTS, SYSTEM, weight_square_sum=0.25, power_sum=4.0)
    assert made == pytest.approx((a, 0.04, (0.004 + 0.0008 * 5 / 14) * 0.25, 0.5, 0.25))
    assert made.total == pytest.approx(sum(made))


def test_contraction_by_hand():
    assert contraction("printed", CONSTANTS, SYSTEM) == pytest.approx(1 + 0.01 - 0.1 + 0.04 + 0.032 * 5 / 14)
    a = 0.01 - 0.001 - 0.016 - 0.0032 * 5 / 14
    assert descent(CONSTANTS, SYSTEM) == pytest.approx(a)
    # a < 0: the gradient must be bounded from above, so Lemma 2 with L, not PL with mu.
    assert contraction("corrected", CONSTANTS, SYSTEM) == pytest.approx(1 - 2 * 5.0 * a)
    small = replace(SYSTEM, learning_rate=0.002)
    calm = replace(CONSTANTS, delta=0.0)
    assert descent(calm, small) > 0
    assert contraction("corrected", calm, small) == pytest.approx(1 - 2 * 0.1 * descent(calm, small))


def test_lemma1_by_hand():
    # eta^2 M^3 = 8e-4; (0.25 + 4 * 0.3 + 4 * 2) / 0.98
    assert lemma1(CONSTANTS, SYSTEM, 2.0) == pytest.approx(8e-4 * 9.45 / 0.98)
    assert lemma1(CONSTANTS, SYSTEM, 2.0, "printed") == pytest.approx(8e-4 * (0.25 + 30 + 8) / 0.98)


def test_the_printed_bound_counts_the_newest_g_twice():
    g = np.array([1.0, 2.0])
    rate = contraction("printed", CONSTANTS, SYSTEM)
    assert bound("printed", CONSTANTS, SYSTEM, 3.0, g) == pytest.approx(
        [3.0, 3 * rate + 1 + 1, (3 * rate + 1) * rate + 2 + 2]
    )
    rate = contraction("corrected", CONSTANTS, SYSTEM)
    assert bound("corrected", CONSTANTS, SYSTEM, 3.0, g) == pytest.approx(
        [3.0, 3 * rate + 1, (3 * rate + 1) * rate + 2]
    )


def test_nothing_is_claimed_where_lemma_1_fails():
    large = replace(SYSTEM, learning_rate=0.1)  # 2 (eta M L)^2 = 2
    assert math.isnan(descent(CONSTANTS, large))
    assert math.isnan(contraction("printed", CONSTANTS, large))
    assert math.isnan(lemma1(CONSTANTS, large, 1.0))
    assert np.isnan(bound("corrected", CONSTANTS, large, 1.0, np.ones(2))[1:]).all()
    assert averaged_gradient_bound(CONSTANTS, large, 1.0, np.ones(2)) == math.inf


def test_an_unknown_form_is_refused():
    with pytest.raises(UserError, match="did you mean 'printed'"):
        contraction("print", CONSTANTS, SYSTEM)  # type: ignore[arg-type]


def test_counterexample_to_the_printed_contraction():
    """K = M = 1, F = (10 w1^2 + 0.01 w2^2)/2, start (0, 1): gradient descent crawls, the print says it flies."""
    h, w, eta, steps = np.array([10.0, 0.01]), np.array([0.0, 1.0]), 0.003, 200
    first = 0.5 * h @ w**2
    for _ in range(steps):
        w = w - eta * h * w
    true_ratio = 0.5 * h @ w**2 / first
    assert true_ratio == pytest.approx((1 - eta * 0.01) ** (2 * steps))
    # Exact constants: one device, no staleness, no noise of any kind. Hence G = 0.
    c = Constants(smoothness=10.0, heterogeneity=0.0, delta=0.0, epsilon=0.0, vartheta=1.0, sigma=0.0, pl=0.01)
    s = System(learning_rate=eta, local_steps=1, devices=1, parameters=2, noise_power_w=0.0)
    g = np.full(steps, terms("printed", c, s, 1.0, 1.0).total)
    assert not g.any()
    claimed = bound("printed", c, s, 1.0, g)[-1]
    assert claimed == pytest.approx(0.0104, abs=5e-5)
    assert true_ratio > 90 * claimed  # the printed bound is broken by a factor of 95
    assert true_ratio <= bound("corrected", c, s, 1.0, g)[-1] <= 1


def test_largest_learning_rate_is_where_a_vanishes():
    calm = replace(CONSTANTS, delta=0.0)
    eta = largest_learning_rate(calm, SYSTEM)
    assert descent(calm, replace(SYSTEM, learning_rate=eta)) > 0
    assert descent(calm, replace(SYSTEM, learning_rate=eta * 1.01)) < 0
    # The reading's figure: below 0.0012 at M = 5, L = 10, vartheta = 1.
    assert largest_learning_rate(replace(calm, smoothness=10.0), replace(SYSTEM, local_steps=5)) == pytest.approx(
        0.0012, rel=0.05
    )
    assert largest_learning_rate(replace(CONSTANTS, delta=1.0), SYSTEM) == 0.0
