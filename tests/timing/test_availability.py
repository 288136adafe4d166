"""Devices that come and go: every scheme starts absent devices when they return, and waits for no other device."""

import math

import numpy as np
import pytest
from helpers.timelines import asynchronous, buffered, grouped, periodic, share_ready, synchronous, tiered, timeline_of
from hypothesis import given, settings
from hypothesis import strategies as st

from paota.base.errors import UserError
from paota.timing.availability import Availability
from paota.timing.first_to_finish import FirstToFinish
from paota.timing.fleet import Attendance, Fleet
from paota.timing.latency import Latencies, PerDevice, Uniform, WithAvailability
from paota.timing.timeline import Horizon


def fleet(*intervals):
    """One device for each list of (from, to)."""
    offsets, time_s, available = [0], [], []
    for mine in intervals:
        changes = {0.0: False} if not mine or mine[0][0] > 0 else {}
        for start, end in mine:
            changes[start] = True
            if math.isfinite(end):
                changes[end] = False
        time_s += list(changes)
        available += list(changes.values())
        offsets.append(len(time_s))
    names = tuple(f"d{k}" for k in range(len(intervals)))
    return Fleet(names, np.array(offsets), np.array(time_s, float), np.array(available, bool), {})


def attended(seconds, *intervals, lose=False, over_the_air=True, repeat_s=None):
    latencies = Latencies(PerDevice(seconds=tuple(seconds)), devices=len(seconds), seed=0)
    return WithAvailability(latencies, Attendance.of(fleet(*intervals), repeat_s), lose=lose, over_the_air=over_the_air)


def by_event(timeline):
    return [timeline.device[a:b].tolist() for a, b in zip(timeline.offsets, timeline.offsets[1:], strict=False)]


ALWAYS = [(0.0, math.inf)]


def test_whoever_is_away_begins_when_it_is_back_with_the_newest_model():
    """dT = 4 s, trainings of 3 s. Device 1 comes at 9 s, after two events: it starts from version 2, and is done at 12."""
    timeline = periodic(attended([3, 3], ALWAYS, [(9, math.inf)]), period_s=4.0, horizon=Horizon(rounds=4))
    assert by_event(timeline) == [[0], [0], [0, 1], [0, 1]]
    assert timeline.version.tolist() == [0, 1, 2, 2, 3, 3]
    np.testing.assert_allclose(timeline.start_s, [0, 4, 8, 9, 12, 12])


@pytest.mark.parametrize(("lose", "finish_s", "version"), [(False, 21.0, 0), (True, 23.0, 4)])
def test_who_leaves_in_the_middle_suspends_or_loses_its_training(lose, finish_s, version):
    """3 s of work: 2 of them done when the device leaves at 2 s; back at 20 s, with version 4 of dT = 5 s."""
    latencies = attended([3], [(0, 2), (20, 40)], lose=lose)
    timeline = periodic(latencies, period_s=5.0, horizon=Horizon(rounds=6))
    assert timeline.ready.tolist() == [0, 0, 0, 0, 1, 1]
    np.testing.assert_allclose(timeline.finish_s[0], finish_s)
    assert timeline.version[0] == version
    assert timeline.start_s[0] == 0
    # Either way the device was at work whenever it was there.
    np.testing.assert_allclose(
        latencies.attendance.busy_s(np.array([0]), np.zeros(1), timeline.finish_s[:1]), 5 if lose else 3
    )


def test_over_the_air_a_device_must_be_there_to_send():
    """Done at 3 s and gone at 3.5 s: it cannot send at 4 s, but it can at 12 s. What was uploaded counts at 4 s."""
    intervals = ([(0, 3.5), (10, math.inf)],)
    analog = periodic(attended([3], *intervals), period_s=4.0, horizon=Horizon(rounds=4))
    assert analog.ready.tolist() == [0, 0, 1, 1]
    assert analog.version.tolist() == [0, 3]
    digital = periodic(attended([3], *intervals, over_the_air=False), period_s=4.0, horizon=Horizon(rounds=4))
    assert digital.ready.tolist() == [1, 0, 0, 1]
    np.testing.assert_allclose(digital.start_s, [0, 10])
    assert digital.version.tolist() == [0, 2]  # the newest when it came back


def test_a_synchronous_round_draws_from_those_who_are_there_and_waits_for_somebody():
    latencies = attended([3, 3, 3], [(0, 10)], [(0, 10)], [(50, math.inf)])
    timeline = synchronous(latencies, participants=2, horizon=Horizon(rounds=6))
    assert by_event(timeline) == [[0, 1], [0, 1], [0, 1], [2], [2], [2]]
    # The fourth round would have begun at 9 s; both leave at 10 s and never come back, so no device finishes it.
    np.testing.assert_allclose(timeline.time_s[:3], [3, 6, 9])


