"""Frequency-selective channels: profiles, statistics, and precoding against plain readings of the formulas."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import j0
from scipy.stats import expon, kstest

import paota
from paota import simulate
from paota.air.channel import make_uplink, selective
from paota.air.precoding import precoded
from paota.air.profiles import block_s, prefix_samples, profile, symbol_rate_hz
from paota.air.settings import Air
from paota.air.uplink import Uplink, invert, per_subcarrier
from paota.algorithms.paota import Paota
from paota.base import settings
from paota.engine import blocks, structures
from paota.power.settings import Power

ALPHA = 0.01
DEVICES = np.arange(4000)
PROFILES = ("exponential", "tdl-a", "tdl-b", "tdl-c")
SMALL = {
    "rounds": 3,
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [30, 60]},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"local_steps": 2, "batch_size": 8},
}


def parsed(**air):
    return settings.parse(Air, {"subcarriers": 64, **air}, "air")


@functools.cache
def drawn(air, time_s=0.0, seed=3):
    chosen = parsed(**dict(air))
    devices = DEVICES[:1000] if "antennas" in dict(air) else DEVICES
    return np.asarray(jax.jit(lambda key: selective(chosen, key, 5, time_s, devices))(jax.random.key(seed)))


# Profiles.


def test_tables_by_hand():
    """Rows of TR 38.901, Tables 7.7.2-1 to 7.7.2-3: (taps, index, normalised delay, power over that of the tap at 0 dB)."""
    for name, taps, index, delay, power_db, strongest in (
        ("tdl-a", 23, 10, 1.8978, -6.6, 1), ("tdl-a", 23, 22, 9.6586, -29.7, 1), ("tdl-b", 23, 15, 1.7842, -1.9, 0),
        ("tdl-b", 23, 22, 4.7834, -11.3, 0), ("tdl-c", 24, 4, 0.2176, -2.5, 5), ("tdl-c", 24, 23, 8.6523, -22.8, 5),
    ):  # fmt: skip
        found = profile(name)
        assert len(found.delay) == len(found.power) == taps
        assert found.delay[index] == delay
        np.testing.assert_allclose(10 * np.log10(found.power[index] / found.power[strongest]), power_db, atol=1e-9)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_have_power_one_and_spread_one(name):
    delay, power = profile(name)
    mean = power @ delay
    np.testing.assert_allclose([power.sum(), np.sqrt(power @ (delay - mean) ** 2)], 1, rtol=1e-4)


def test_the_exponential_profile_correlates_as_its_density():
    """The Fourier transform of exp(-tau) is 1 / (1 + j 2 pi f)."""
    delay, power = profile("exponential")
    x = np.linspace(0, 1, 50)
    found = np.exp(-2j * np.pi * np.outer(x, delay)) @ power
    assert np.abs(np.abs(found) - np.abs(1 / (1 + 2j * np.pi * x))).max() < 0.05


# Statistics.


@pytest.mark.parametrize("name", PROFILES)
def test_every_subcarrier_is_rayleigh_and_correlates_as_the_profile(name):
    h = drawn((("delay_profile", name),))[:, 0]
    for f in (0, 17, 63):
        assert kstest(np.abs(h[:, f]) ** 2, expon.cdf).pvalue > ALPHA
    delay, power = profile(name)
    spacing = np.array([1, 2, 5, 11, 30])
    expected = np.exp(-2j * np.pi * np.outer(spacing * 20e6 / 64 * 300e-9, delay)) @ power
    found = np.array([np.mean(h[:, s:] * np.conj(h[:, :-s])) for s in spacing])
    assert np.abs(found - expected).max() < 4 / np.sqrt(len(DEVICES))


def test_the_delay_spread_scales_the_correlation():
    narrow = drawn((("delay_spread_s", 1e-9),))[:, 0]
    assert np.abs(narrow[:, 0] - narrow[:, 63]).max() < 0.6
    wide = drawn((("delay_spread_s", 3e-6),))[:, 0]
    assert abs(np.mean(wide[:, 0] * np.conj(wide[:, 1]))) < 0.25


def test_jakes_moves_every_subcarrier_and_antenna():
    air = (("fading", "jakes"), ("doppler_hz", 0.02), ("antennas", 2), ("subcarriers", 8))
    early, late = drawn(air, 0.0), drawn(air, 8.0)
    found = np.mean(late * np.conj(early), axis=0)
    assert found.shape == (2, 8)
    assert np.abs(found - j0(2 * np.pi * 0.02 * 8)).max() < 5 / np.sqrt(1000)
    assert np.abs(np.mean(early[:, 0] * np.conj(early[:, 1]))) < 4 / np.sqrt(1000)


def test_one_profile_serves_all_algorithms_and_fleets():
    chosen = parsed(delay_profile="tdl-b")
    forwards, backwards = (selective(chosen, jax.random.key(0), 1, 0.0, k) for k in (np.arange(5), np.arange(5)[::-1]))
    np.testing.assert_array_equal(forwards[::-1], backwards)


# Precoding.


def uplink_of(h, actual=None, ready=None, **fields):
    ready = jnp.ones(len(h), bool) if ready is None else ready
    return Uplink(
        channel=jnp.asarray(h), ready=ready, noise_power_w=0.0, max_power_w=jnp.asarray(15.0), noise_key=jax.random.key(0),
        actual_channel=None if actual is None else jnp.asarray(actual), **fields,
    )  # fmt: skip


def test_precoding_by_hand():
    """h = (2, 1), payload energies (4, 1) of 5: 1/g = (4/5)/4 + (1/5)/1 = 2/5. Phases alone: g = (3/2)^2, r = (4/3, 2/3)."""
    h, energy = np.array([[2j, 1.0]]), jnp.array([[4.0, 1.0]])
    full = precoded(parsed(subcarriers=2), uplink_of(h), energy)
    np.testing.assert_allclose(np.abs(full.channel) ** 2, 5 / 2, rtol=1e-6)
    assert full.met is None
    phase = precoded(parsed(subcarriers=2, precoding="phase"), uplink_of(h), energy)
    np.testing.assert_allclose(phase.channel, 1.5, rtol=1e-6)
    np.testing.assert_allclose(phase.met, [[4 / 3, 2 / 3]], rtol=1e-6)
    part = precoded(parsed(subcarriers=2, precoding="truncated", truncation=2.0), uplink_of(h), energy)
    np.testing.assert_allclose(np.abs(part.channel) ** 2, 5.0, rtol=1e-6)
    np.testing.assert_array_equal(part.met, [[1.0, 0.0]])


@pytest.mark.parametrize("packing", ["real", "complex"])
@pytest.mark.parametrize("error", [None, 0.05])
@pytest.mark.parametrize("precoding", ["full", "truncated", "phase"])
def test_received_signal_and_power_equal_a_literal_reading(precoding, error, packing):
    """Every device multiplies each symbol by v_kf = p_k r_kf conj(h)/|h|^2, and the symbols pass through the true h."""
    rng = np.random.default_rng(5)
    n, d, F = 5, 53, 8
    chosen = parsed(
        subcarriers=F, precoding=precoding, truncation=0.5 if precoding == "truncated" else None, packing=packing
    )
    h = (rng.normal(size=(n, F)) + 1j * rng.normal(size=(n, F))) / np.sqrt(2)
    true = h if error is None else h + error * (rng.normal(size=(n, F)) + 1j * rng.normal(size=(n, F)))
    payload = rng.normal(size=(n, d))
    amplitude = rng.uniform(0.5, 2, n)
    packed = packing == "complex"
    spectrum = per_subcarrier(jnp.asarray(payload**2), F, packed)
    uplink = precoded(chosen, uplink_of(h, None if error is None else true, packed=packed), spectrum)
    precoder = invert(jnp.asarray(amplitude), uplink.channel)
    y = uplink.transmit(precoder, jnp.asarray(payload))
    power = uplink.transmit_power_w(precoder, jnp.asarray((payload**2).sum(axis=1)))

    symbols = payload.astype(complex)
    if packed:
        padded = np.pad(payload, ((0, 0), (0, d % 2)))
        symbols = padded[:, ::2] + 1j * padded[:, 1::2]
    f = np.arange(symbols.shape[1]) % F
    factor = {
        "full": np.ones((n, F)),
        "truncated": (np.abs(h) ** 2 >= 0.5).astype(float),
        "phase": np.abs(h) / np.abs(h).mean(axis=1, keepdims=True),
    }[precoding]
    sent = (amplitude[:, None] * factor * np.conj(h) / np.abs(h) ** 2)[:, f] * symbols
    heard = (true[:, f] * sent).sum(axis=0)
    expected = np.stack([heard.real, heard.imag], axis=1).ravel()[:d] if packed else heard.real
    np.testing.assert_allclose(y, expected, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(power, (np.abs(sent) ** 2).sum(axis=1), rtol=1e-4)


def test_a_device_without_a_usable_subcarrier_is_not_ready():
    h = np.array([[0.1, 0.1], [1.0, 0.1], [0.0, 1.0]], complex)
    truncated = precoded(parsed(subcarriers=2, precoding="truncated", truncation=0.5), uplink_of(h), None)
    np.testing.assert_array_equal(truncated.ready, [False, True, True])
    full = precoded(parsed(subcarriers=2), uplink_of(h), None)
    np.testing.assert_array_equal(full.ready, [True, True, False])  # no power inverts a channel of zero
    assert np.isfinite(np.asarray(full.channel)).all()


@pytest.mark.parametrize("combiner", ["sum", "max-min", "mmse"])
def test_antennas_are_combined_on_each_subcarrier(combiner):
    def effective(antennas):
        made = make_uplink(
            parsed(antennas=antennas, combiner=combiner), jax.random.key(1), max_power_w=15.0, round=0, time_s=0.0,
            device=np.arange(6), ready=np.ones(6, bool),
        )  # fmt: skip
        return np.abs(np.asarray(made.channel)) ** 2

    assert effective(32).min() > 2 * effective(1).min()


# Runs.


def run(algorithms, **air):
    return paota.run({**SMALL, "air": air, "algorithms": algorithms}, callbacks=[])


@pytest.mark.parametrize("precoding", ["full", "truncated", "phase"])
def test_rules_use_their_budget_and_keep_it(precoding):
    """The strongest transmission of `full-power` is exactly P_max: the rule sees the whole effective budget."""
    lines = [{"name": "paota"}, {"name": "full-power"}]
    result = run(lines, subcarriers=16, delay_profile="tdl-c", precoding=precoding)
    for trajectory in result.trajectories:
        sent = trajectory.devices["transmit_power_w"]
        assert np.nanmax(sent) <= 15 * (1 + 1e-4), trajectory.label
        if trajectory.label == "full-power":
            np.testing.assert_allclose(sent[sent > 0], 15, rtol=1e-4)


def test_left_out_parameters_are_recorded():
    result = run([{"name": "paota"}], subcarriers=16, precoding="truncated", truncation=0.3)
    (trajectory,) = result.trajectories
    assert trajectory.devices["left_out"].max() > 0
    np.testing.assert_allclose(trajectory.metrics["left_out"][1:].sum(), trajectory.devices["left_out"].sum())
    share = trajectory.devices["left_out"].mean() / trajectory.model.size
    assert 0.15 < share < 0.37  # 1 - exp(-0.3) = 0.26 of the subcarriers
    per_round = [trajectory.devices["weight"][trajectory.devices["round"] == r].sum() for r in (1, 2, 3)]
    np.testing.assert_allclose(per_round, 1, rtol=1e-5)


@pytest.mark.parametrize("payload", ["model", "update"])
def test_the_mean_of_each_subcarrier_by_hand(payload):
    """Device 0 sends on subcarriers 0 and 1, device 1 on 1 alone, and subcarrier 2 stays as it is.

    Both have gain 1 there and the same energies, so for fresh updates p_1 = p_2 where only staleness counts.
    """
    h = jnp.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]], complex)
    update = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    model = np.array([10.0, 20.0, 30.0, 40.0])
    uplink = precoded(parsed(subcarriers=3, precoding="truncated"), uplink_of(h), None)
    made = paota.aggregate_by_hand(
        Paota(payload=payload), update, model=model, uplink=uplink, power=Power(method="staleness", cap="paper")
    )
    np.testing.assert_allclose(made.model, [11, 24, 30, 44], rtol=1e-5)
    np.testing.assert_array_equal(made.left_out, [1, 3])
    np.testing.assert_allclose(made.weight, [0.75, 0.25], rtol=1e-5)


def test_digital_algorithms_are_the_same_to_the_bit():
    flat, selective_ = (run([{"name": "local-sgd"}], **air).trajectories[0] for air in ({}, {"subcarriers": 16}))
    np.testing.assert_array_equal(flat.model, selective_.model)


@pytest.mark.parametrize("precoding", ["full", "truncated"])
def test_blocks_give_the_same_run(precoding, monkeypatch):
    table = {**SMALL, "rounds": 2, "data": {**SMALL["data"], "devices": 40}, "algorithms": [{"name": "paota"}]}
    table["air"] = {"subcarriers": 16, "precoding": precoding}
    whole = paota.run(table, callbacks=[]).trajectories[0]
    for limit in ("SMALL_BYTES", "HELD_BYTES", "BLOCK_BYTES"):
        monkeypatch.setattr(structures, limit, 0)
    monkeypatch.setattr(blocks, "HELD_BYTES", 0)
    parts = paota.run(table, callbacks=[]).trajectories[0]
    np.testing.assert_allclose(whole.model, parts.model, rtol=1e-4, atol=1e-6)


def test_airtime_counts_whole_symbols_and_the_prefix():
    air = settings.parse(Air, {"subcarriers": 64, "cyclic_prefix": 16}, "air")
    np.testing.assert_allclose(block_s(8070, air), 127 * 80 / 20e6)
    np.testing.assert_allclose(symbol_rate_hz(air), 16e6)
    assert prefix_samples(parsed(delay_profile="tdl-c")) == 52  # 8.6523 * 300 ns * 20 MHz = 51.9
    assert block_s(8070, settings.parse(Air, {}, "air")) == 8070 / 20e6


@pytest.mark.parametrize(
    ("air", "line", "word"),
    [
        ({"delay_profile": "tdl-a"}, {"name": "paota"}, "air.delay_profile"),
        ({"precoding": "phase"}, {"name": "paota"}, "air.precoding"),
        ({"cyclic_prefix": 3}, {"name": "paota"}, "air.cyclic_prefix"),
        ({"subcarriers": 4, "truncation": 0.2}, {"name": "paota"}, "air.truncation"),
        ({"subcarriers": 4, "fading": "rician"}, {"name": "paota"}, "air.fading"),
        ({"subcarriers": 4, "fading": "none"}, {"name": "paota"}, "air.fading"),
        ({"subcarriers": 4, "fading": "jakes", "k_factor_db": 3}, {"name": "paota"}, "air.fading"),
        ({"subcarriers": 4, "timing_error_symbols": 0.1}, {"name": "paota"}, "air.timing_error_symbols"),
        ({"subcarriers": 4, "downlink": "analog"}, {"name": "paota"}, "air.downlink"),
        ({"subcarriers": 4, "digital": "ofdma"}, {"name": "local-sgd"}, "air.digital"),
        ({"subcarriers": 4}, {"name": "fsk-vote"}, "fsk-vote"),
        ({"subcarriers": 4}, {"name": "biased-ota"}, "biased-ota"),
        ({"subcarriers": 4}, {"name": "paota", "faults": {"csi_outage": 0.1}}, "faults.csi_outage"),
    ],
)
def test_what_has_no_effect_is_refused(air, line, word):
    with pytest.raises(paota.UserError, match=word):
        simulate.prepare(paota.Experiment.from_dict({**SMALL, "air": air, "algorithms": [line]}))
