"""The compiled solver: equal to the host's, in float32 too, masked, batched, and without a second compilation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.power import p2_jax as exact_jax
from paota.power.level import level

FLOAT32 = 5e-7  # a few units in the last place


@jax.jit
def solve_batch(lo, hi, ready, c):
    """`solve` for arrays [instances, devices], with one c for all instances or one for each."""
    return jax.vmap(exact_jax.solve)(lo, hi, ready, jnp.broadcast_to(c, lo.shape[:1]))


@jax.jit
def kkt_residual(power, lo, hi, ready, c):
    """max_k |p_k - clip((|p|^2 + c)/1'p, lo_k, hi_k)| / hi_k over the ready devices, 0 if there are none."""
    power, lo, hi = (jnp.where(jnp.asarray(ready), value, 0) for value in (power, lo, hi))
    scale = jnp.where(power.max(initial=0) > 0, power.max(initial=0), 1)
    share = power / scale
    total = share.sum()
    noise = jnp.where(jnp.isnan(jnp.asarray(c)), jnp.inf, c) / scale / scale
    tau = jnp.where(total > 0, (jnp.square(share).sum() + noise) / jnp.where(total > 0, total, 1), 0)
    gap = jnp.abs(power - jnp.clip(tau * scale, lo, hi))
    return jnp.max(jnp.where(hi > 0, gap / jnp.where(hi > 0, hi, 1), 0), initial=0)


def instances(count, n, seed):
    """Rows of boxes in float32: caps alike or over 12 decades, some fixed, some from zero, c of every size."""
    generator = np.random.default_rng(seed)
    cap = np.where(np.arange(count)[:, None] % 2, 10.0 ** generator.uniform(-6, 6, (count, n)), 15.0)
    rho, theta = generator.choice([1, 0.75, 0.6], (count, n)), generator.random((count, n))
    theta = np.where(generator.random((count, n)) < 0.1, rho, theta)
    theta = np.where(generator.random((count, n)) < 0.1, 0, theta)
    c = np.choose(
        np.arange(count) % 5, [np.zeros(count), 1e-11, 10.0 ** generator.uniform(-12, 12, count), 1e30, np.inf]
    )
    ready = generator.random((count, n)) < 0.6
    lo, hi = cap * np.minimum(rho, theta), cap * np.maximum(rho, theta)
    return lo.astype(np.float32), hi.astype(np.float32), ready, c.astype(np.float32)


def host_power(lo, hi, ready, c):
    power = np.zeros(lo.size)
    if ready.any() and hi[ready].max() > 0:
        wide = lo[ready].astype(np.float64), hi[ready].astype(np.float64)
        power[ready] = np.clip(level(*wide, float(c)), *wide)
    return power


def test_float32_agrees_with_the_host_in_a_batch():
    lo, hi, ready, c = instances(1000, 60, seed=1)
    power, tau = jax.jit(solve_batch)(lo, hi, ready, c)
    assert power.dtype == jnp.float32
    assert tau.shape == (1000,)
    for row in range(1000):
        expected = host_power(lo[row], hi[row], ready[row], c[row])
        np.testing.assert_allclose(power[row], expected, rtol=FLOAT32, atol=0)
    residual = jax.vmap(kkt_residual)(power, lo, hi, ready, c)
    assert float(residual.max()) < 2e-6


def test_batch_equals_one_by_one_and_scalar_c_is_shared():
    lo, hi, ready, _ = instances(8, 16, seed=2)
    batch, levels = solve_batch(lo, hi, ready, 1e-3)
    for row in range(8):
        power, tau = exact_jax.solve(lo[row], hi[row], ready[row], 1e-3)
        np.testing.assert_allclose(batch[row], power, rtol=FLOAT32)
        np.testing.assert_allclose(levels[row], tau, rtol=FLOAT32)


def test_float64_reaches_the_hosts_accuracy():
    lo, hi, ready, c = instances(50, 30, seed=3)
    with jax.enable_x64(True):
        wide = [np.asarray(a, dtype=np.float64) for a in (lo, hi)]
        power, _ = jax.jit(solve_batch)(*wide, ready, c.astype(np.float64))
        assert power.dtype == jnp.float64
    for row in range(50):
        expected = host_power(lo[row], hi[row], ready[row], c[row])
        np.testing.assert_allclose(power[row], expected, rtol=1e-14, atol=0)


def test_tiny_noise_is_not_lost_in_float32():
    """Every level in [1, 2] is optimal without noise; noise, and our convention, ask for the largest."""
    for c in (0.0, 1e-11):
        power, tau = exact_jax.solve(jnp.ones(100), jnp.linspace(2.0, 3.0, 100), jnp.ones(100, bool), c)
        assert float(tau) == 2.0
        np.testing.assert_array_equal(power, 2.0)


@pytest.mark.parametrize("garbage", [0.0, np.nan, np.inf])
def test_devices_that_are_not_ready_are_never_looked_at(garbage):
    lo = jnp.array([1.0, garbage, 4.0, garbage])
    hi = jnp.array([2.0, garbage, 6.0, garbage])
    power, tau = exact_jax.solve(lo, hi, jnp.array([True, False, True, False]), 0.0)
    np.testing.assert_allclose(power, [2, 0, 4, 0])
    np.testing.assert_allclose(tau, 10 / 3, rtol=1e-6)


@pytest.mark.parametrize("c", [0.0, 1.0, np.inf, np.nan])
def test_nobody_ready_and_nobody_able_to_send_give_zeros(c):
    for hi, ready in ((2.0, False), (0.0, True)):
        power, tau = exact_jax.solve(jnp.zeros(3), jnp.full(3, hi), jnp.full(3, ready), c)
        np.testing.assert_array_equal(power, 0)
        assert float(tau) == 0
        assert float(kkt_residual(power, jnp.zeros(3), jnp.full(3, hi), jnp.full(3, ready), c)) == 0


@pytest.mark.parametrize("c", [np.inf, np.nan], ids=["c1=0", "c1=c2=0"])
def test_only_noise_counts(c):
    power, _ = exact_jax.solve(jnp.ones(2), jnp.array([2.0, 3.0]), jnp.ones(2, bool), c)
    np.testing.assert_array_equal(power, [2, 3])


@given(st.integers(0, 2**32 - 1), st.floats(-25, 25))
@settings(deadline=None, max_examples=50)
def test_the_unit_of_power_does_not_matter(seed, exponent):
    lo, hi, ready, c = (a[0] for a in instances(1, 12, seed))
    c = np.float32(0.3)
    factor = np.float32(2.0 ** int(exponent))
    power, _ = exact_jax.solve(lo * factor, hi * factor, ready, c * factor * factor)
    expected, _ = exact_jax.solve(lo, hi, ready, c)
    np.testing.assert_allclose(power, expected * factor, rtol=FLOAT32)


def test_it_runs_inside_a_compiled_loop_and_compiles_once():
    lo, hi, ready, c = instances(20, 32, seed=4)
    traces = []

    @jax.jit
    def levels(lo, hi, ready, c):
        traces.append(1)

        def step(total, instance):
            power, tau = exact_jax.solve(*instance)
            return total + power.sum(), tau

        return jax.lax.scan(step, jnp.float32(0), (lo, hi, ready, c))

    _, tau = levels(lo, hi, ready, c)
    levels(lo, hi, ~ready, c)
    assert len(traces) == 1
    np.testing.assert_allclose(tau, solve_batch(lo, hi, ready, c)[1], rtol=FLOAT32)