def test_a_deadline_ends_a_round_whose_devices_have_left():
    latencies = attended([3, 9], ALWAYS, [(0, 4), (100, math.inf)])
    timeline = synchronous(latencies, participants=2, deadline_s=5.0, horizon=Horizon(rounds=3))
    assert by_event(timeline) == [[0], [0], [0]]
    np.testing.assert_allclose(timeline.time_s, [5, 8, 11])  # from the second round on device 0 alone is there
    assert by_event(timeline.aborted) == [[1], [], []]


def test_asynchronous_with_a_device_that_comes_late():
    """2 s each; device 1 is there from 5 s on: arrivals at 2, 4, 6 (device 0), 7 (device 1, from version 2), ..."""
    timeline = asynchronous(attended([2, 2], ALWAYS, [(5, math.inf)]), updates=5, horizon=Horizon())
    np.testing.assert_allclose(timeline.time_s, [2, 4, 6, 7, 8])
    assert timeline.device.tolist() == [0, 0, 0, 1, 0]
    assert timeline.version.tolist() == [0, 1, 2, 2, 3]


def test_buffers_end_when_nobody_comes_back():
    timeline = buffered(attended([2, 2], [(0, 5)], [(0, 5)]), buffer_size=2, updates=100, horizon=Horizon())
    np.testing.assert_allclose(timeline.time_s, [2, 4])


def test_a_share_is_of_those_who_are_there():
    """Half of four. From 3 s on only two of them are there: one of the two is enough."""
    latencies = attended([2, 2, 2, 9], ALWAYS, [(0, 3)], [(0, 3)], ALWAYS)
    timeline = share_ready(latencies, share=0.5, updates=8, horizon=Horizon(rounds=3))
    assert by_event(timeline)[0] == [0, 1, 2]
    assert by_event(timeline)[1] == [0]
    np.testing.assert_allclose(timeline.time_s[:2], [2, 4])


def test_a_group_begins_with_those_who_are_there():
    """Groups {0, 1} of 1 and 2 s and {2, 3} of 5 and 6 s; device 1 comes at 3 s, device 3 never."""
    latencies = attended([1, 2, 5, 6], ALWAYS, [(3, math.inf)], ALWAYS, [])
    timeline = grouped(latencies, groups=2, updates=7, horizon=Horizon(rounds=3))
    assert by_event(timeline) == [[0], [0], [0], [0, 1], [2], [0, 1]]
    np.testing.assert_allclose(timeline.time_s, [1, 2, 3, 5, 5, 7])


def test_a_day_repeats():
    """The device is available for the first 4 s of every 10: one training of 3 s fits, and the night cuts the next one."""
    latencies = attended([3], [(0, 4)], repeat_s=10.0, over_the_air=False)
    timeline = asynchronous(latencies, updates=5, horizon=Horizon())
    np.testing.assert_allclose(timeline.time_s, [3, 12, 21, 24, 33])  # 1 + 2, 2 + 1 s, ...
    lost = asynchronous(attended([3], [(0, 4)], repeat_s=10.0, lose=True), updates=3, horizon=Horizon())
    np.testing.assert_allclose(lost.time_s, [3, 13, 23])


def test_a_file_is_not_cut_off_in_silence():
    with pytest.raises(UserError, match="fleet_repeat_s = 10 s would cut off"):
        fleet([(0, 20)]).availability(10.0)


