"""Fading against its distributions, with fixed keys; a p-value below 0.01 fails."""

import jax
import numpy as np
import pytest
from scipy.special import j0
from scipy.stats import expon, kstest, norm, rice

from paota.air.fading import Jakes, NoFading, Rician

KEYS = jax.random.split(jax.random.key(7), 8000)
ALPHA = 0.01


@jax.jit
def rician(keys, k_factor_db):
    return jax.vmap(Rician(k_factor_db=k_factor_db).draw)(keys)


@jax.jit
def jakes(keys, doppler_hz, k_factor_db, time_s):
    model = Jakes(doppler_hz=doppler_hz, k_factor_db=k_factor_db)
    return jax.vmap(lambda key: model.draw_at(key, time_s))(keys)


def rician_amplitude(k_factor_db):
    k = 10 ** (k_factor_db / 10)
    direct, scatter = np.sqrt(k / (k + 1)), np.sqrt(1 / (2 * (k + 1)))
    return rice(direct / scatter, scale=scatter).cdf


@pytest.mark.parametrize("k_factor_db", [-10.0, 0.0, 6.0, 15.0])
def test_rician_amplitude_and_phase(k_factor_db):
    h = rician(KEYS, k_factor_db)
    assert kstest(np.abs(h), rician_amplitude(k_factor_db)).pvalue > ALPHA
    assert kstest(np.angle(h) / (2 * np.pi) + 0.5, "uniform").pvalue > ALPHA


def at(model, time_s):
    return np.asarray(jakes(KEYS, model.doppler_hz, model.k_factor_db, time_s))


@pytest.mark.parametrize("time_s", [0.0, 800.0])
def test_jakes_is_rayleigh_at_any_time(time_s):
    h = at(Jakes(doppler_hz=0.02), time_s)
    assert kstest(np.abs(h) ** 2, expon.cdf).pvalue > ALPHA
    assert kstest(np.angle(h) / (2 * np.pi) + 0.5, "uniform").pvalue > ALPHA


@pytest.mark.parametrize("lag_s", [4.0, 8.0, 19.0, 40.0])
def test_jakes_forgets_as_bessel_says(lag_s):
    """E[h(t) conj(h(t + x))] = J0(2 pi f_d x) over independent devices, whatever t."""
    model = Jakes(doppler_hz=0.02)
    product = at(model, 100.0) * np.conj(at(model, 100.0 + lag_s))
    for part, expected in ((product.real, j0(2 * np.pi * 0.02 * lag_s)), (product.imag, 0.0)):
        z = (part.mean() - expected) / (part.std() / np.sqrt(len(part)))
        assert 2 * norm.sf(abs(z)) > ALPHA


def test_jakes_with_a_direct_path_is_rician():
    h = at(Jakes(doppler_hz=0.02, k_factor_db=6.0), 300.0)
    assert kstest(np.abs(h), rician_amplitude(6.0)).pvalue > ALPHA


def test_a_device_that_stands_still_keeps_its_channel():
    np.testing.assert_array_equal(at(Jakes(doppler_hz=0.0), 0.0), at(Jakes(doppler_hz=0.0), 9000.0))


def test_no_fading():
    assert NoFading().draw(KEYS[0]) == 1
