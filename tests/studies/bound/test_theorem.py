"""Theorem 1 against numbers worked out by hand, and the case that refutes the printed contraction."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.studies.bound import (
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
    made = terms(form, CONSTANTS, SYSTEM, weight_square_sum=0.25, amplitude_sum=4.0)
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
    """K = M = 1, F = (10 w1^2 + 0.01 w2^2)/2, start (0, 1): gradient descent is slower than printed."""
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


# Dependent weights with kappa = 2: D = 0.98; kappa (eta L^2 + 8 M eta^2 L^3) = 2 (0.25 + 0.2) = 0.9; over D: 45/49.
PEAKED = replace(SYSTEM, weight_peak=2.0)


def test_the_dependent_form_by_hand():
    made = terms("dependent", CONSTANTS, PEAKED, weight_square_sum=0.25, amplitude_sum=4.0, ready=6)
    wander = 45 / 49
    # chi = 6 * 0.25 - 1 = 0.5, so eta chi = 0.005; 4 kappa L eta^2 M = 4 * 2 * 0.001 = 0.008
    c = (0.008 + 0.0008 * wander + 0.005) * 0.25
    assert made == pytest.approx(((0.04 + 0.032 + 0.0032 * wander) * 0.3, 0.04, c, 0.5, 0.25))
    assert descent(CONSTANTS, PEAKED, "dependent") == pytest.approx(0.005 - 0.001 - 0.032 - 0.0032 * wander)


def test_without_stale_starts_by_hand():
    """payload = update: delta and (d) are gone, A_2 is not split; eta L^2 + M eta^2 L^3 = 0.275."""
    sent = replace(SYSTEM, payload="update")
    wander = 0.275 / 0.98
    made = terms("corrected", CONSTANTS, sent, weight_square_sum=0.25, amplitude_sum=4.0)
    assert made == pytest.approx(
        ((0.04 + 0.004 + 0.0032 * wander) * 0.3, 0.04, (0.001 + 0.0008 * wander) * 0.25, 0.0, 0.0625)
    )
    assert descent(CONSTANTS, sent) == pytest.approx(0.01 - 0.004 - 0.0032 * wander)
    assert descent(replace(CONSTANTS, delta=1e6), sent) == descent(CONSTANTS, sent)
    assert math.isnan(contraction("printed", CONSTANTS, sent))  # the paper sends models
    with pytest.raises(UserError, match="did you mean 'update'"):
        replace(SYSTEM, payload="updates")


@given(
    eta=st.floats(1e-4, 0.1),
    local_steps=st.integers(1, 5),
    payload=st.sampled_from(["model", "update"]),
    form=st.sampled_from(["corrected", "dependent"]),
    names=st.sets(st.sampled_from([f.name for f in fields(Constants)]), min_size=1),
    factor=st.floats(1.0, 3.0),
)
@settings(max_examples=200, deadline=None)
def test_too_small_constants_make_too_small_a_bound(eta, local_steps, payload, form, names, factor):
    """L, zeta, delta, eps, vartheta, sigma up, mu down: the bound only grows, so "holds" carries over to the truth."""
    c = replace(CONSTANTS, pl=1.0)
    s = System(
        learning_rate=eta, local_steps=local_steps, devices=10, parameters=100, noise_power_w=0.004,
        payload=payload, weight_peak=1.5,
    )  # fmt: skip
    true = replace(c, **{name: getattr(c, name) * (1 / factor if name == "pl" else factor) for name in names})

    def limit(constants):
        return bound(form, constants, s, 2.0, np.full(5, terms(form, constants, s, 0.2, 4.0, 8).total))

    small, large = limit(c), limit(true)
    known = np.isfinite(large)  # beyond D = 0 nothing is claimed
    assert (small[known] <= large[known] * (1 + 1e-12)).all()


def test_the_printed_contraction_is_not_monotone_in_smoothness():
    a = [contraction("printed", replace(CONSTANTS, smoothness=big_l, delta=0.0), SYSTEM) for big_l in (0.1, 5.0, 30.0)]
    assert a[1] < a[0] < a[2]


@pytest.mark.parametrize("form", ["printed", "corrected", "dependent"])
def test_a_round_without_senders_leaves_the_bound_where_it_is(form):
    calm = replace(CONSTANTS, delta=0.0)
    slow = replace(SYSTEM, learning_rate=0.001)
    g = np.full(3, 1e-6)
    made = bound(form, calm, slow, 3.0, g, np.array([True, False, True]))
    assert made[1] < 3.0
    assert made[2] == made[1]
    assert made[3] == pytest.approx(bound(form, calm, slow, 3.0, g[:2])[2])
