"""Traces of FedScale and FLASH become fleets; a pickle is read, and never executed."""

import json
import os
import pickle
import random
from collections import OrderedDict

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.timing.foreign import from_fedscale, from_flash, plain_pickle
from paota.timing.synthetic_fleets import make_fleet

BEHAVIOUR = {
    1: {"duration": 50, "active": [0, 60], "inactive": [30, 80], "finish_time": 100, "model": "A"},
    2: {"duration": 10, "active": [5], "inactive": [15], "finish_time": 50, "model": "B"},
    3: {"duration": 0, "active": [], "inactive": [], "finish_time": 100, "model": "C"},
}
CAPACITY = {1: {"computation": 100.0, "communication": 5000.0}, 2: {"computation": 20.0, "communication": 800.0}}

MESSAGES = [
    "2020-01-05 22:00:00\tbattery_charged_on", "2020-01-05 22:30:00\twifi", "2020-01-05 23:00:00\tscreen_lock",
    "2020-01-06 02:00:00\t87.0%", "2020-01-06 06:30:00\tscreen_unlock", "2020-01-06 06:31:00\t4G",
    "2020-01-06 08:00:00\tmoonrise",
]  # fmt: skip
STATES = {"u1": {"guid": "x", "model": "m", "messages": "\n".join(MESSAGES)}, "u2": {"messages": MESSAGES[0]}}
SPEEDS = {"g": {"down_u": 1000, "down_sigma": 1, "up_u": 500, "up_sigma": 1}}
MANY = pytest.param(10_000, marks=pytest.mark.slow)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5, "json"])
def test_fedscale(tmp_path, protocol):
    """Client 2 repeats after 50 s, so twice in 100; client 3 is never there; 3 x 160 samples x 100 ms is 48 s."""
    for name, table in (("behave", BEHAVIOUR), ("capacity", CAPACITY)):
        text = json.dumps(table).encode() if protocol == "json" else pickle.dumps(table, protocol=protocol)
        (tmp_path / name).write_bytes(text)
    fleet, repeat_s, remarks = from_fedscale(tmp_path / "behave", tmp_path / "capacity")
    assert repeat_s == 100
    assert remarks == ["1 clients that are never there were left out"]
    assert fleet.names == ("1", "2")
    there = fleet.availability(100.0)
    moments = np.array([0.0, 31, 61, 81])
    assert there.is_there(np.zeros(4, int), moments).tolist() == [True, False, True, False]
    assert there.is_there(np.ones(4, int), np.array([4.0, 6, 56, 66])).tolist() == [False, True, True, False]
    np.testing.assert_allclose(fleet.rates["latency_s"][fleet.offsets[:-1]], [48, 9.6])
    np.testing.assert_allclose(fleet.rates["down_mbit_per_s"][fleet.offsets[:-1]], [5, 0.8])


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


@pytest.mark.parametrize("value", [Evil(), {1: Evil()}, OrderedDict(a=1), {1, 2}, np.float64(1.0), b"bytes"])
def test_a_pickle_is_never_executed(tmp_path, value, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="makes no plain value"):
        plain_pickle(pickle.dumps(value))
    (tmp_path / "trace").write_bytes(pickle.dumps({1: value}))
    with pytest.raises(UserError, match="neither JSON nor a pickle of plain values"):
        from_fedscale(tmp_path / "trace")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("value", [{}, {"a": [1, 2.5, None, True, (1,), (1, 2, 3, 4)], 2: {"b": "ü"}}, [[]], 2**70])
@pytest.mark.parametrize("protocol", range(6))
def test_plain_pickles_are_read(value, protocol):
    twice = [value, value]  # the second one from memory
    assert plain_pickle(pickle.dumps(twice, protocol=protocol)) == twice


