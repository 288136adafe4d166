"""Timing facts of READING.md section 5, and what every scheme promises."""

import numpy as np
import pytest
from helpers.timelines import asynchronous, buffered, periodic, synchronous
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.timing.latency import Latencies, PerDevice, Uniform
from paota.timing.timeline import Horizon
from paota.timing.virtual import TimelineInputs


def uniform(devices=100, seed=0):
    return Latencies(Uniform(), devices=devices, seed=seed)


def test_papers_steady_state():
    timeline = periodic(uniform(devices=2000), period_s=8.0, horizon=Horizon(rounds=400))
    share = timeline.ready[50:] / 20
    assert share.mean() == pytest.approx(58.8, abs=0.3)  # 100 / 1.7
    late = timeline.event >= 50
    stale = np.bincount(timeline.staleness[late]) / late.sum()
    assert stale == pytest.approx([0.3, 0.7], abs=0.01)


def test_papers_transient():
    ready = np.mean(
        [periodic(uniform(seed=s), period_s=8.0, horizon=Horizon(rounds=4)).ready for s in range(300)], axis=0
    )
    assert ready == pytest.approx([30, 79, 44.7, 68.6], abs=1.2)  # 30, 49+30, ...: cycle lengths 1 (.3) and 2 (.7)


def test_ready_devices_of_a_hundred_vary_as_stated():
    ready = np.concatenate(
        [periodic(uniform(seed=s), period_s=8.0, horizon=Horizon(rounds=120)).ready[60:] for s in range(40)]
    )
    assert ready.std() == pytest.approx(4.9, abs=0.7)


def test_six_second_period_of_table_one():
    timeline = periodic(uniform(devices=3000), period_s=6.0, horizon=Horizon(rounds=300))
    late = timeline.event >= 50
    assert timeline.ready[50:].mean() / 30 == pytest.approx(45.5, abs=0.4)  # 100 / 2.2
    assert np.bincount(timeline.staleness[late]) / late.sum() == pytest.approx([0.1, 0.6, 0.3], abs=0.01)


def test_synchronous_round_waits_for_the_slowest():
    timeline = synchronous(uniform(), participants=59, horizon=Horizon(rounds=400))
    assert np.diff(timeline.time_s, prepend=0.0).mean() == pytest.approx(5 + 10 * 59 / 60, abs=0.03)
    assert (timeline.ready == 59).all()
    assert timeline.max_staleness == 0
    for e in (0, 57, 399):
        mine = timeline.event == e
        assert timeline.finish_s[mine].max() == timeline.time_s[e]
        assert len(np.unique(timeline.device[mine])) == 59


def test_periodic_by_hand():
    """Two devices with latencies 3 and 5 s, dT = 4 s: device 1 misses every other deadline."""
    latencies = Latencies(PerDevice(seconds=(3.0, 5.0)), devices=2, seed=0)
    timeline = periodic(latencies, period_s=4.0, horizon=Horizon(rounds=4))
    taking_part = [timeline.device[timeline.event == e].tolist() for e in range(4)]
    versions = [timeline.version[timeline.event == e].tolist() for e in range(4)]
    assert taking_part == [[0], [0, 1], [0], [0, 1]]
    assert versions == [[0], [1, 0], [2], [3, 2]]
    assert timeline.time_s.tolist() == [4.0, 8.0, 12.0, 16.0]
    assert timeline.training.tolist() == [0, 1, 0, 2, 3, 1]


def test_at_the_deadline_counts_as_ready():
    for seconds in (0.1, 0.7, 1 / 3):
        latencies = Latencies(PerDevice(seconds=(seconds,)), devices=1, seed=0)
        assert (periodic(latencies, period_s=seconds, horizon=Horizon(rounds=1000)).ready == 1).all()


def test_nobody_ready_is_an_event_too():
    latencies = Latencies(PerDevice(seconds=(10.0,)), devices=1, seed=0)
    timeline = periodic(latencies, period_s=4.0, horizon=Horizon(rounds=6))
    assert timeline.ready.tolist() == [0, 0, 1, 0, 0, 1]
    assert timeline.staleness.tolist() == [2, 2]


def test_asynchronous_by_hand():
    """Latencies 2 and 3 s: arrivals at 2 (dev 0), 3 (dev 1), 4 (dev 0), 6 (dev 0), 6 (dev 1)."""
    latencies = Latencies(PerDevice(seconds=(2.0, 3.0)), devices=2, seed=0)
    timeline = asynchronous(latencies, updates=5, horizon=Horizon())
    assert timeline.time_s.tolist() == [2, 3, 4, 6, 6]
    assert timeline.device.tolist() == [0, 1, 0, 0, 1]
    assert timeline.version.tolist() == [0, 0, 1, 3, 2]
    assert timeline.staleness.tolist() == [0, 1, 1, 0, 2]


def test_buffered_by_hand():
    """The same arrivals in pairs: (2, 3), (4, 6); the first of a pair continues from the version before the flush."""
    latencies = Latencies(PerDevice(seconds=(2.0, 3.0)), devices=2, seed=0)
    timeline = buffered(latencies, buffer_size=2, updates=4, horizon=Horizon())
    assert timeline.time_s.tolist() == [3, 6]
    assert timeline.device.tolist() == [0, 1, 0, 0]
    assert timeline.version.tolist() == [0, 0, 0, 1]


@given(
    devices=st.integers(1, 12),
    seed=st.integers(0, 5),
    period_s=st.floats(0.5, 30),
    scheme=st.sampled_from(["periodic", "synchronous", "asynchronous", "buffered"]),
)
@settings(max_examples=60, deadline=None)
def test_every_scheme_keeps_time(devices, seed, period_s, scheme):
    latencies = uniform(devices=devices, seed=seed)
    horizon = Horizon(rounds=None, duration_s=100.0)
    timeline = {
        "periodic": lambda: periodic(latencies, period_s=period_s, horizon=horizon),
        "synchronous": lambda: synchronous(latencies, participants=max(1, devices // 2), horizon=horizon),
        "asynchronous": lambda: asynchronous(latencies, updates=None, horizon=horizon),
        "buffered": lambda: buffered(latencies, buffer_size=3, updates=None, horizon=horizon),
    }[scheme]()
    assert (np.diff(timeline.time_s) >= 0).all()
    assert timeline.time_s.max(initial=0.0) <= 100.0 * (1 + 1e-9)
    assert (timeline.staleness >= 0).all()
    assert (timeline.version >= 0).all()
    assert (timeline.finish_s <= timeline.time_s[timeline.event] * (1 + 1e-9)).all()
    assert np.allclose(timeline.finish_s - timeline.start_s, latencies(timeline.device, timeline.training))
    pairs = set(zip(timeline.device.tolist(), timeline.training.tolist(), strict=True))
    assert len(pairs) == len(timeline.device)  # no training is used twice
    # a device starts from the newest version at its start
    versions_then = np.searchsorted(timeline.time_s, timeline.start_s + 1e-9, side="right")
    if scheme in ("periodic", "synchronous"):
        assert (timeline.version == versions_then).all()


def test_mean_ready_is_the_fair_number_of_participants():
    assert TimelineInputs(uniform(), 8.0, Horizon(rounds=100)).participants(None) in (58, 59, 60)
