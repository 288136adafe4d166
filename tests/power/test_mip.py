"""The integer programme against the exact optimum: the gap, how it shrinks, limits, and the engine's host call."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.power import mip, solve
from paota.power.settings import MipOptions


def setting(devices, seed, **more):
    generator = np.random.default_rng(seed)
    return {
        "p_max": 15.0,
        "staleness": generator.integers(0, 3, devices),
        "similarity": generator.random(devices),
        "noise_power_w": 1e-3,
        **more,
    }


def gap(instance, **options):
    """Relative distance of the integer programme's objective from the optimum."""
    found = solve(**instance, method="mip", time_limit_s=None, **options)
    distance = found.objective / solve(**instance).objective - 1
    assert found.gap == pytest.approx(distance, abs=1e-11)  # the solution itself knows how far off it is
    return distance


def test_fifty_devices_with_32_segments_come_within_a_thousandth():
    instance = setting(50, seed=0)
    found = gap(instance, segments=32)
    assert -1e-9 <= found <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("devices", [50, 100])
def test_more_instances_with_32_segments_come_within_a_thousandth(devices, seed):
    noise = [0.0, 7.96e-14, 1e-3, 1.0][seed % 4]
    assert -1e-9 <= gap(setting(devices, seed, noise_power_w=noise), segments=32) <= 1e-3


def mean_gaps(devices, seeds, segments, **options):
    rows = [[gap(setting(devices, seed), segments=m, tolerance=1e-9, **options) for m in segments] for seed in seeds]
    assert np.min(rows) >= -1e-9  # the exact optimum is never beaten
    return np.mean(rows, axis=0)


def test_the_gap_falls_about_fourfold_with_every_doubling():
    gaps = mean_gaps(6, range(12), (4, 8, 16))
    per_doubling = math.sqrt(gaps[0] / gaps[-1])
    assert 3.0 <= per_doubling <= 5.5


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", ["sum", "eigen"])
def test_the_gap_falls_about_fourfold_over_three_doublings(coordinates):
    gaps = mean_gaps(12, range(12), (4, 8, 16, 32), coordinates=coordinates)
    assert 3.4 <= (gaps[0] / gaps[-1]) ** (1 / 3) <= 4.6


def test_the_printed_coordinates_err_more():
    ours, printed = (mean_gaps(8, range(6), (8,), coordinates=name)[0] for name in ("sum", "eigen"))
    assert ours < printed < 0.02


def test_algorithm_2_as_printed_ends_after_one_pass_and_errs_most():
    """All four pairs of coordinates and stopping rules; the printed pair is the worst."""
    pairs = [(x, rule) for x in ("sum", "eigen") for rule in ("mended", "printed")]
    found = {(x, rule): mean_gaps(8, range(6), (8,), coordinates=x, stopping=rule)[0] for x, rule in pairs}
    assert max(found, key=found.__getitem__) == ("eigen", "printed")
    assert found["sum", "mended"] == min(found.values())
    one = solve(**setting(8, seed=0), method="mip", stopping="printed")
    assert "after 1 pass" in one.message


def test_devices_without_a_choice_are_dropped():
    """Not ready, rho = theta, p_max = 0: G is singular there, and the answer must not suffer."""
    instance = {
        "p_max": [15, 15, 15, 0, 10, 12],
        "rho": [1, 0.75, 0.75, 1, 0.6, 1],
        "theta": [0.2, 0.75, 0.9, 0.3, 0.1, 0.4],
        "ready": [1, 1, 0, 1, 1, 1],
        "noise_power_w": 0.01,
    }
    found = solve(**instance, method="mip", segments=32)
    best = solve(**instance)
    assert found.objective == pytest.approx(best.objective, rel=1e-3)
    assert found.power[1] == 11.25
    assert found.power[2] == found.power[3] == 0


@pytest.mark.parametrize(
    ("instance", "power", "fragment"),
    [
        ({"lo": [2, 3], "hi": [2, 3]}, [2, 3], "nothing to choose"),
        ({"lo": [1, 2], "hi": [3, 5], "epsilon2": 0.0}, [3, 5], "Only the noise counts"),
        ({"lo": [1, 2], "hi": [3, 5], "ready": [0, 0]}, [0, 0], "No device is ready"),
        ({"lo": [1], "hi": [3], "noise_power_w": 1.0}, [3], "Dinkelbach with 16 segments"),
    ],
)
def test_edge_cases(instance, power, fragment):
    found = solve(**instance, method="mip")
    np.testing.assert_allclose(found.power, power, rtol=1e-9)
    assert fragment in found.message


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_power_does_not_matter(unit):
    instance = setting(8, seed=3)
    scaled = instance | {"p_max": 15.0 * unit, "noise_power_w": 1e-3 * unit**2}
    np.testing.assert_allclose(
        solve(**scaled, method="mip").power / unit, solve(**instance, method="mip").power, rtol=1e-6
    )


def test_a_time_limit_keeps_the_best_point_and_says_so():
    instance = setting(30, seed=1)
    found = solve(**instance, method="mip", segments=64, time_limit_s=0.0)
    assert "time limit of 0 s" in found.message
    assert found.objective >= solve(**instance).objective
    assert np.isfinite(found.power).all()


