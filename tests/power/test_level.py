"""The exact solver: values worked out by hand, properties, and 10,000 random instances with their certificates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.power import problem_from, solve
from paota.power.level import level, lower_bound
from paota.power.solution import kkt_residual, solve_exact, stationary_level

CERTIFIED = 1e-12


def boxed(lo, hi, c, **more):
    """An instance with a chosen c: d = 1, eps^2 = 1 and K = 2 make c = 2*d*sigma^2/(eps^2*K) = sigma^2."""
    return problem_from(lo=lo, hi=hi, noise_power_w=c, num_parameters=1, num_devices=2, **more)


# psi(tau) = sum hi (tau - hi)+ - sum lo (lo - tau)+ - c, solved by hand:
BY_HAND = {
    # 2 (tau-2) - 4 (4-tau) = 0 between 2 and 4
    "apart, no noise": ([1, 4], [2, 6], 0.0, 10 / 3, [2, 4], True),
    # 1 (tau-1) = 1
    "one clamped by noise": ([0, 0], [1, 3], 1.0, 2.0, [1, 2], True),
    # c = sum hi (max hi - hi) = 1 (3-1): just enough for full power; tau = (1 + 9 + 2)/4
    "noise at the bound": ([0, 0], [1, 3], 2.0, 3.0, [1, 3], True),
    # beyond it tau = (|hi|^2 + c)/1'hi = (1 + 9 + 6)/4 still solves psi = 0
    "noise beyond the bound": ([0, 0], [1, 3], 6.0, 4.0, [1, 3], True),
    # every tau in [2, 3] is optimal: the largest
    "shared interior, no noise": ([1, 2], [3, 5], 0.0, 3.0, [3, 3], False),
    # 3 (tau-3) = 0.3
    "shared interior, some noise": ([1, 2], [3, 5], 0.3, 3.1, [3, 3.1], True),
    "touching, no noise": ([1, 3], [3, 5], 0.0, 3.0, [3, 3], True),
    # any power gives f = c1 for a single device
    "single device, no noise": ([1], [2], 0.0, 2.0, [2], False),
    # 2 (tau-2) = 1e-11
    "single device, a little noise": ([1], [2], 1e-11, 2 + 5e-12, [2], True),
    # 2 (tau-2) - 5 (5-tau) = 0
    "both fixed": ([2, 5], [2, 5], 0.0, 29 / 7, [2, 5], True),
    # 2 (tau-2) - 5 (5-tau) = 0, the third stays free
    "fixed, fixed, free": ([2, 5, 0], [2, 5, 9], 0.0, 29 / 7, [2, 5, 29 / 7], True),
    "one cannot send": ([0, 0, 0], [0, 2, 3], 0.0, 2.0, [0, 2, 2], False),
    # lo = 0 never pulls: 1 (tau-1) - 0 = 0.5
    "theta = 0": ([0, 0], [1, 2], 0.5, 1.5, [1, 1.5], True),
}


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.replace(" ", "-"))
def test_values_worked_out_by_hand(case):
    lo, hi, c, tau, power, unique = BY_HAND[case]
    solution = solve_exact(boxed(lo, hi, c))
    assert solution.level == pytest.approx(tau, rel=1e-14)
    np.testing.assert_allclose(solution.power, power, rtol=1e-14)
    assert solution.unique is unique
    assert solution.kkt_residual <= 1e-15
    assert solution.gap <= CERTIFIED
    assert solution.message.endswith(".")


def test_terms_worked_out_by_hand():
    # p = (2, 4), S = 6: (d) = L*eps^2*K*sum alpha^2 = 10*2*4*(4+16)/36, (e) = 2*L*d*sigma^2/S^2 = 2*10*5*0.18/36
    problem = problem_from(
        lo=[2, 4], hi=[2, 4], smoothness=10, epsilon2=2, num_devices=4, num_parameters=5, noise_power_w=0.18
    )
    solution = solve_exact(problem)
    assert solution.term_d == pytest.approx(400 / 9, rel=1e-15)
    assert solution.term_e == pytest.approx(0.5, rel=1e-15)
    assert solution.objective == solution.term_d + solution.term_e


def test_the_papers_numbers_equalise_the_powers():
    # s = 0 or 1, theta = 1/2 (first round): boxes [7.5, 15] and [7.5, 11.25]; tau = 15*0.75
    solution = solve(p_max=15.0, staleness=[0, 1] * 50, similarity=0.5)
    np.testing.assert_allclose(solution.power, 11.25, rtol=1e-12)
    assert solution.unique  # the noise, however small, prefers the largest common level


def test_only_noise_counts():
    for constants in ({"epsilon2": 0.0}, {"smoothness": 0.0}):
        solution = solve(lo=[1, 2], hi=[3, 5], noise_power_w=1.0, **constants)
        np.testing.assert_array_equal(solution.power, [3, 5])
        assert solution.kkt_residual == solution.gap == 0
        assert solution.level == math.inf
    assert solve(lo=[1, 2], hi=[3, 5], noise_power_w=1.0, epsilon2=0.0).unique
    assert not solve(lo=[1, 2], hi=[3, 5], noise_power_w=0.0, epsilon2=0.0).unique  # f is 0 everywhere


def test_nobody_ready_is_no_problem():
    solution = solve(p_max=15.0, staleness=[0, 1], similarity=0.5, ready=[False, False])
    np.testing.assert_array_equal(solution.power, 0)
    assert math.isnan(solution.objective)
    assert "No device is ready" in solution.message


def test_beta_is_exact_at_the_ends_and_one_where_it_does_not_matter():
    # rho = 1 1 3/4 3/4, theta = 1/2 1 7/8 1/4; p_max = 8: boxes [4,8] [8,8] [6,7] [2,6]
    solution = solve(
        p_max=8.0, staleness=[0, 0, 1, 1], similarity=[0.5, 1, 0.875, 0.25], ready=[1, 1, 1, 0], noise_power_w=1e9
    )
    np.testing.assert_array_equal(solution.power, [8, 8, 7, 0])
    np.testing.assert_array_equal(solution.beta, [1, 1, 0, 0])


def test_tiny_noise_keeps_its_meaning():
    """c = 1e-11 beside p^2 of 100: tau*b0 - a0 would lose it, same-sign differences do not."""
    lo, hi = np.full(50, 5.0), np.linspace(10.0, 11.0, 50)
    tau = level(lo, hi, 1e-11)
    assert 10.0 < tau < 10.0 + 2e-12  # 10 (tau - 10) = 1e-11
    assert tau == pytest.approx(10.0 + 1e-12, abs=2e-15)


def test_brute_force_finds_nothing_better():
    """Search by zooming grids over the box, for up to three devices."""
    generator = np.random.default_rng(7)
    for number in range(60):
        n = 1 + number % 3
        lo = generator.uniform(0, 5, n)
        hi = lo + generator.uniform(0, 5, n) * (generator.random(n) < 0.8)
        problem = boxed(lo, hi, [0.0, 0.5, 5.0, 50.0][number % 4])
        best, centre, width = math.inf, (lo + hi) / 2, hi - lo
        for _ in range(25):
            axes = [
                np.clip(np.linspace(x - w / 2, x + w / 2, 9), a, b)
                for x, w, a, b in zip(centre, width, lo, hi, strict=True)
            ]
            points = np.array(list(itertools.product(*axes)))
            values = (problem.c1 * np.square(points).sum(1) + problem.c2) / points.sum(1) ** 2
            if values.min() < best:
                best, centre = values.min(), points[values.argmin()]
            width = width * 0.6
        found = solve_exact(problem).objective
        assert found <= best * (1 + 1e-12)
        assert best <= found * (1 + 1e-6)


def random_instance(generator, number):
    """Boxes of many kinds: caps alike, over 12 decades between or inside instances, fixed, empty, from zero."""
    n = int(generator.integers(1, 40))
    spread = number % 3
    if spread == 0:
        p_max = 10.0 ** generator.uniform(-6, 6, n)
    else:
        p_max = np.full(n, 15.0 if spread == 1 else 10.0 ** generator.uniform(-6, 6))
    rho = generator.choice([1.0, 0.75, 0.6, 0.5], n)
    theta = generator.random(n)
    theta = np.where(generator.random(n) < 0.15, rho, theta)
    theta = np.where(generator.random(n) < 0.10, 0.0, theta)
    p_max = np.where(generator.random(n) < 0.03, 0.0, p_max)
    p_max[0] = max(p_max[0], 1e-6)
    noise = [0.0, 10.0 ** generator.uniform(-20, 6), 1e6, 7.96e-14][number % 4]
    ready = generator.random(n) < 0.8
    ready[0] = True
    return {"p_max": p_max, "rho": rho, "theta": theta, "ready": ready, "noise_power_w": noise}


def test_ten_thousand_random_instances_are_certified():
    generator = np.random.default_rng(2024)
    worst_residual = worst_gap = 0.0
    for number in range(10_000):
        problem = problem_from(**random_instance(generator, number))
        solution = solve_exact(problem)
        power = solution.power
        assert (problem.lo <= power)[problem.ready].all()
        assert (power <= problem.hi)[problem.ready].all()
        assert not power[~problem.ready].any()
        worst_residual = max(worst_residual, solution.kkt_residual)
        worst_gap = max(worst_gap, solution.gap)
    assert worst_residual <= CERTIFIED
    assert worst_gap <= CERTIFIED


nonnegative = st.floats(0, 1, allow_subnormal=False)
powers = st.floats(-6, 6).map(lambda exponent: 10.0**exponent)


@st.composite
def boxes(draw):
    n = draw(st.integers(1, 12))
    scale = draw(powers)
    column = lambda values: np.array(draw(st.lists(values, min_size=n, max_size=n)))  # noqa: E731
    first, second, cap = column(nonnegative), column(nonnegative), column(powers)
    cap = cap if draw(st.booleans()) else np.full(n, scale)
    lo, hi = cap * np.minimum(first, second), cap * np.maximum(first, second)
    hi[0] = max(hi[0], scale * 1e-3)
    c = draw(st.one_of(st.just(0.0), st.floats(1e-30, 1e6), st.floats(-20, 12).map(lambda x: 10.0**x)))
    return lo, hi, c


def objective(power, c):
    """f/c1, in the unit of the largest power so that nothing underflows."""
    unit = power.max()
    with np.errstate(over="ignore"):  # infinite for a hopelessly small power beside the noise
        return (np.square(power / unit).sum() + c / unit / unit) / (power / unit).sum() ** 2


@given(boxes(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=200)
def test_certified_feasible_and_never_beaten_by_a_feasible_point(instance, random):
    lo, hi, c = instance
    tau = level(lo, hi, c)
    power = np.clip(tau, lo, hi)
    assert kkt_residual(lo, hi, c, power) <= CERTIFIED
    best = objective(power, c)
    assert lower_bound(lo, hi, c, tau) == pytest.approx(best, rel=CERTIFIED)
    for _ in range(20):
        other = lo + (hi - lo) * np.array([random.choice([0.0, 1.0, random.random()]) for _ in lo])
        if other.sum() > 0:
            assert best <= objective(other, c) * (1 + 1e-9)


@given(boxes(), st.floats(-3, 3))
@settings(deadline=None, max_examples=200)
def test_the_dual_bound_holds_at_every_level(instance, exponent):
    lo, hi, c = instance
    tau = level(lo, hi, c)
    best = objective(np.clip(tau, lo, hi), c)
    assert lower_bound(lo, hi, c, tau * 10.0**exponent) <= best * (1 + 1e-12)


def test_the_gap_tells_what_the_residual_cannot():
    """p = hi of these boxes looks stationary to 5e-16 without noise, but f is 1/2 and 1/3 is possible."""
    lo, hi = np.zeros(3), np.array([1e-15, 1.0, 1.0])
    assert kkt_residual(lo, hi, 0.0, hi) < 1e-15
    tau = level(lo, hi, 0.0)
    assert tau == 1e-15
    assert lower_bound(lo, hi, 0.0, tau) == pytest.approx(1 / 3, rel=1e-15)
    assert objective(hi, 0.0) == pytest.approx(1 / 2, rel=1e-14)
    assert solve(lo=lo, hi=hi, noise_power_w=0.0).gap <= CERTIFIED


@given(boxes())
@settings(deadline=None, max_examples=100)
def test_the_certificate_notices_a_wrong_answer(instance):
    """A certificate that never complains would prove nothing: move one free or wrongly clamped device."""
    lo, hi, c = instance
    power = np.clip(level(lo, hi, c), lo, hi)
    k = int(np.argmax(hi - lo))
    if hi[k] - lo[k] < 1e-3 * hi[k] or (np.delete(hi, k) < 1e-6 * hi[k]).all():
        return  # nothing to move, or moving the only real device changes no share
    moved = power.copy()
    moved[k] = lo[k] if power[k] - lo[k] > hi[k] - power[k] else hi[k]
    wanted = np.clip(stationary_level(moved, c), lo[k], hi[k])
    if abs(wanted - moved[k]) > 1e-6 * hi[k]:
        assert kkt_residual(lo, hi, c, moved) > 1e-7


@given(boxes(), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=100)
def test_the_order_of_the_devices_does_not_matter(instance, random):
    lo, hi, c = instance
    order = list(range(lo.size))
    random.shuffle(order)
    assert level(lo[order], hi[order], c) == level(lo, hi, c)


@given(boxes(), st.integers(-300, 300))
@settings(deadline=None, max_examples=100)
def test_the_unit_of_power_does_not_matter(instance, exponent):
    """Scaling all powers by a power of two and the noise by its square scales the answer, bit for bit."""
    lo, hi, c = instance
    factor = 2.0**exponent
    assume(all((values * factor / factor == values).all() for values in (lo, hi, np.array([c * factor]))))
    assert level(lo * factor, hi * factor, c * factor * factor) == level(lo, hi, c) * factor


@given(boxes())
@settings(deadline=None, max_examples=100)
def test_more_noise_never_lowers_the_level(instance):
    lo, hi, c = instance
    assert level(lo, hi, c) <= level(lo, hi, 2 * c + 1e-12) * (1 + 1e-14)
    enough = float((hi * (hi.max() - hi)).sum())
    assert level(lo, hi, enough * (1 + 1e-12)) >= hi.max() * (1 - 1e-12)


@given(boxes(), st.integers(1, 5), st.floats(0.1, 100))
@settings(deadline=None, max_examples=50)
def test_waiting_devices_and_smoothness_change_nothing(instance, waiting, smoothness):
    lo, hi, c = instance
    alone = solve_exact(boxed(lo, hi, c))
    more = solve_exact(
        boxed(
            np.r_[lo, np.zeros(waiting)],
            np.r_[hi, np.full(waiting, 1e9)],
            c,
            ready=np.r_[np.full(lo.size, True), np.full(waiting, False)],
            smoothness=smoothness,
        )
    )
    np.testing.assert_allclose(more.power[: lo.size], alone.power, rtol=1e-13)
    assert not more.power[lo.size :].any()


@given(st.integers(1, 8), st.integers(0, 10_000))
@settings(deadline=None, max_examples=100)
def test_beta_gives_the_power_back(n, seed):
    generator = np.random.default_rng(seed)
    instance = random_instance(generator, seed)
    problem, solution = problem_from(**instance), solve(**instance)
    again = problem.p_max * (solution.beta * problem.rho + (1 - solution.beta) * problem.theta)
    np.testing.assert_allclose(np.where(problem.ready, again, 0), solution.power, rtol=1e-13, atol=0)
    assert ((solution.beta >= 0) & (solution.beta <= 1)).all()


def test_the_ends_of_float64():
    for size in (1e-150, 1e150):
        solution = solve(lo=[0.2 * size, 0.7 * size], hi=[0.5 * size, size], noise_power_w=0.0)
        assert solution.kkt_residual <= CERTIFIED
        # 0.5 (tau - 0.5) - 0.7 (0.7 - tau) = 0: tau = 0.74/1.2, so the second device stays at 0.7
        np.testing.assert_allclose(solution.power, [0.5 * size, 0.7 * size], rtol=1e-15)
    # Without noise all share the smallest bound, however far below the others: f = c1/3.
    solution = solve(lo=[0, 0, 0], hi=[1e-300, 1e-50, 1], noise_power_w=0.0, smoothness=1)
    np.testing.assert_allclose(solution.power, 1e-300, rtol=1e-15)
    assert solution.objective == pytest.approx(1.0, rel=1e-15)  # c1 = L*eps^2*K = 3
    with pytest.raises(UserError, match="overflows"):
        solve(lo=[0], hi=[1e-300], noise_power_w=1.0)
