"""Restarts of all devices: the evidence by hand, and the decisions for different latencies."""

import numpy as np
import pytest

from paota.timing.latency import Latencies, LogNormal, PerDevice, TwoSpeeds, Uniform
from paota.timing.restarts import ShareReadyOrRestart, Survival, persistence
from paota.timing.schemes import ShareReady
from paota.timing.timeline import Horizon
from paota.timing.virtual import TimelineInputs, make_timeline

RULE = ShareReadyOrRestart(0.2)


def timeline_of(law, *, devices=100, seed=0, duration_s=300.0, scheme=RULE):
    horizon = Horizon(rounds=None, duration_s=duration_s)
    return make_timeline(scheme, TimelineInputs(Latencies(law, devices=devices, seed=seed), 8.0, horizon))


def aborted_in(timeline):
    return np.zeros(len(timeline), int) if timeline.aborted is None else timeline.aborted.ready


def test_survival_by_hand():
    """Trainings end after 1, 2 and 4 s, one is aborted after 3 s: S = 3/4, 1/2, then (1 left) 0."""
    age_s, finished = np.array([1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, True])
    survival = Survival(age_s, finished)
    np.testing.assert_allclose(survival.after, [1, 3 / 4, 1 / 2, 0])
    assert [survival.quantile(share) for share in (0.25, 0.3, 1.0)] == [1, 2, 4]
    # before + after - 1 of those that ended, after - 1 of the aborted one; they sum to zero
    np.testing.assert_allclose(survival.scores(age_s, finished), [3 / 4, 1 / 4, -1 / 2, -1 / 2])
    assert Survival(np.array([3.0]), np.array([False])).quantile(0.3) == np.inf


def test_persistence_by_hand():
    """Two devices, two trainings each: products 2 * 1 and 2 * 1 of variance 2 * (2 + 2), and with one sign turned."""
    assert persistence(np.array([[1.0, 1.0], [-1.0, -1.0]])) == pytest.approx(4 / np.sqrt(8))
    assert persistence(np.array([[1.0, -1.0], [-1.0, -1.0]])) == 0
    assert persistence(np.zeros((3, 4))) == 0


@pytest.mark.parametrize("law", [Uniform(), LogNormal(), LogNormal(spread=1.0)], ids=["uniform", "lognormal", "heavy"])
def test_where_latencies_are_redrawn_everybody_begins_anew(law):
    timeline = timeline_of(law)
    aborted = aborted_in(timeline)
    first = np.flatnonzero(aborted)[0]
    assert timeline.ready[: first + 1].sum() >= 180  # not before there is evidence
    again = first + 1 + np.flatnonzero((aborted[first:-1] > 0) & (aborted[first + 1 :] > 0))
    assert len(again) > 0.8 * (len(timeline) - first)
    assert set(timeline.ready[again]) == {30}
    assert set(aborted[again]) == {70}
    assert (timeline.staleness[np.isin(timeline.event, again)] == 0).all()


def test_where_latencies_are_redrawn_restarts_leave_nobody_out():
    timeline = timeline_of(Uniform(), duration_s=600.0)
    took_part = np.bincount(timeline.device, minlength=100)
    assert took_part.min() > 0.4 * took_part.mean()


@pytest.mark.parametrize(
    "law", [PerDevice(), TwoSpeeds(), TwoSpeeds(slow_share=0.5, slow_low_s=50, slow_high_s=150)],
    ids=["per-device", "two-speeds", "ten-times"],
)  # fmt: skip
def test_where_speeds_persist_nobody_is_aborted(law):
    for seed in range(3):
        timeline, plain = timeline_of(law, seed=seed), timeline_of(law, seed=seed, scheme=ShareReady(0.2))
        assert timeline.aborted is None
        np.testing.assert_array_equal(timeline.time_s, plain.time_s)
        np.testing.assert_array_equal(timeline.version, plain.version)


def test_speeds_that_begin_to_persist_are_noticed():
    """Latencies are redrawn for the first 8 trainings of each device, then constant."""

    class Settling:
        def draw(self, rng, fixed, training, devices):
            return (rng if training < 8 else fixed).uniform(5, 15, devices)

    timeline = timeline_of(Settling(), duration_s=400.0)
    aborted = np.flatnonzero(aborted_in(timeline))
    assert timeline.time_s[aborted[0]] < 40
    assert timeline.time_s[aborted[-1]] < 160


def test_equal_latencies_in_lock_step_abort_nobody():
    timeline = timeline_of(PerDevice(low_s=8.0, high_s=8.0))
    assert timeline.aborted is None
    assert set(timeline.ready) == {100}


def test_a_huge_fleet_is_watched_in_part():
    timeline = timeline_of(Uniform(), devices=5000, duration_s=60.0)
    assert aborted_in(timeline)[-1] == 3500


def test_switched_off():
    scheme = ShareReadyOrRestart(0.2, None)
    assert timeline_of(Uniform(), scheme=scheme).aborted is None