@pytest.mark.parametrize("turns", [150, MANY])
def test_any_bytes_are_refused(tmp_path, turns):
    whole = pickle.dumps(BEHAVIOUR)
    rng = np.random.default_rng(0)
    file = tmp_path / "trace"
    for _ in range(turns):
        damaged = bytearray(whole[: rng.integers(1, len(whole) + 1)])
        damaged[int(rng.integers(len(damaged)))] ^= int(rng.integers(256))
        file.write_bytes(bytes(damaged))
        read_or_refuse(lambda: from_fedscale(file))


@pytest.mark.parametrize("turns", [150, MANY])
def test_any_tables_are_read_or_refused(tmp_path, turns):
    """Of FedScale, of its second file, and of FLASH: something else somewhere, or nothing."""
    rng = random.Random(0)
    sound = {"behave": BEHAVIOUR, "capacity": CAPACITY, "states": STATES, "speeds": SPEEDS}
    paths = {name: tmp_path / name for name in sound}
    for _ in range(turns):
        name = rng.choice(list(sound))
        for other, table in sound.items():
            paths[other].write_text(json.dumps(bent(table, rng) if other == name else table))
        read_or_refuse(lambda: from_fedscale(paths["behave"], paths["capacity"]))
        read_or_refuse(lambda: from_flash(paths["states"], paths["speeds"]))


def bent(value, rng):
    """A table with something else in one place, or without it."""
    if isinstance(value, dict | list) and value and rng.random() < 0.85:
        key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        made = value.copy()
        made[key] = bent(value[key], rng)
        if rng.random() < 0.1:
            del made[key]
        return made
    return rng.choice(
        [None, -1, 0, 2**40, 2**70, 1e308, float("nan"), float("inf"), "x", "", [], {}, True, [[1]], "9" * 5000]
    )


def read_or_refuse(make):
    try:
        fleet, repeat_s, _ = make()
    except UserError as error:
        assert len(str(error)) < 1000
    else:
        assert np.isfinite(fleet.time_s).all()
        assert all((np.isfinite(rate) & (rate > 0)).all() for rate in fleet.rates.values())
        assert repeat_s > 0


def test_flash(tmp_path):
    """Ready while locked, charging and on Wi-Fi: from 23:00 to 06:30, and not during the day."""
    (tmp_path / "states.json").write_text(json.dumps(STATES))
    (tmp_path / "speeds.json").write_text(json.dumps(SPEEDS))
    fleet, repeat_s, remarks = from_flash(tmp_path / "states.json", tmp_path / "speeds.json")
    assert repeat_s == 2 * 86_400
    assert fleet.names == ("u1",)
    assert fleet.time_s.tolist() == [0, 23 * 3600, 30.5 * 3600]
    assert fleet.available.tolist() == [False, True, False]
    np.testing.assert_allclose(fleet.rates["down_mbit_per_s"], 8.192)
    assert len(remarks) == 2


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([], "no dictionary"), ({}, "no dictionary"), ({"u": 3}, "has no messages"),
        ({"u": {"messages": "noon\twifi"}}, "without a time"),
        ({"u": {"messages": "2020-01-05 22:00:00\twifi"}}, "no user that is ever"),
    ],
)  # fmt: skip
def test_a_bad_flash_trace_is_refused(tmp_path, table, says):
    (tmp_path / "states.json").write_text(json.dumps(table))
    with pytest.raises(UserError, match=says):
        from_flash(tmp_path / "states.json")


def test_a_made_fleet_has_a_day_and_a_night():
    fleet = make_fleet(2000, 2.0, seed=1)
    there = fleet.availability(2 * 86_400.0)
    everyone = np.arange(2000)
    night, noon = (there.is_there(everyone, np.full(2000, hour * 3600.0)).mean() for hour in (27, 36))
    assert night > 0.8
    assert noon < 0.35
    same, other = make_fleet(2000, 2.0, seed=1), make_fleet(2000, 2.0, seed=2)
    np.testing.assert_array_equal(same.time_s, fleet.time_s)
    assert len(other.time_s) != len(fleet.time_s)
    with pytest.raises(UserError, match="at least 1 device"):
        make_fleet(0)