def test_another_number_of_threads_in_the_same_process():
    instance = setting(5, seed=2)
    first, second = (solve(**instance, method="mip", threads=threads).objective for threads in (1, 2))
    assert first == pytest.approx(second, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        ({"segments": 0}, "segments"),
        ({"segments": 2.5}, "must be a whole number"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"time_limit_s": -1.0}, "time_limit_s"),
        ({"threads": 0}, "threads"),
        ({"coordinates": "eigne"}, "did you mean 'eigen'"),
        ({"stopping": "print"}, "did you mean 'printed'"),
        ({"segmets": 4}, "did you mean 'segments'"),
        ({"segments": 2_000_000}, "the most allowed"),
    ],
)
def test_wrong_options_are_one_sentence(options, fragment):
    with pytest.raises(UserError, match=fragment):
        solve(**setting(3, seed=0), method="mip", **options)


def test_an_option_of_another_method_is_refused():
    with pytest.raises(UserError, match="segments is an option of the method 'mip', not of 'exact'"):
        solve(**setting(3, seed=0), segments=8)
    with pytest.raises(UserError, match="unknown method 'exakt'"):
        solve(**setting(3, seed=0), method="exakt")
    with pytest.raises(UserError, match="the method 'qp' no longer exists: 'exact' finds the same optimum"):
        solve(**setting(3, seed=0), method="qp")


def host(rho, theta, p_max, ready, c1=100.0, c2=1.0, dtype=np.float32, **options):
    arrays = (np.asarray(a, dtype=dtype) for a in (rho, theta, p_max))
    return mip.host_solve(*arrays, np.asarray(ready), dtype(c1), dtype(c2), options=MipOptions(**options))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_host_call_equals_the_solver(dtype):
    rho, theta, ready = [1, 0.75, 0.75, 1], [0.5, 0.25, 0.875, 0.125], [True, True, False, True]
    power = host(rho, theta, np.full(4, 8.0), ready, c1=4.0, c2=2.0, dtype=dtype, segments=32)
    assert power.dtype == dtype
    # c = c2/c1 = 1/2 = 2*d*sigma^2/(eps^2*K) with d = 1, K = 4
    same = solve(
        p_max=8.0,
        rho=rho,
        theta=theta,
        ready=ready,
        num_parameters=1,
        num_devices=4,
        noise_power_w=1.0,
        method="mip",
        segments=32,
    )
    np.testing.assert_allclose(power, same.power, rtol=1e-6)


def test_host_call_never_raises_for_what_training_may_bring():
    ones = np.ones(3)
    np.testing.assert_array_equal(host(ones, ones / 2, ones, [False] * 3), 0)
    np.testing.assert_array_equal(host(ones, ones / 2, 0 * ones, [True] * 3), 0)
    np.testing.assert_array_equal(host(ones, ones / 2, 4 * ones, [True] * 3, c1=0.0), 4)
    np.testing.assert_array_equal(host(ones, ones / 2, 4 * ones, [True] * 3, c1=0.0, c2=0.0), 4)
    diverged = host(ones, [0.5, math.nan, math.nan], ones, [True, True, False])
    np.testing.assert_array_equal(diverged, [math.nan, math.nan, 0])
    assert host(np.ones(0), np.ones(0), np.ones(0), np.ones(0, bool)).shape == (0,)


def test_host_call_inside_a_compiled_program():
    import jax
    import jax.numpy as jnp

    from paota.power import p2_jax as exact_jax

    rho, theta = jnp.array([1.0, 0.75, 0.6, 1.0]), jnp.array([0.3, 0.9, 0.1, 0.7])
    p_max, ready = jnp.full(4, 15.0), jnp.array([True, True, True, False])

    @jax.jit
    def powers(rho, theta, p_max, ready):
        shape = jax.ShapeDtypeStruct(rho.shape, rho.dtype)
        call = lambda *arrays: mip.host_solve(*map(np.asarray, arrays), options=MipOptions(segments=64))  # noqa: E731
        return jax.pure_callback(call, shape, rho, theta, p_max, ready, 100.0, 1.0)

    best, _ = exact_jax.solve(p_max * jnp.minimum(rho, theta), p_max * jnp.maximum(rho, theta), ready, 0.01)
    found = powers(rho, theta, p_max, ready)
    objective = lambda p: (jnp.square(p).sum() + 0.01) / p.sum() ** 2  # noqa: E731
    assert float(found[3]) == 0
    assert float(objective(found)) == pytest.approx(float(objective(best)), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({"coordinates": "eigen", "stopping": "printed"}, {"coordinates": "eigen", "stopping": "printed"}),
        ({"max_passes": 1, "segments": 4}, {"max_passes": 1, "segments": 4}),
        ({"time_limit_s": 1e-9}, {"time_limit_s": 1e-9}),  # no pass at all: the start, beta = 1/2
    ],
)
def test_a_run_hands_its_settings_to_the_solver(changes, options):
    """`[power]` reaches the integer programme inside a compiled program, numbers as arguments of it."""
    import jax
    import jax.numpy as jnp

    from paota.base.settings import as_tree, parse
    from paota.power.policy import solve_powers
    from paota.power.settings import Power

    rho, theta = np.array([1.0, 0.75, 0.6, 1.0]), np.array([0.3, 0.9, 0.1, 0.7])
    power = as_tree(parse(Power, {"method": "mip", **changes}, "power"))
    arrays = [jnp.asarray(a) for a in (rho, theta, np.full(4, 15.0))]
    asked = {"num_devices": 4, "num_parameters": 10, "noise_power_w": 1e-3}
    made = jax.jit(lambda power: solve_powers(*arrays, jnp.ones(4, bool), power, **asked))(power)
    alone = solve(p_max=15.0, rho=rho, theta=theta, method="mip", **asked, **options)
    np.testing.assert_allclose(made, alone.power, rtol=1e-5)
