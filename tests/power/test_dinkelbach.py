"""The paper's route piece by piece: the matrices of P2, Dinkelbach's method, the chords of P5."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from paota.power import problem_from
from paota.power.dinkelbach import Pass, maximise_ratio, quadratics
from paota.power.p5 import COORDINATES, encode, programme

CONSTANTS = {"smoothness": 10, "epsilon2": 0.5, "num_devices": 7, "num_parameters": 20, "noise_power_w": 0.3}


def instance(n=6, seed=0):
    generator = np.random.default_rng(seed)
    return problem_from(
        p_max=generator.uniform(1, 15, n),
        staleness=generator.integers(0, 3, n),
        similarity=generator.random(n),
        ready=np.arange(n) != 2,
        **CONSTANTS,
    )


def direct_objective(problem, beta):
    """P1 itself: powers by Eq. asy:power_control, weights by Eq. Normalization, terms (d) and (e) of Eq. eq:G^r."""
    power = problem.ready * problem.p_max * (beta * problem.rho + (1 - beta) * problem.theta)
    alpha = power / power.sum()
    term_d = problem.smoothness * problem.epsilon2 * problem.num_devices * (alpha**2).sum()
    term_e = 2 * problem.smoothness * problem.num_parameters * problem.noise_power_w / power.sum() ** 2
    return term_d + term_e


def printed(p_max, rho, theta, ready, *, c1, c2):
    """The matrices below Eq. opt2:problem as the paper writes them, with P = diag(p_max) and D = diag(rho - theta).

    The paper does not define its bold Theta. Only c1*diag(b) = L*eps^2*K*diag(b) turns P1 into P2.
    """
    b = ready.astype(np.float64)
    P, D, Theta = np.diag(p_max), np.diag(rho - theta), c1 * np.diag(b)
    bb = np.outer(b, b)
    return SimpleNamespace(
        G=D.T @ P.T @ Theta.T @ P @ D,
        Q=D.T @ P.T @ bb @ P @ D,
        g=2.0 * theta @ P.T @ Theta.T @ P @ D,
        q=2.0 * theta @ P.T @ bb @ P @ D,
        g0=float(theta @ P.T @ Theta.T @ P @ theta) + c2,
        q0=float(theta @ P.T @ bb @ P @ theta),
    )


def test_printed_matrices_by_hand():
    # P = diag(2, 4), D = diag(1/2, -1/4), theta = (1/2, 3/4), c1 = 3, c2 = 5: P*D = (1, -1), P*theta = (1, 3)
    m = printed(
        np.array([2.0, 4.0]),
        np.array([1.0, 0.5]),
        np.array([0.5, 0.75]),
        np.array([True, True]),
        c1=3.0,
        c2=5.0,
    )
    np.testing.assert_array_equal(m.G, [[3, 0], [0, 3]])
    np.testing.assert_array_equal(m.Q, [[1, -1], [-1, 1]])
    np.testing.assert_array_equal(m.g, [6, -18])  # 2*c1*(1*1, 3*(-1))
    np.testing.assert_array_equal(m.q, [8, -8])  # 2*(1+3)*(1, -1)
    assert (m.g0, m.q0) == (35.0, 16.0)  # 3*(1+9) + 5 and (1+3)^2


@pytest.mark.parametrize("seed", range(5))
def test_printed_matrices_equal_the_direct_formula_and_the_short_form(seed):
    problem = instance(seed=seed)
    m = printed(problem.p_max, problem.rho, problem.theta, problem.ready, c1=problem.c1, c2=problem.c2)
    b = problem.ready
    short = quadratics(
        (problem.p_max * problem.theta)[b],
        (problem.p_max * (problem.rho - problem.theta))[b],
        c1=problem.c1,
        c2=problem.c2,
    )
    np.testing.assert_allclose(np.diag(short.G_diagonal), m.G[np.ix_(b, b)], rtol=1e-12)
    np.testing.assert_allclose(np.outer(short.Q_factor, short.Q_factor), m.Q[np.ix_(b, b)], rtol=1e-12)
    generator = np.random.default_rng(seed)
    for _ in range(10):
        beta = generator.random(6)
        h1 = beta @ m.G @ beta + m.g @ beta + m.g0
        h2 = beta @ m.Q @ beta + m.q @ beta + m.q0
        assert h1 / h2 == pytest.approx(direct_objective(problem, beta), rel=1e-12)
        assert short.h1(beta[b]) == pytest.approx(h1, rel=1e-12)
        assert short.h2(beta[b]) == pytest.approx(h2, rel=1e-12)


def test_dropped_devices_keep_their_share():
    functions = quadratics(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, -1.0]), c1=2.0, c2=1.0)
    active = functions.Q_factor != 0
    beta = np.array([0.3, 0.9, 0.6])  # the middle one has nothing to choose, whatever its beta
    assert functions.only(active).h1(beta[active]) == pytest.approx(functions.h1(beta), rel=1e-15)
    assert functions.only(active).h2(beta[active]) == pytest.approx(functions.h2(beta), rel=1e-15)


def two_devices():
    return quadratics(np.array([1.0, 2.5]), np.array([2.0, 1.5]), c1=1.0, c2=0.7)


def grid_maximiser(functions, steps=101):
    axis = np.linspace(0, 1, steps)
    points = [np.array(point) for point in itertools.product(axis, repeat=functions.g.size)]

    def maximise(lambda_, _):
        return Pass(beta=max(points, key=lambda beta: functions.h2(beta) - lambda_ * functions.h1(beta)))

    return maximise, max(functions.h2(beta) / functions.h1(beta) for beta in points)


def test_dinkelbach_finds_the_best_ratio_of_a_grid():
    functions = two_devices()
    maximise, best = grid_maximiser(functions)
    result = maximise_ratio(functions, maximise, np.full(2, 0.5), tolerance=1e-12, max_passes=20)
    assert result.converged
    assert functions.h2(result.beta) / functions.h1(result.beta) == pytest.approx(best, rel=1e-12)
    assert 2 <= result.passes <= 6  # superlinear; the printed stopping rule would end it after one


def test_the_printed_stopping_rule_is_always_met():
    """F(beta; h2(beta)/h1(beta)) is 0 for any beta, so it says nothing about optimality."""
    functions = two_devices()
    for beta in (np.zeros(2), np.array([0.1, 0.8]), np.ones(2)):
        lambda_next = functions.h2(beta) / functions.h1(beta)
        assert functions.h2(beta) - lambda_next * functions.h1(beta) == pytest.approx(0, abs=1e-12)


def test_the_printed_stopping_rule_returns_the_point_of_its_only_pass():
    """Even one that is worse than the start."""
    functions = two_devices()
    ratio = lambda beta: functions.h2(beta) / functions.h1(beta)  # noqa: E731
    start, worse = sorted((np.array([1.0, 0.0]), np.array([0.0, 1.0])), key=ratio, reverse=True)
    result = maximise_ratio(
        functions, lambda *_: Pass(beta=worse), start, tolerance=1e-12, max_passes=9, stopping="printed"
    )
    assert (result.passes, result.converged) == (1, True)
    np.testing.assert_array_equal(result.beta, worse)


def test_dinkelbach_keeps_the_best_point_when_a_pass_is_worse():
    functions = two_devices()
    answers = iter([np.array([1.0, 0.0]), np.array([0.0, 1.0])])
    ratio = lambda beta: functions.h2(beta) / functions.h1(beta)  # noqa: E731
    start = np.full(2, 0.5)
    result = maximise_ratio(functions, lambda *_: Pass(beta=next(answers)), start, tolerance=1e-12, max_passes=9)
    best = max(start, np.array([1.0, 0.0]), np.array([0.0, 1.0]), key=ratio)
    np.testing.assert_array_equal(result.beta, best)


@pytest.mark.parametrize(
    ("steps", "fragment"),
    [
        ([Pass(beta=None, give_up="The time limit was reached")], "The time limit was reached in pass 1"),
        ([Pass(beta=np.ones(2)), Pass(beta=np.array([1.0, 0.4]))], "most passes allowed (2)"),
    ],
)
def test_dinkelbach_says_why_it_stopped(steps, fragment):
    functions = two_devices()
    answers = iter(steps)
    result = maximise_ratio(functions, lambda *_: next(answers), np.zeros(2), tolerance=-1.0, max_passes=len(steps))
    assert not result.converged
    assert fragment in result.message


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("segments", [1, 5, 40])
def test_chords_stay_within_their_error_and_the_point_is_feasible(coordinates, segments):
    """A chord of a*z^2 over a step s errs by at most |a|*s^2/4; the encoded point obeys every row of P5."""
    generator = np.random.default_rng(3)
    n = 5
    functions = quadratics(generator.uniform(1, 2, n), generator.uniform(-1, 1, n), c1=0.8, c2=0.3)
    squares = COORDINATES[coordinates](functions)
    least, most = squares.ranges()
    for lambda_ in (0.5, functions.h2(np.ones(n)) / functions.h1(np.ones(n)), 100.0):
        model = programme(functions, squares, lambda_, segments=segments, unit=2.0)
        error = (np.abs(squares.weight(lambda_)) * ((most - least) / segments) ** 2 / 4).sum()
        for beta in (np.zeros(n), np.ones(n), generator.random(n), generator.random(n)):
            x = encode(squares, lambda_, beta, segments=segments)
            assert x.shape == model.cost.shape
            rows = np.add.reduceat(model.value * x[model.column], model.row_start[:-1])
            assert (rows >= model.row_lower - 1e-9).all()
            assert (rows <= model.row_upper + 1e-9).all()
            assert set(x[model.binary]) <= {0.0, 1.0}
            true = functions.h2(beta) - lambda_ * functions.h1(beta)
            chords = 2.0 * float(model.cost @ x) + functions.q0 - lambda_ * functions.g0
            assert abs(chords - true) <= error + 1e-9 * abs(true)


def test_binaries_only_where_the_printed_form_is_not_concave():
    """N - lambda*I has one positive entry, n/c1 - lambda, while lambda < n/c1, and none beyond."""
    n, c1 = 4, 2.0
    functions = quadratics(np.ones(n), np.array([0.5, -1.0, 0.25, 2.0]), c1=c1, c2=0.1)
    squares = COORDINATES["eigen"](functions)
    np.testing.assert_allclose(np.sort(squares.gain), [0, 0, 0, n / c1], atol=1e-12)
    for lambda_, expected in ((n / c1 * 0.99, 8), (n / c1 * 1.01, 0)):
        assert programme(functions, squares, lambda_, segments=8, unit=1.0).binary.sum() == expected
