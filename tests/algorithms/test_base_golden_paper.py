"""Golden values of the server rules, computed by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota.algorithms.cotaf import Cotaf
from paota.algorithms.local_sgd import LocalSgd
from paota.algorithms.paota import Paota, similarity_factor, staleness_factor

pytestmark = pytest.mark.bare


def test_staleness_factor():
    np.testing.assert_allclose(staleness_factor(jnp.array([0, 1, 3, 6]), 3.0), [1, 0.75, 0.5, 1 / 3], rtol=1e-6)


def test_similarity_factor():
    updates = jnp.array([[2.0, 0.0], [0.0, 1.0], [-3.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    expected = [1.0, 0.5, 0.0, (1 + np.sqrt(0.5)) / 2, 0.5]
    for update, theta in zip(updates, expected, strict=True):
        np.testing.assert_allclose(similarity_factor(update, jnp.array([5.0, 0.0])), theta, atol=1e-6)
        np.testing.assert_allclose(similarity_factor(update, jnp.zeros(2)), 0.5)  # round 0


@pytest.mark.parametrize("payload", ["model", "update"])
def test_paota_equalises_inside_its_boxes(play, air, payload):
    """Fresh and aligned: the box [15, 15]. One round stale, aligned: [11.25, 15]. Stale 3, opposed: [0, 7.5].

    With no noise the optimum levels p at tau = (15^2 + 7.5^2) / (15 + 7.5) = 12.5: p = (15, 12.5, 7.5).
    """
    updates = [[0.0, 1.0], [0.0, 2.0], [0.0, -1.0]]
    outcome = play(Paota(payload=payload), updates, air([1 + 1j, 0.5, -1j]), staleness=[0, 1, 3])
    np.testing.assert_allclose(outcome.amplitude, [15, 12.5, 7.5], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, np.array([15, 12.5, 7.5]) / 35, rtol=1e-6)
    step = (15 * 1 + 12.5 * 2 - 7.5 * 1) / 35
    np.testing.assert_allclose(outcome.model, [1.0, 1.0 + step], rtol=1e-6)
    norm2 = {"model": [1 + 4, 1 + 9, 1 + 0], "update": [1, 4, 1]}[payload]
    powers = np.array([15, 12.5, 7.5]) ** 2 * norm2 / [2, 0.25, 1]
    np.testing.assert_allclose(outcome.transmit_power_w, powers, rtol=1e-5)


def test_paota_under_overwhelming_noise_is_loud(play, air):
    updates = [[0.0, 1.0], [0.0, 2.0], [0.0, -1.0]]
    outcome = play(Paota(), updates, air([1, 1, 1], noise_power_w=1e6), staleness=[0, 1, 3])
    np.testing.assert_allclose(outcome.amplitude, [15, 15, 7.5], rtol=1e-6)


def test_padding_is_silent(play, air):
    updates = [[0.0, 1.0], [9.0, 9.0]]
    ready = [True, False]
    outcome = play(Paota(payload="update"), updates, air([1, 1], ready=ready), ready=ready)
    np.testing.assert_allclose(outcome.model, [1.0, 2.0], rtol=1e-6)
    assert outcome.amplitude[1] == 0
    assert outcome.weight[1] == 0


def test_local_sgd(play, air):
    updates, samples = [[1.0, 0.0], [0.0, 4.0]], [300.0, 900.0]
    equal = play(LocalSgd(), updates, air([1, 1]), num_samples=samples)
    np.testing.assert_allclose(equal.model, [1.5, 3.0])
    by_samples = play(LocalSgd(weighting="samples"), updates, air([1, 1]), num_samples=samples)
    np.testing.assert_allclose(by_samples.model, [1.25, 4.0])


def test_cotaf_scales_by_the_largest_update(play, air):
    """max |dw|^2 = 25, P = 15: p_t = 0.6. Noise is divided once, by n sqrt(p_t)."""
    updates = [[3.0, 4.0], [1.0, 0.0]]
    noise_power_w = 0.02
    outcome = play(Cotaf(), updates, air([0.1, 5j], noise_power_w=noise_power_w))
    noise = np.asarray(jax.random.normal(jax.random.key(0), (2,))) * np.sqrt(noise_power_w / 2)
    np.testing.assert_allclose(outcome.model, np.array([1 + 2.0, 1 + 2.0]) + noise / (2 * np.sqrt(0.6)), rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [15.0, 0.6], rtol=1e-5)
    np.testing.assert_allclose(outcome.noise_std, np.sqrt(0.01) / (2 * np.sqrt(0.6)), rtol=1e-5)


def test_cotaf_inverts_fading_inside_the_budget(play, air):
    """|h|^2/|dw|^2 = (4/25, 0.25/1): p_t = 15*0.16 = 2.4; both arrive with the same amplitude."""
    outcome = play(Cotaf(fading=True), [[3.0, 4.0], [1.0, 0.0]], air([2j, 0.5]))
    np.testing.assert_allclose(outcome.model, [3.0, 3.0], rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [15.0, 2.4 / 0.25], rtol=1e-5)


def test_cotaf_leaves_deep_fades_silent(play, air):
    outcome = play(Cotaf(fading=True, min_gain=0.3), [[3.0, 4.0], [1.0, 0.0]], air([2j, 0.1]))
    np.testing.assert_allclose(outcome.model, [4.0, 5.0], rtol=1e-5)
    np.testing.assert_allclose(outcome.weight, [1.0, 0.0])
    all_silent = play(Cotaf(fading=True, min_gain=9.0), [[3.0, 4.0]], air([2j], noise_power_w=1.0))
    np.testing.assert_allclose(all_silent.model, [1.0, 1.0])


def test_rayleigh_channel_and_noise_are_standard(air):
    """Kolmogorov-Smirnov with a fixed key: |h|^2 ~ Exp(1), and the real part of the noise has variance sigma^2/2."""
    from scipy.stats import expon, kstest, norm

    from paota.air.fading import Rayleigh

    h = jax.vmap(Rayleigh().draw)(jax.random.split(jax.random.key(1), 4000))
    assert kstest(np.abs(h) ** 2, expon.cdf).pvalue > 0.01
    assert kstest(np.angle(h) / (2 * np.pi) + 0.5, "uniform").pvalue > 0.01
    y = air([1.0], noise_power_w=8.0).receive((jnp.zeros(4000),))
    assert kstest(y, norm(scale=2.0).cdf).pvalue > 0.01
