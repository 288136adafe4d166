"""The scheme of PAOTA+: its records by hand, and its decisions for different latencies."""

import numpy as np
import pytest
from helpers.timelines import timeline_of

from paota.timing.first_to_finish import Arrivals, FirstToFinish, Punctuality, extended
from paota.timing.latency import Latencies, LogNormal, PerDevice, TwoSpeeds, Uniform
from paota.timing.timeline import Horizon

RULE = FirstToFinish()
NONE = np.array([], int)
HALF_SLOW = TwoSpeeds(slow_share=0.5, low_s=5, high_s=15, slow_low_s=50, slow_high_s=150)
FEW_SLOW = TwoSpeeds(slow_share=0.05, low_s=5, high_s=15, slow_low_s=50, slow_high_s=150)


def played(law, *, devices=100, seed=0, duration_s=300.0, scheme=RULE):
    horizon = Horizon(rounds=None, duration_s=duration_s)
    return timeline_of(scheme, Latencies(law, devices=devices, seed=seed), horizon)


def aborted_in(timeline):
    return np.zeros(len(timeline), int) if timeline.aborted is None else timeline.aborted.ready


def test_no_device_is_slow_without_a_record():
    record = Punctuality(3)
    assert not record.slow().any()
    record.add(np.array([0, 1]), np.array([2]), NONE)  # one training each says nothing about a device
    assert not record.slow().any()


def test_slow_devices_by_hand():
    """Devices 0 to 2 were among the first in 4 of 4 trainings, device 3 in 0 of 4.

    mean 3/4, pairs 4 * 12 = 48, chance 3/16: V = 36/48 - 9/16 - 3/16 sqrt(2/48) = 0.1492 and c = 3/16/V - 1 = 0.2565.
    Device 3 has (0.2565 * 0.75) / 4.2565 = 0.045 < 0.7 * 0.75.
    """
    record = Punctuality(4)
    for _ in range(4):
        record.add(np.array([0, 1, 2]), np.array([3]), NONE)
    assert record.slow().tolist() == [False, False, False, True]


def test_equal_records_make_no_device_slow():
    record = Punctuality(4)
    for device in range(4):
        record.add(np.array([device]), np.setdiff1d(np.arange(4), device), NONE)
    assert not record.slow().any()


def test_a_device_that_always_misses_is_slow_in_the_end():
    """The mean chance is about a half, so that eight misses in a row suffice, whatever the variance."""
    record = Punctuality(1000)
    first = np.arange(1, 1000)
    for event in range(9):
        assert not record.slow()[0]
        record.add(first[event % 2 :: 2], np.append(first[1 - event % 2 :: 2], 0), NONE)
    assert record.slow()[0]
    assert record.slow().sum() == 1
    record.add(first, NONE, np.array([0]))  # it finishes late, and gets another chance
    assert not record.slow()[0]


def test_only_the_last_trainings_count():
    """A device that becomes quick is not slow any more after twenty trainings."""
    record = Punctuality(4)
    for _ in range(30):
        record.add(np.array([0, 1, 2]), np.array([3]), NONE)
    assert record.slow()[3]
    for _ in range(20):
        record.add(np.arange(4), NONE, NONE)
    assert not record.slow().any()


def test_the_number_of_awaited_devices_by_hand():
    """Arrivals after 4, 5, 6 and 20 s: q (1 + 2 / m) = 12, 10, 10, 30; of equals the smaller number. Noise 6: 28, 20, 18, 50."""
    arrivals, noisy = Arrivals(4, 2.0), Arrivals(4, 6.0)
    assert arrivals.best() == 1  # a fifth of four devices
    for record, best in ((arrivals, 2), (noisy, 3)):
        record.add(np.array([4.0, 5.0, 6.0, 20.0]))
        assert record.best() == best
        record.add(np.array([]))  # an event without a device that counts says nothing
        assert record.best() == best


def test_unknown_arrivals_continue_at_the_last_pace():
    assert extended(np.array([1.0, 2.0, 4.0, 6.0, 8.0]), 7).tolist() == [1, 2, 4, 6, 8, 10, 12]
    assert extended(np.array([1.0, 2.0, 4.0]), 2).tolist() == [1, 2]
    assert extended(np.array([3.0]), 3).tolist() == [3, 6, 9]


def test_the_number_grows_by_half_at_most():
    """Equal latencies ask for all devices at once, but only the arrivals of three are known."""
    arrivals = Arrivals(100, 12.0)
    arrivals.add(np.array([5.0, 5.0, 5.0]))
    assert arrivals.best() == 5


@pytest.mark.parametrize("law", [Uniform(), LogNormal(), LogNormal(spread=1.0)], ids=["uniform", "lognormal", "heavy"])
def test_where_latencies_are_redrawn_all_devices_restart(law):
    timeline = played(law)
    whole = timeline.ready + aborted_in(timeline)
    assert np.mean(whole) > 98.5  # at times a device looks slow by chance
    assert np.mean(timeline.staleness == 0) > 0.97
    took_part = np.bincount(played(law, duration_s=900.0).device, minlength=100)
    assert took_part.min() > 0.3 * took_part.mean()


def test_slow_devices_finish_their_trainings():
    """Half of the devices take ten times as long: once the record shows it, their trainings are not aborted any more."""
    timeline = played(HALF_SLOW, duration_s=600.0)
    slow = timeline.device < 50
    assert np.bincount(timeline.device[slow], minlength=50).min() >= 1
    assert (timeline.staleness[slow] > 0).all()
    late = timeline.time_s > 100
    assert np.mean((timeline.ready + aborted_in(timeline))[late] < 60) > 0.9


def test_a_few_slow_devices_are_found_too():
    timeline = played(FEW_SLOW, duration_s=900.0)
    assert set(range(5)) <= set(timeline.device.tolist())


def test_equal_latencies_wait_for_all_devices_and_abort_none():
    timeline = played(PerDevice(low_s=8.0, high_s=8.0))
    assert timeline.aborted is None
    assert set(timeline.ready) == {100}


def test_heavy_tails_ask_for_fewer_devices():
    """Latencies of 1 to 2 s for a fifth of the trainings and about 100 s for the others: waiting for more than these is slow."""

    class Mixed:
        def draw(self, rng, fixed, training, devices):
            return np.where(rng.random(devices) < 0.2, rng.uniform(1, 2, devices), rng.uniform(90, 110, devices))

    timeline = played(Mixed(), duration_s=200.0)
    assert np.diff(timeline.time_s)[5:].max() < 3


def test_a_million_devices():
    timeline = played(Uniform(), devices=1_000_000, duration_s=12.0)
    assert (timeline.ready + aborted_in(timeline) == 1_000_000).all()