SCHEMES = {
    "periodic": lambda latencies, horizon: periodic(latencies, period_s=8.0, horizon=horizon),
    "tiered": lambda latencies, horizon: tiered(latencies, period_s=8.0, horizon=horizon),
    "synchronous": lambda latencies, horizon: synchronous(latencies, participants=5, horizon=horizon),
    "over-selection": lambda latencies, horizon: synchronous(
        latencies, participants=5, selected=9, deadline_s=20.0, horizon=horizon
    ),
    "buffered": lambda latencies, horizon: buffered(latencies, buffer_size=3, updates=None, horizon=horizon),
    "share": lambda latencies, horizon: share_ready(latencies, share=0.3, updates=None, horizon=horizon),
    "grouped": lambda latencies, horizon: grouped(latencies, groups=3, updates=None, horizon=horizon),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_fleet_that_is_always_there_changes_no_bit(scheme):
    latencies = Latencies(Uniform(), devices=12, seed=3)
    horizon = Horizon(rounds=None, duration_s=200.0)
    plain = SCHEMES[scheme](latencies, horizon)
    for repeat_s in (None, 50.0):
        made = WithAvailability(latencies, Attendance.of(fleet(ALWAYS), repeat_s), lose=True, over_the_air=True)
        same = SCHEMES[scheme](made, horizon)
        for name in ("time_s", "offsets", "device", "version", "training", "start_s", "finish_s"):
            np.testing.assert_array_equal(getattr(same, name), getattr(plain, name))


@given(seed=st.integers(0, 10_000), lose=st.booleans(), repeat=st.booleans(), scheme=st.sampled_from(sorted(SCHEMES)))
@settings(max_examples=60, deadline=None)
def test_every_scheme_obeys_any_fleet(seed, lose, repeat, scheme):
    rng = np.random.default_rng(seed)
    intervals = [
        [
            (float(a), float(b))
            for a, b in np.sort(rng.choice(200, 2 * rng.integers(0, 5), replace=False)).reshape(-1, 2)
        ]
        for _ in range(12)
    ]
    latencies = Latencies(Uniform(), devices=12, seed=seed)
    attendance = Attendance.of(fleet(*intervals), 200.0 if repeat else None)
    made = WithAvailability(latencies, attendance, lose=lose, over_the_air=True)
    timeline = SCHEMES[scheme](made, Horizon(rounds=None, duration_s=500.0))
    there = attendance.availability.is_there
    if scheme != "buffered":  # a buffer is not sent at one moment
        assert there(timeline.device, timeline.time_s[timeline.event]).all()
    assert there(timeline.device, timeline.start_s).all()
    assert there(timeline.device, timeline.finish_s).all()
    assert (timeline.finish_s <= timeline.time_s[timeline.event] + 1e-6).all()
    assert (timeline.staleness >= 0).all()
    assert (np.diff(timeline.time_s) >= 0).all()
    busy_s = attendance.busy_s(timeline.device, timeline.start_s, timeline.finish_s)
    needed_s = latencies(timeline.device, timeline.training)
    if lose:
        assert (busy_s >= needed_s - 1e-5).all()
    else:
        np.testing.assert_allclose(busy_s, needed_s, atol=1e-5)
    # No device receives a version before it is made.
    made_s = np.concatenate([[0.0], timeline.time_s])
    assert (made_s[timeline.version] <= timeline.finish_s).all()


@given(seed=st.integers(0, 10_000), repeat=st.booleans())
@settings(max_examples=100, deadline=None)
def test_availability_against_second_by_second(seed, repeat):
    """Whole seconds, looked at one after the other."""
    rng = np.random.default_rng(seed)
    period = 50.0 if repeat else None
    changes = np.sort(rng.choice(50, rng.integers(1, 8), replace=False)).astype(float)
    states = rng.random(len(changes)) < 0.5
    made = Availability.of(np.array([0, len(changes)]), changes, states, period)
    clock = np.arange(1000.0)
    row = np.searchsorted(changes, clock % 50 if repeat else clock, side="right") - 1
    there = np.where(row >= 0, states[np.maximum(row, 0)], False)
    one = np.zeros(1, int)
    for now in rng.integers(0, 300, 4):
        later = np.flatnonzero(there[now:])
        back_s = made.back_s(one, np.array([float(now)]))[0]
        if not len(later):
            assert back_s == math.inf
            continue
        begin = now + later[0]
        assert back_s == pytest.approx(begin)
        work = int(rng.integers(1, 40))
        reached = np.flatnonzero(np.cumsum(there[begin:]) >= work)
        done_s, _ = made.finish_s(one, np.array([back_s]), np.array([float(work)]), lose=False)
        assert done_s[0] == pytest.approx(begin + reached[0] + 1) if len(reached) else done_s[0] > 900
        runs = [k for k in range(begin + work, 1000) if there[k - work : k].all()]
        done_s, begun_s = made.finish_s(one, np.array([back_s]), np.array([float(work)]), lose=True)
        if runs:
            assert done_s[0] == pytest.approx(runs[0])
            assert begun_s[0] == pytest.approx(runs[0] - work)
        else:
            assert done_s[0] > 900
        end = float(rng.integers(begin, 900))
        assert made.between_s(one, np.array([back_s]), np.array([end]))[0] == pytest.approx(
            there[begin : int(end)].sum()
        )


def test_who_never_comes_back_is_not_looked_at_by_a_scheme_that_weighs_restarts():
    """A device that is gone starts and ends no training, and the scheme warns of nothing."""
    latencies = attended([3, 4, 5], ALWAYS, ALWAYS, [(0, 6)])
    timeline = timeline_of(FirstToFinish(), latencies, Horizon(rounds=None, duration_s=40.0))
    assert 2 not in timeline.device[timeline.start_s > 6]
    assert np.isfinite(timeline.finish_s).all()
