"""Participants of the schemes of the rivals."""

import numpy as np
import pytest
from helpers.timelines import grouped, share_ready, synchronous, tiered

from paota import UserError
from paota.algorithms.air_fedga import AirFedGa
from paota.algorithms.fedasync import FedAsync
from paota.algorithms.fedbuff import FedBuff
from paota.timing.latency import Latencies, LogNormal, PerDevice, Uniform
from paota.timing.scheme import Scheme, Wait
from paota.timing.schemes import Synchronous
from paota.timing.timeline import Horizon
from paota.timing.virtual import TimelineInputs, make_timeline


def fixed(*seconds):
    return Latencies(PerDevice(seconds=seconds), devices=len(seconds), seed=0)


def by_event(timeline):
    return [timeline.device[a:b].tolist() for a, b in zip(timeline.offsets, timeline.offsets[1:], strict=False)]


def test_tiers_by_hand():
    """dT = 4 s, devices of 3, 5 and 9 s: tiers 1, 2 and 3, which take part in every, every second and every third period."""
    timeline = tiered(fixed(3.0, 5.0, 9.0), period_s=4.0, horizon=Horizon(rounds=6))
    assert by_event(timeline) == [[0], [0, 1], [0, 2], [0, 1], [0], [0, 1, 2]]
    assert timeline.staleness.tolist() == [0, 0, 1, 0, 2, 0, 1, 0, 0, 1, 2]


def test_a_share_of_the_devices_by_hand():
    """Half of 1, 6, 2, 5 s: at 2 s {0, 2}; again at 4; at 5 s device 3 and 0 (4 + 1) are done; at 6 device 1 and 2 (4 + 2)."""
    timeline = share_ready(fixed(1.0, 6.0, 2.0, 5.0), share=0.5, updates=8, horizon=Horizon(rounds=3))
    np.testing.assert_allclose(timeline.time_s, [2, 4, 5, 6])
    assert by_event(timeline) == [[0, 2], [0, 2], [0, 3], [0, 1, 2]]
    assert timeline.version.tolist() == [0, 0, 1, 1, 2, 0, 3, 0, 2]
    np.testing.assert_allclose(timeline.start_s[:6], [0, 0, 2, 2, 4, 0])


def test_events_by_share_space_themselves():
    """Little's law: a fifth of the devices every fifth of the mean time from start to start, whatever the latencies."""
    for model in (Uniform(), LogNormal(), PerDevice()):
        latencies = Latencies(model, devices=200, seed=1)
        timeline = share_ready(latencies, share=0.2, updates=None, horizon=Horizon(rounds=None, duration_s=400.0))
        late = timeline.time_s[timeline.event] > 100
        turn_s = (timeline.time_s[timeline.event] - timeline.start_s)[late]
        rate = len(turn_s) / (timeline.time_s[-1] - 100)
        assert rate * turn_s.mean() == pytest.approx(200, rel=0.05)
        assert np.all(timeline.ready == 40)


def test_over_selection_by_hand():
    """All four of 1, 6, 2, 5 s start; the first two to finish count: rounds of 2 s, and devices 1 and 3 never count."""
    timeline = synchronous(
        fixed(1.0, 6.0, 2.0, 5.0), participants=2, selected=4, horizon=Horizon(rounds=None, duration_s=5.0)
    )
    np.testing.assert_allclose(timeline.time_s, [2, 4])
    assert by_event(timeline) == [[0, 2], [0, 2]]
    assert by_event(timeline.aborted) == [[1, 3], [1, 3]]
    assert timeline.training.tolist() == [0, 0, 1, 1]
    assert timeline.aborted.training.tolist() == [0, 0, 1, 1]  # an aborted training is not gone on with
    np.testing.assert_allclose(timeline.aborted.start_s, [0, 0, 2, 2])
    np.testing.assert_allclose(timeline.aborted.finish_s, [6, 5, 8, 7])
    assert timeline.max_staleness == 0


