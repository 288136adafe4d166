"""The air as a whole: errors of knowledge, phase and timing, antennas, packing; each alone and independent."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import expon, gamma, kstest, norm

from paota.air.channel import COMBINERS, combining_vector, make_uplink
from paota.air.settings import Air
from paota.air.uplink import Uplink
from paota.base import settings

ALPHA = 0.01
DEVICES = np.arange(5000)


def uplink(devices=DEVICES, round=3, time_s=32.0, ready=None, seed=5, **air):
    ready = np.ones(len(devices), bool) if ready is None else ready
    return made(tuple(air.items()))(jax.random.key(seed), round, time_s, np.asarray(devices), ready)


@functools.cache
def made(air):
    """Compiled: op by op it would take many times as long."""
    chosen = settings.parse(Air, dict(air), "air")

    def make(key, round, time_s, device, ready):
        return make_uplink(chosen, key, max_power_w=15.0, round=round, time_s=time_s, device=device, ready=ready)

    return jax.jit(make)


def test_the_paper_is_the_default():
    made = uplink()
    assert made.actual_channel is None
    assert made.timing_offset is None
    assert not made.packed
    assert kstest(np.abs(made.channel) ** 2, expon.cdf).pvalue > ALPHA


@pytest.mark.parametrize(
    "air",
    [
        {"path_loss": "umi", "csi_error": 0.1, "phase_error_rad": 0.2, "timing_error_symbols": 0.3},
        {"fading": "jakes", "path_loss": "log-distance"},
    ],
)
def test_a_device_meets_the_same_air_whoever_is_beside_it(air):
    forwards, backwards = uplink(**air), uplink(DEVICES[::-1], **air)
    for name in ("channel", "actual_channel", "timing_offset", "mean_gain"):
        if getattr(forwards, name) is not None:
            np.testing.assert_array_equal(getattr(forwards, name)[::-1], getattr(backwards, name))


def test_position_is_fixed_and_fading_is_not():
    early, late = uplink(round=1, path_loss="umi"), uplink(round=2, path_loss="umi")
    np.testing.assert_array_equal(early.mean_gain, late.mean_gain)
    assert not np.allclose(early.channel, late.channel, rtol=0.1)
    assert kstest(np.abs(early.channel) ** 2 / early.mean_gain, expon.cdf).pvalue > ALPHA


def test_jakes_follows_the_time_and_not_the_round():
    slow = {"fading": "jakes", "doppler_hz": 1e-4}
    a, b = uplink(round=1, time_s=8.0, **slow), uplink(round=9, time_s=8.0, **slow)
    np.testing.assert_array_equal(a.channel, b.channel)
    c = uplink(round=2, time_s=16.0, **slow)
    assert np.abs(a.channel - c.channel).max() < 0.1


def test_csi_error_has_its_variance_and_leaves_the_channel_alone():
    exact, wrong = uplink(path_loss="umi"), uplink(path_loss="umi", csi_error=0.04)
    np.testing.assert_allclose(wrong.actual_channel, exact.channel, rtol=1e-5)
    error = np.asarray(wrong.channel - wrong.actual_channel) / np.sqrt(0.04 * np.asarray(exact.mean_gain) / 2)
    assert kstest(error.real, norm.cdf).pvalue > ALPHA
    assert kstest(error.imag, norm.cdf).pvalue > ALPHA
    assert abs(np.corrcoef(error.real, np.asarray(exact.channel).real)[0, 1]) < 3 / np.sqrt(len(DEVICES))


def test_phase_error_turns_and_nothing_else():
    made = uplink(phase_error_rad=0.25)
    turn = np.asarray(made.actual_channel / made.channel)
    np.testing.assert_allclose(np.abs(turn), 1, rtol=1e-5)
    assert kstest(np.angle(turn), norm(scale=0.25).cdf).pvalue > ALPHA


def test_timing_offsets_are_uniform():
    offset = np.asarray(uplink(timing_error_symbols=0.4).timing_offset)
    assert kstest(offset / 0.8 + 0.5, "uniform").pvalue > ALPHA


def test_errors_do_not_share_draws():
    made = uplink(csi_error=1.0, phase_error_rad=0.1, timing_error_symbols=1.0)
    phase = np.angle(np.asarray(made.actual_channel) / np.asarray(uplink().channel))
    error = np.asarray(made.channel - uplink().channel).real
    pairs = np.corrcoef([phase, error, np.asarray(made.timing_offset)])
    assert np.abs(pairs[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(len(DEVICES))


def test_antennas_combine_to_the_ratio_of_one_device():
    """Alone on the air, maximum-ratio combining: |m^H h|^2 = |h|^2, the sum of 4 exponentials."""
    single = jax.jit(jax.vmap(lambda device: uplink_of_one(device, antennas=4)))(jnp.arange(3000))
    assert kstest(np.abs(single) ** 2, gamma(4).cdf).pvalue > ALPHA
    np.testing.assert_allclose(np.angle(single), 0, atol=1e-3)


def uplink_of_one(device, **air):
    return make_uplink(
        settings.parse(Air, air, "air"), jax.random.key(2), max_power_w=15.0, round=jnp.asarray(0), time_s=jnp.asarray(0.0),
        device=device[None], ready=jnp.ones(1, bool),
    ).channel[0]  # fmt: skip


def test_combining_vector_by_hand():
    """h_1 = (3, 0), h_2 = (0, 4j), a third one not ready: m = (3, 4j)/5, m^H h_1 = 9/5, m^H h_2 = 16/5."""
    h = jnp.array([[3, 0], [0, 4j], [9, 9]])
    m = combining_vector("sum", h, jnp.array([True, True, False]))
    np.testing.assert_allclose(m, [0.6, 0.8j], rtol=1e-6)
    np.testing.assert_allclose(h[:2] @ jnp.conj(m), [1.8, 3.2], rtol=1e-6)
    for kind in COMBINERS:
        np.testing.assert_array_equal(combining_vector(kind, h, jnp.zeros(3, bool)), 0)


def test_max_min_combiner_by_hand():
    """The same: 9 a = 16 (1 - a) makes both gains 144/25, at m = (4, 3j)/5."""
    h, ready = jnp.array([[3, 0], [0, 4j], [9, 9]]), jnp.array([True, True, False])
    gain = jnp.abs(h @ jnp.conj(combining_vector("max-min", h, ready))) ** 2
    np.testing.assert_allclose(gain[:2], 144 / 25, rtol=2e-2)


def test_mmse_combiner_by_hand():
    """Orthogonal channels: m ~ (3/(9 + x), 4j/(16 + x)). Without noise it undoes them, as max-min does."""
    h, ready = jnp.array([[3, 0], [0, 4j], [9, 9]]), jnp.array([True, True, False])
    for noise in (0.0, 7.0):
        expected = np.array([3 / (9 + noise), 4j / (16 + noise)])
        m = combining_vector("mmse", h, ready, noise)
        np.testing.assert_allclose(m, expected / np.linalg.norm(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("path_loss_db", [0.0, 40.0])
def test_max_min_lifts_the_weakest_device(path_loss_db):
    """59 devices, 16 antennas: ten times the least gain of the sum at least, also where gains differ by 40 dB."""
    rng = np.random.default_rng(3)
    h = (rng.normal(size=(20, 59, 16)) + 1j * rng.normal(size=(20, 59, 16))) * np.sqrt(0.5)
    h *= 10 ** (rng.uniform(-path_loss_db, 0, (20, 59, 1)) / 20)

    def least(kind):
        m = jax.vmap(lambda one: combining_vector(kind, one, jnp.ones(59, bool)))(jnp.asarray(h))
        np.testing.assert_allclose(jnp.linalg.norm(m, axis=1), 1, rtol=1e-5)
        return np.median(jnp.min(jnp.abs(jnp.einsum("snA,sA->sn", h, jnp.conj(m))) ** 2, axis=1))

    assert least("max-min") > 10 * least("sum")


def link(channel, noise_power_w=0.0, **more):
    channel = jnp.array(channel, complex)
    return Uplink(
        channel, jnp.ones(len(channel), bool), jnp.array(noise_power_w), jnp.array(15.0), jax.random.key(0), **more
    )


def test_what_is_sent_meets_the_actual_channel():
    """Believed 2, actually 1: half of it arrives. Turned by 60 degrees: cos 60 = 1/2 of it is in phase."""
    payload = jnp.array([[4.0, 8.0]])
    weak = link([2.0], actual_channel=jnp.array([1.0 + 0j]))
    np.testing.assert_allclose(weak.transmit(jnp.array([0.5]), payload), [2, 4])
    turned = link([1.0], actual_channel=jnp.exp(1j * jnp.pi / 3)[None])
    np.testing.assert_allclose(turned.transmit(jnp.ones(1), payload), [2, 4], rtol=1e-5)


def test_late_and_early_symbols_by_hand():
    """Late by 1/4: 3/4 of each symbol and 1/4 of the one before. Early by 1/2: half of it and half of the next."""
    payload = jnp.array([[4.0, 8.0, 12.0], [2.0, 4.0, 6.0]])
    air = link([1.0, 1.0], timing_offset=jnp.array([0.25, -0.5]))
    late, early = [3, 6 + 1, 9 + 2], [1 + 2, 2 + 3, 3]
    np.testing.assert_allclose(air.transmit(jnp.ones(2), payload), np.add(late, early), rtol=1e-6)


def test_packing_leaks_a_phase_error_into_the_partner():
    """(3 + 4j) turned by 90 degrees is -4 + 3j; the last weight of an odd number has an empty partner."""
    payload = jnp.array([[3.0, 4.0, 5.0]])
    straight, turned = link([1.0], packed=True), link([1.0], actual_channel=jnp.array([1j]), packed=True)
    np.testing.assert_allclose(straight.transmit(jnp.ones(1), payload), [3, 4, 5])
    np.testing.assert_allclose(turned.transmit(jnp.ones(1), payload), [-4, 3, 0], atol=1e-6)


def test_packed_symbols_are_late_together():
    """Symbols (1, 2), (3, 4), late by 1/2: the pair moves as one."""
    air = link([1.0], timing_offset=jnp.array([0.5]), packed=True)
    received = air.transmit(jnp.ones(1), jnp.array([[1.0, 2.0, 3.0, 4.0]]))
    np.testing.assert_allclose(received, [0.5, 1, 1.5 + 0.5, 2 + 1])


def test_packing_has_the_same_noise_a_weight():
    plain, packed = link([1.0], 8.0), link([1.0], 8.0, packed=True)
    payload = jnp.zeros((1, 4001))
    noise = packed.transmit(jnp.ones(1), payload)
    np.testing.assert_array_equal(noise, plain.transmit(jnp.ones(1), payload))
    assert kstest(noise, norm(scale=2.0).cdf).pvalue > ALPHA
