"""Path loss against tables worked out by hand, positions and shadowing against their distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binomtest, kstest, norm

from paota.air.path_loss import LogDistance, UrbanMicro, distance_in_disc, sight_probability

KEYS = jax.random.split(jax.random.key(11), 8000)
ALPHA = 0.01


def loss_db(model):
    return -10 * np.log10(np.asarray(jax.jit(jax.vmap(model.gain))(KEYS), float))


def test_devices_are_uniform_over_the_ring():
    """Area grows with the square of the distance: D^2 is uniform between 10^2 and 200^2."""
    distance = distance_in_disc(jnp.linspace(0, 1, 1001), 10.0, 200.0)
    np.testing.assert_allclose(distance**2, np.linspace(100, 40_000, 1001), rtol=1e-5)
    free_space_db = loss_db(LogDistance(radius_m=200.0, min_distance_m=10.0, exponent=2.0))
    assert kstest((10 ** ((free_space_db - 40) / 10) - 100) / (40_000 - 100), "uniform").pvalue > ALPHA


def test_log_distance_by_hand():
    """All devices at 100 m: 40 + 10 * 3.5 * log10(100) = 110 dB; a gain of 1e-11 survives single precision."""
    model = LogDistance(radius_m=100.0, min_distance_m=100.0, reference_loss_db=40.0, exponent=3.5)
    np.testing.assert_allclose(jax.jit(jax.vmap(model.gain))(KEYS[:5]), 1e-11, rtol=1e-4)


def test_log_distance_shadowing_is_normal_in_db():
    model = LogDistance(radius_m=100.0, min_distance_m=100.0, exponent=3.5, shadowing_db=8.0)
    assert kstest(loss_db(model) - 110, norm(scale=8.0).cdf).pvalue > ALPHA


@pytest.mark.parametrize(
    ("ground_m", "in_sight_db", "out_of_sight_db"),
    [
        # D = sqrt(100^2 + 8.5^2) = 100.361, log10 = 2.001563, log10(3.5) = 0.544068:
        # 32.4 + 21*2.001563 + 20*0.544068 = 85.314; 22.4 + 35.3*2.001563 + 21.3*0.544068 = 104.644
        (100.0, 85.314, 104.644),
        # Beyond the breakpoint 4*9*0.5*3.5e9/c = 210.14 m: D = 400.090, log10 = 2.602158:
        # 32.4 + 40*2.602158 + 10.8814 - 9.5*log10(210.14^2 + 8.5^2) = 103.234; 22.4 + 91.856 + 11.589 = 125.845
        (400.0, 103.234, 125.845),
    ],
)
def test_umi_by_hand(ground_m, in_sight_db, out_of_sight_db):
    model = UrbanMicro(carrier_ghz=3.5)
    assert float(model.loss_in_sight_db(jnp.asarray(ground_m))) == pytest.approx(in_sight_db, abs=2e-3)
    assert float(model.loss_out_of_sight_db(jnp.asarray(ground_m))) == pytest.approx(out_of_sight_db, abs=2e-3)


def test_umi_slopes_meet_at_the_breakpoint():
    model = UrbanMicro(carrier_ghz=3.5)
    break_m = 4 * 9 * 0.5 * 3.5e9 / 299_792_458
    before, after = (float(model.loss_in_sight_db(jnp.asarray(break_m * x))) for x in (0.9999, 1.0001))
    assert before == pytest.approx(after, abs=0.01)


def test_umi_sight_probability_by_hand():
    """18/100 + exp(-100/36) (1 - 18/100) = 0.18 + 0.062177 * 0.82 = 0.230985."""
    np.testing.assert_allclose(sight_probability(jnp.array([5.0, 18.0, 100.0])), [1, 1, 0.230985], rtol=1e-5)


def test_umi_draws_sight_and_shadow():
    """All devices at 100 m. Without shadows there are two losses, in sight with probability 0.231."""
    plain = loss_db(UrbanMicro(radius_m=100.0, min_distance_m=100.0, shadowing=False))
    in_sight = np.isclose(plain, 85.314, atol=0.01)
    np.testing.assert_allclose(plain[~in_sight], 104.644, atol=0.01)
    assert binomtest(int(in_sight.sum()), len(plain), 0.230985).pvalue > ALPHA
    shadow = loss_db(UrbanMicro(radius_m=100.0, min_distance_m=100.0)) - plain
    assert kstest(shadow[in_sight], norm(scale=4.0).cdf).pvalue > ALPHA
    assert kstest(shadow[~in_sight], norm(scale=7.82).cdf).pvalue > ALPHA