def test_a_deadline_by_hand():
    """3 s: of 1, 6, 2, 5 s two have finished. 0.5 s: no device, and the round ends, too."""
    latencies = fixed(1.0, 6.0, 2.0, 5.0)
    timeline = synchronous(latencies, participants=4, deadline_s=3.0, horizon=Horizon(rounds=2))
    np.testing.assert_allclose(timeline.time_s, [3, 6])
    assert by_event(timeline) == [[0, 2], [0, 2]]
    hasty = synchronous(latencies, participants=4, deadline_s=0.5, horizon=Horizon(rounds=2))
    np.testing.assert_allclose(hasty.time_s, [0.5, 1.0])
    assert by_event(hasty) == [[], []]
    # Enough have finished long before: the deadline does nothing.
    patient = synchronous(latencies, participants=1, selected=4, deadline_s=3.0, horizon=Horizon(rounds=2))
    np.testing.assert_allclose(patient.time_s, [1, 2])


def test_waiting_for_all_aborts_nobody():
    assert synchronous(fixed(1.0, 2.0), participants=2, horizon=Horizon(rounds=2)).aborted is None


def test_fewer_selected_than_participants_are_refused():
    world = TimelineInputs(fixed(1.0, 6.0, 2.0, 5.0), 8.0, Horizon(rounds=2))
    with pytest.raises(UserError, match="selected = 2 devices are fewer than the 3 participants"):
        make_timeline(Synchronous(participants=3, selected=2), world)


def test_grouped_by_hand():
    """Devices of 1, 6, 2, 5 s in two groups: {0, 2} every 2 s, {1, 3} every 6 s. At 6 s the quick group goes first."""
    timeline = grouped(fixed(1.0, 6.0, 2.0, 5.0), groups=2, updates=12, horizon=Horizon(rounds=3))
    np.testing.assert_allclose(timeline.time_s, [2, 4, 6, 6, 8, 10])
    assert by_event(timeline) == [[0, 2], [0, 2], [0, 2], [1, 3], [0, 2], [0, 2]]
    # The slow group started from version 0 and is the fourth event; at 8 s the quick one missed just that.
    assert timeline.staleness[::2].tolist() == [0, 0, 0, 3, 1, 0]
    assert timeline.training[::2].tolist() == [0, 1, 2, 0, 3, 4]
    np.testing.assert_allclose(timeline.start_s[::2], [0, 2, 4, 0, 6, 8])
    np.testing.assert_allclose(timeline.finish_s[6:8], [6, 5])  # device 3 waited for device 1


def test_grouped_ends_at_the_duration():
    timeline = grouped(fixed(1.0, 6.0, 2.0, 5.0), groups=2, updates=None, horizon=Horizon(rounds=None, duration_s=6.0))
    np.testing.assert_allclose(timeline.time_s, [2, 4, 6, 6])


def test_more_groups_than_devices_is_fully_asynchronous():
    timeline = grouped(fixed(1.0, 3.0), groups=9, updates=5, horizon=Horizon(rounds=3))
    np.testing.assert_allclose(timeline.time_s, [1, 2, 3, 3, 4])
    assert timeline.device.tolist() == [0, 0, 0, 1, 0]


@pytest.mark.parametrize("rule", [FedAsync(), FedBuff(buffer_size=7), AirFedGa(groups=4)])
def test_asynchronous_rivals_get_as_many_device_updates(rule):
    world = TimelineInputs(Latencies(Uniform(), devices=40, seed=3), 8.0, Horizon(rounds=12))
    asked = 12 * world.participants(None)
    updates = len(make_timeline(rule.scheme, world).device)
    assert asked <= updates < asked + 10  # whole buffers and whole groups


def test_and_the_same_time_where_time_sets_the_end():
    world = TimelineInputs(Latencies(Uniform(), devices=40, seed=3), 8.0, Horizon(rounds=None, duration_s=100.0))
    for rule in (FedAsync(), FedBuff(), AirFedGa()):
        timeline = make_timeline(rule.scheme, world)
        assert 80 < timeline.time_s[-1] <= 100


class Ending(Scheme):
    def run(self, server):
        server.start(server.everyone)
        yield Wait(count=1)


class Nonsense(Scheme):
    def run(self, server):
        yield 3


@pytest.mark.parametrize(("scheme", "why"), [(Ending(), "Ending ended before"), (Nonsense(), "must yield paota.Wait")])
def test_a_scheme_that_is_none_gets_one_sentence(scheme, why):
    inputs = TimelineInputs(Latencies(Uniform(), devices=4, seed=0), 8.0, Horizon(rounds=5))
    with pytest.raises(UserError, match=why):
        make_timeline(scheme, inputs)
