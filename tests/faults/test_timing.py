"""Faults of the timeline, by hand and as properties."""

import numpy as np
import pytest
from helpers.timelines import asynchronous, periodic, synchronous

from paota.faults import Faults, Guards
from paota.faults.timing import FaultyLatencies, apply_faults
from paota.timing.latency import Latencies, PerDevice, Uniform
from paota.timing.timeline import Horizon

NO_GUARDS = Guards()


def faulty(devices=50, seed=0, model=None, **faults):
    return FaultyLatencies(Latencies(model or Uniform(), devices=devices, seed=seed), Faults(**faults))


def test_without_faults_nothing_changes():
    healthy = Latencies(Uniform(), devices=20, seed=1)
    one = periodic(healthy, period_s=8.0, horizon=Horizon(rounds=20))
    latencies = FaultyLatencies(healthy, Faults())
    other = apply_faults(periodic(latencies, period_s=8.0, horizon=Horizon(rounds=20)), latencies, NO_GUARDS)
    for name in ("time_s", "offsets", "device", "version", "training", "start_s", "finish_s"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_stragglers_are_the_stated_share_and_factor():
    latencies = faulty(devices=40, stragglers=0.25, slow_factor=3.0)
    everyone, first = np.arange(40), np.zeros(40, int)
    ratio = latencies(everyone, first) / latencies.healthy(everyone, first)
    assert sorted(ratio.round(9).tolist()) == [1.0] * 30 + [3.0] * 10
    again = latencies(everyone, first + 5) / latencies.healthy(everyone, first + 5)
    assert np.allclose(ratio, again)  # in the whole run


def test_dropouts_are_lost_and_come_back():
    latencies = faulty(devices=200, dropout=0.2, away_s=30.0)
    whole = periodic(latencies, period_s=8.0, horizon=Horizon(rounds=60))
    timeline = apply_faults(whole, latencies, NO_GUARDS)
    assert timeline.lost.sum() == len(whole.device) - len(timeline.device) > 0
    share = timeline.lost.sum() / len(whole.device)
    assert share == pytest.approx(0.2, abs=0.02)
    seen_late = np.unique(timeline.device[timeline.event >= 40])
    assert len(seen_late) > 190  # all return


def test_stuck_devices_never_come_back_and_cost_a_synchronous_server_its_patience():
    latencies = faulty(devices=10, stuck=0.3, stuck_after=1, give_up_s=50.0)
    timeline = apply_faults(periodic(latencies, period_s=8.0, horizon=Horizon(rounds=100)), latencies, NO_GUARDS)
    stuck = np.flatnonzero(latencies.stuck)
    assert len(stuck) == 3
    for device in stuck:
        assert (timeline.training[timeline.device == device] == 0).all()
    rounds = apply_faults(synchronous(latencies, participants=10, horizon=Horizon(rounds=5)), latencies, NO_GUARDS)
    assert rounds.ready.tolist() == [10, 7, 7, 7, 7]
    assert np.diff(rounds.time_s) == pytest.approx([50.0] * 4)


def test_lost_broadcasts_leave_the_old_version():
    """One device, latency below the period: without faults it starts round r from version r."""
    latencies = faulty(devices=1, model=PerDevice(seconds=(3.0,)), lost_broadcasts=0.5)
    timeline = apply_faults(periodic(latencies, period_s=4.0, horizon=Horizon(rounds=200)), latencies, NO_GUARDS)
    missed = latencies.misses_broadcast(timeline.device, timeline.training)
    assert 60 < missed.sum() < 140
    expected, version = [], 0
    for r in range(200):
        version = version if missed[r] else r
        expected.append(version)
    assert timeline.version.tolist() == expected


def test_lost_broadcasts_of_many_devices_do_not_mix():
    latencies = faulty(devices=7, lost_broadcasts=0.4, seed=3)
    whole = asynchronous(latencies, updates=300, horizon=Horizon())
    timeline = apply_faults(whole, latencies, NO_GUARDS)
    for device in range(7):
        mine = whole.device == device
        missed = latencies.misses_broadcast(whole.device[mine], whole.training[mine])
        expected, held = [], 0
        for miss, version in zip(missed, whole.version[mine], strict=True):
            held = held if miss else version
            expected.append(held)
        assert timeline.version[mine].tolist() == expected


def test_maximum_staleness_holds_back():
    healthy = Latencies(Uniform(), devices=60, seed=0)
    whole = periodic(healthy, period_s=6.0, horizon=Horizon(rounds=40))
    timeline = apply_faults(whole, healthy, Guards(max_staleness=1))
    assert whole.max_staleness == 2
    assert timeline.max_staleness == 1
    assert timeline.lost.sum() == (whole.staleness == 2).sum()


def test_an_event_may_lose_all_its_devices():
    latencies = faulty(devices=5, dropout=1.0)
    timeline = apply_faults(periodic(latencies, period_s=8.0, horizon=Horizon(rounds=10)), latencies, NO_GUARDS)
    assert timeline.ready.tolist() == [0] * 10
    assert timeline.lost.sum() > 0
