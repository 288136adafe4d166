"""PAOTA+: its rule by hand, and the limit of its loop against the loop itself."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.timelines import share_ready

from paota import aggregate_by_hand
from paota.algorithms.paota_plus import LATEST, Motion, PaotaPlus, all_late_by, largest_gain, stability_limit
from paota.timing.latency import Latencies, LogNormal, PerDevice, TwoSpeeds, Uniform
from paota.timing.timeline import Horizon


def test_the_rule_by_hand(play, air):
    """P = 1, |dw| = 1: caps |h| = (1, 2, 4), no noise, so that the level is the weakest cap, t = 1. K = 10, gain 2.

    s = (2/10) (1.6, 1.8) = (0.32, 0.36); m = 1.5 s - 0.5 (0.2, 0) = (0.38, 0.54);
    v = (0.1, 0) + (3/10) ((0.38, 0.54) - (0.1, 0)) / 3 = (0.128, 0.054); w + m + 2 v = (1.636, 1.648).
    """
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    rule = PaotaPlus(gain=2.0, lead=0.5, boost=2.0, memory_turns=3.0)
    state = Motion(newest=jnp.array([0.2, 0.0]), trend=jnp.array([0.1, 0.0]), late=all_late_by(4.0))
    outcome = play(rule, updates, air([1, 2j, -4], max_power_w=1.0), num_devices=10, state=state)
    np.testing.assert_allclose(outcome.amplitude, [1, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [0.2, 0.2, 0.2], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1.636, 1.648], rtol=1e-6)
    np.testing.assert_allclose(outcome.state.newest, [0.38, 0.54], rtol=1e-6)
    np.testing.assert_allclose(outcome.state.trend, [0.128, 0.054], rtol=1e-6)


def test_noise_raises_the_level_and_no_budget_is_exceeded(play, air):
    """The numbers are those of the golden test of the threshold policy: t = 2, p = (1, 2, 2)."""
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    outcome = play(PaotaPlus(), updates, air([1, 2j, -4], noise_power_w=1.0, max_power_w=1.0), num_devices=10)
    np.testing.assert_allclose(outcome.amplitude, [1, 2, 2], rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [1, 1, 0.25], rtol=1e-5)


@pytest.mark.parametrize("aborted", [0, 6])
def test_where_nobody_is_on_the_way_the_step_is_of_the_mean_update(aborted):
    """Four ready: all there are, or all others abort. s = 1.5 (1/2, 1/2), v = s / 3, w = s + 3 v = (1.5, 1.5); no lead."""
    rule = PaotaPlus(gain=1.5, lead=0.65, boost=3.0, memory_turns=3.0)
    state = Motion(newest=jnp.array([9.0, 9.0]), trend=jnp.zeros(2), late=all_late_by(4.0))
    outcome = aggregate_by_hand(
        rule, [[1.0, 0.0], [0.0, 1.0]] * 2, num_devices=4 + aborted, aborted=aborted, state=state
    )
    np.testing.assert_allclose(outcome.model, [1.5, 1.5], rtol=1e-6)
    np.testing.assert_allclose(outcome.state.newest, [0.75, 0.75], rtol=1e-6)


def test_an_event_that_aborts_but_hears_stale_updates_steps_as_if_all_were_on_the_way():
    updates = [[1.0, 0.0], [0.0, 1.0]]
    late = aggregate_by_hand(PaotaPlus(), updates, num_devices=10, staleness=[0, 1], aborted=8)
    plain = aggregate_by_hand(PaotaPlus(), updates, num_devices=10, staleness=[0, 1])
    np.testing.assert_array_equal(late.model, plain.model)


@pytest.mark.parametrize("turn", [1, 2, 3, 5, 10])
def test_the_limit_of_a_constant_delay_is_the_known_one(turn):
    """w^(r+1) = w^r - a w^(r-T+1) is stable for a < 2 sin(pi / (2 (2T - 1))) (Levin and May, 1976), and a = gain / T."""
    known = 2 * turn * np.sin(np.pi / (2 * (2 * turn - 1)))
    np.testing.assert_allclose(stability_limit(np.eye(turn)[-1], 1 / turn), known, rtol=1e-4)


@pytest.mark.parametrize("law", [Uniform(), PerDevice(), LogNormal()], ids=["uniform", "per-device", "lognormal"])
@pytest.mark.parametrize(("lead", "boost"), [(0.0, 0.0), (0.5, 0.0), (0.65, 3.0)])
def test_the_limit_against_the_loop_itself(law, lead, boost):
    """One direction of a quadratic, dw = -w, on real timelines: 10 % below the limit it dies out, 25 % above it grows."""
    latencies = Latencies(law, devices=100, seed=0)
    timeline = share_ready(latencies, share=0.3, updates=None, horizon=Horizon(rounds=None, duration_s=1500.0))
    late = timeline.staleness[timeline.event > 20]
    limit = stability_limit(np.bincount(late) / len(late), 0.3, lead=lead, boost=boost, memory_turns=6.0)
    assert 1.2 < limit < 3.0
    assert end_of_loop(timeline, 0.9 * limit, lead, boost) < 1e-3
    assert end_of_loop(timeline, 1.25 * limit, lead, boost) > 10


def end_of_loop(timeline, gain, lead, boost):
    """The largest |w| of the last ten versions, from w^0 = 1."""
    w, m, v = [1.0], 0.0, 0.0
    for a, b in zip(timeline.offsets, timeline.offsets[1:], strict=False):
        step = -gain / 100 * sum(w[version] for version in timeline.version[a:b])
        m = (1 + lead) * step - lead * m
        v += (b - a) / 100 * (m - v) / 6.0
        w.append(w[-1] + m + boost * v)
    return np.abs(w[-10:]).max()


def late_in(law, share=0.2, duration_s=600.0):
    """[S]: how late updates are where a share of 100 devices makes an event."""
    latencies = Latencies(law, devices=100, seed=0)
    timeline = share_ready(latencies, share=share, updates=None, horizon=Horizon(rounds=None, duration_s=duration_s))
    late = timeline.staleness[timeline.event > 20]
    return np.bincount(late, minlength=LATEST) / len(late)


SLOW_HALF = TwoSpeeds(slow_share=0.5, low_s=5.0, high_s=15.0, slow_low_s=50.0, slow_high_s=150.0)


@pytest.mark.parametrize("law", [Uniform(), PerDevice(), SLOW_HALF], ids=["uniform", "per-device", "half-slow"])
@pytest.mark.parametrize(("lead", "boost", "turns"), [(0.0, 0.0, 1.0), (0.65, 3.0, 6.0), (0.3, 2.0, 4.0)])
def test_the_limit_by_frequencies_is_that_by_roots(law, lead, boost, turns):
    late = late_in(law, duration_s=3000.0)
    filters = {"lead": lead, "boost": boost, "memory_turns": turns}
    np.testing.assert_allclose(largest_gain(7 * late, 0.2, **filters), stability_limit(late, 0.2, **filters), rtol=5e-3)


@pytest.mark.parametrize("turn", [1, 2, 3, 5, 10, 50])
def test_the_limit_by_frequencies_of_equal_delays(turn):
    """The limit of the test by roots, 2 T sin(pi / (2 (2T - 1)))."""
    known = 2 * turn * np.sin(np.pi / (2 * (2 * turn - 1)))
    found = largest_gain(all_late_by(turn - 1.0), 1 / turn, lead=0.0, boost=0.0, memory_turns=1.0)
    np.testing.assert_allclose(found, known, rtol=2e-2)  # of 50 versions, the frequencies are few


def test_the_gain_is_that_share_of_what_the_delays_admit():
    """One of five is ready in every event: of equal latencies; then with the delays of a fleet half of which is slow."""
    rule = PaotaPlus(boldness=0.5)
    filters = {"lead": rule.lead, "boost": rule.boost, "memory_turns": rule.memory_turns}
    equal = aggregate_by_hand(rule, [[1.0, 0.0]], num_devices=5, round=9, staleness=4)
    np.testing.assert_allclose(equal.weight, 0.5 * stability_limit(np.eye(5)[-1], 0.2, **filters) / 5, rtol=5e-3)
    state = Motion(jnp.zeros(2), jnp.zeros(2), jnp.asarray(1e4 * late_in(SLOW_HALF, duration_s=3000.0)))
    slow = aggregate_by_hand(rule, [[1.0, 0.0]], num_devices=5, round=9, staleness=4, state=state)
    limit = stability_limit(late_in(SLOW_HALF, duration_s=3000.0), 0.2, **filters)
    assert limit > 4
    np.testing.assert_allclose(slow.weight, 0.5 * limit / 5, rtol=5e-3)


def test_where_nobody_is_on_the_way_the_gain_is_that_without_delay():
    """All four of four: the limit of q = 1 without lead, whatever was late before, and what was late is kept."""
    rule = PaotaPlus(boldness=0.5)
    outcome = aggregate_by_hand(rule, np.eye(4), round=9)
    limit = stability_limit([1.0], 1.0, boost=rule.boost, memory_turns=rule.memory_turns)
    np.testing.assert_allclose(outcome.weight, 0.5 * limit / 4, rtol=5e-3)
    np.testing.assert_array_equal(outcome.state.late, all_late_by(4.0))


def test_how_late_updates_are_is_counted_in_turns():
    """Three of ten devices arrive, 1, 1 and 3 versions late: 0.2 and 0.1 turns, and the turn before fades by 0.3 / 6.

    The fourth began with version 0, like all of them, and does not count; the fifth is padding.
    """
    outcome = aggregate_by_hand(
        PaotaPlus(memory_turns=6.0), np.ones((5, 2)), num_devices=10, round=7, staleness=[1, 1, 3, 7, 2],
        ready=[True, True, True, True, False],
    )  # fmt: skip
    np.testing.assert_allclose(outcome.state.late[:8], [0, 0.2, 0, 0.1, 0.95, 0, 0, 0], rtol=1e-5)


def test_later_than_can_be_told_counts_as_the_latest():
    outcome = aggregate_by_hand(PaotaPlus(), np.ones((1, 2)), num_devices=10, round=1000, staleness=900)
    np.testing.assert_allclose(outcome.state.late[-1], 0.1, rtol=1e-5)


def test_nobody_ready_changes_nothing():
    state = Motion(newest=jnp.ones(2), trend=jnp.ones(2), late=jnp.ones(LATEST))
    outcome = aggregate_by_hand(PaotaPlus(), [[1.0, 2.0]], ready=False, state=state)
    np.testing.assert_array_equal(outcome.model, 0)
    np.testing.assert_array_equal(outcome.state.newest, 1)
    np.testing.assert_array_equal(outcome.state.trend, 1)
    np.testing.assert_array_equal(outcome.state.late, 1)
