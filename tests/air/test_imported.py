"""Channels from files: layouts, the time axis, errors, and a run with the shipped street canyon."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

import paota
from paota import simulate
from paota.air.channel import make_uplink
from paota.air.imported import FileChannel, with_recorded_channels
from paota.air.settings import Air
from paota.base import settings

EXAMPLES = Path(__file__).parents[2] / "examples" / "channels"
CANYON = EXAMPLES / "canyon.npz"
SMALL = {
    "rounds": 2,
    "data": {"dataset": "synthetic", "devices": 6, "sizes": [30, 60]},
    "model": {"name": "mlp", "hidden": [8]},
    "training": {"local_steps": 2, "batch_size": 8},
}


def write(folder, **arrays):
    np.savez(folder / "channels.npz", **arrays)
    return str(folder / "channels.npz")


def load(path, **given):
    given = {"devices": 2, "antennas": 1, "subcarriers": 4, "bandwidth_hz": 20e6, **given}
    return FileChannel(channel_file=str(path)).load(**given)


def channels(recorded, device, time_s=0.0):
    return np.asarray(np.sqrt(recorded.gain)[device][:, None, None] * recorded.at(np.asarray(device), time_s))


def complex_(rng, *shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def test_direct_channels_are_those_of_the_file(tmp_path):
    h = 1e-4 * complex_(np.random.default_rng(0), 3, 2, 4, 5)
    recorded = load(write(tmp_path, h=h), antennas=2)
    np.testing.assert_allclose(channels(recorded, [1, 0]), h[[1, 0], :, :, 0], rtol=1e-5)
    np.testing.assert_allclose(recorded.gain, np.mean(np.abs(h[:2]) ** 2, axis=(1, 2, 3)), rtol=1e-5)


def test_a_device_moves_along_the_time_axis_and_starts_again(tmp_path):
    h = complex_(np.random.default_rng(1), 2, 1, 4, 3)
    recorded = FileChannel(channel_file=write(tmp_path, h=h), channel_step_s=8.0).load(
        devices=2, antennas=1, subcarriers=4, bandwidth_hz=20e6
    )
    for time_s, step in ((0.0, 0), (7.9, 0), (8.0, 1), (16.1, 2), (24.0, 0), (8.0 * 3 * 50 + 9, 1)):
        np.testing.assert_allclose(channels(recorded, [0, 1], time_s), h[..., step], rtol=1e-4)


@pytest.mark.parametrize("server_receives", [True, False])
def test_paths_by_hand(tmp_path, server_receives):
    """A path of 1 and one of j/2 that is 1/B = 50 ns late: h(f) = 1 + j/2 e^(-j 2 pi f / F)."""
    a = np.array([1, 0.5j])[None, None, None, None, :, None].repeat(2, axis=2)
    tau = np.array([0, 50e-9])[None, None].repeat(2, axis=1)
    if not server_receives:
        a, tau = a.transpose(2, 3, 0, 1, 4, 5), tau.transpose(1, 0, 2)
    recorded = load(write(tmp_path, a=a, tau=tau))
    expected = 1 + 0.5j * np.array([1, -1j, -1, 1j])
    np.testing.assert_allclose(channels(recorded, [0, 1])[:, 0], [expected, expected], rtol=1e-4)


def test_a_normalised_device_has_gain_one(tmp_path):
    h = 1e-3 * complex_(np.random.default_rng(2), 2, 1, 4, 5)
    h[1] = 0
    recorded = FileChannel(channel_file=write(tmp_path, h=h), normalise=True).load(
        devices=2, antennas=1, subcarriers=4, bandwidth_hz=20e6
    )
    np.testing.assert_array_equal(recorded.gain, [1, 0])


@pytest.mark.parametrize(
    ("arrays", "given", "words"),
    [
        ({}, {}, "must hold"),
        ({"h": np.ones((2, 1, 4))}, {}, "must hold"),
        ({"a": np.ones((1, 1, 2, 1, 3, 1))}, {}, "must hold"),
        ({"a": np.ones((1, 1, 2, 1, 3, 1)), "tau": np.ones((1, 2, 4))}, {}, "do not fit together"),
        ({"a": np.ones((2, 1, 2, 1, 3, 1)), "tau": np.ones((2, 2, 3))}, {}, "one server"),
        ({"h": np.full((2, 1, 4, 1), np.nan)}, {}, "not finite"),
        ({"h": np.ones((2, 1, 4, 1))}, {"devices": 3}, "2 devices and data.devices is 3"),
        ({"h": np.ones((2, 1, 8, 1))}, {}, "set air.subcarriers = 8"),
        ({"h": np.ones((2, 3, 4, 1))}, {}, "set air.antennas = 3"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, arrays, given, words):
    with pytest.raises(paota.UserError, match=words):
        load(write(tmp_path, **arrays), **given)


@pytest.mark.parametrize(
    ("air", "word"),
    [
        ({"channel_file": "nowhere.npz"}, "no such file"),
        ({"delay_profile": "tdl-a"}, "air.delay_profile"),
        ({"path_loss": "umi"}, "air.path_loss"),
        ({"downlink": "analog"}, "air.downlink"),
    ],
)
def test_what_has_no_effect_is_refused(air, word):
    table = {**SMALL, "air": {"fading": "file", "channel_file": str(CANYON), "subcarriers": 16, **air}}
    with pytest.raises(paota.UserError, match=word):
        simulate.prepare(paota.Experiment.from_dict({**table, "algorithms": [{"name": "paota"}]}))


def test_a_blocked_device_is_silent_on_one_subcarrier(tmp_path):
    h = np.ones((3, 1, 1, 1), complex)
    h[1] = 0
    chosen = settings.parse(Air, {"fading": "file", "channel_file": write(tmp_path, h=h)}, "air")
    uplink = make_uplink(
        with_recorded_channels(chosen), jax.random.key(0), max_power_w=15.0, round=0, time_s=0.0,
        device=np.arange(3), ready=np.ones(3, bool),
    )  # fmt: skip
    np.testing.assert_array_equal(uplink.ready, [True, False, True])
    np.testing.assert_allclose(np.abs(uplink.channel)[[0, 2]], 1, rtol=1e-6)


def test_the_shipped_file_runs():
    assert CANYON.stat().st_size < 500_000
    air = {"fading": "file", "channel_file": str(CANYON), "channel_step_s": 8.0, "subcarriers": 16}
    lines = [{"name": "paota"}, {"name": "baa"}, {"name": "local-sgd"}]
    result = paota.run({**SMALL, "air": {**air, "precoding": "truncated"}, "algorithms": lines}, callbacks=[])
    for trajectory in result.trajectories:
        assert np.isfinite(trajectory.model).all()
        sent = trajectory.devices["transmit_power_w"]
        assert np.isnan(sent).all() or 0 < np.nanmax(sent) <= 15 * (1 + 1e-4)


def test_relative_paths_are_those_of_the_experiment_file():
    table = {**SMALL, "air": {"fading": "file", "channel_file": "canyon.npz"}, "algorithms": [{"name": "paota"}]}
    experiment = paota.Experiment.from_dict(table, base=EXAMPLES)
    assert experiment.to_dict()["air"]["channel_file"] == str(CANYON.resolve())


def test_deepmimo_arrays_become_paths(tmp_path):
    """-20 dBW is an amplitude of 0.1; a path that does not exist is NaN; users without paths are left out."""
    spec = importlib.util.spec_from_file_location("deepmimo_file", EXAMPLES / "deepmimo_file.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    power = np.array([[-20.0, np.nan], [np.nan, np.nan], [-40.0, -20.0]])
    phase = np.array([[90.0, np.nan], [np.nan, np.nan], [0.0, 180.0]])
    delay = np.array([[0.0, np.nan], [np.nan, np.nan], [0.0, 50e-9]])
    arrays = script.convert(power, phase, delay, devices=2, paths=2, seed=0)
    h = channels(load(write(tmp_path, **arrays)), [0, 1])[:, 0]
    turns = np.exp(-2j * np.pi * np.arange(4) / 4)
    found = sorted(h, key=lambda row: np.ptp(np.abs(row)))
    np.testing.assert_allclose(found, [0.1j * np.ones(4), 0.01 - 0.1 * turns], atol=1e-6)
