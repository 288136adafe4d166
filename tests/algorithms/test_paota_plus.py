"""PAOTA+: its rule by hand, and the limit of its loop against the loop itself."""

import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota import aggregate_by_hand
from paota.algorithms.paota_plus import PaotaPlus, Sums, stability_limit

LIMIT = 2 / (1 + 2 * 0.5 / 1.5)  # 1.2, for boost 2 and decay 1/2


def test_the_rule_by_hand(play, air):
    """P = 1, |dw| = 1: caps |h| = (1, 2, 4), no noise, so that the level is the weakest cap, t = 1.

    Fresh: (1, 0) and (0, 1), sum (1, 1). Late: (0.6, 0.8). d = 1/2 and the state before (f, s, N_f, N_s) give
    f = (1, 1) + (2, 0) / 2 = (2, 1), N_f = 2 + 4 / 2 = 4, s = (0.6, 0.8) + (0.4, 0.2) / 2 = (0.8, 0.9), N_s = 1 + 2 / 2 = 2.
    phi = 2 * 1/2 / (4 + 1) = 1/5, A = 4/5 (0.5, 0.25) + 1/5 (0.4, 0.45) = (0.48, 0.29). g = 1.2 * 2 / (2 + 4 / 2) = 0.6.
    w = (1, 1) + 0.6 ((0.5, 0.5) + 2 A) = (1.876, 1.648).
    """
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    rule = PaotaPlus(noise=4.0, boost=2.0, decay=0.5, late_weight=0.5)
    state = Sums(jnp.array([2.0, 0.0]), jnp.array([0.4, 0.2]), jnp.array(4.0), jnp.array(2.0))
    outcome = play(rule, updates, air([1, 2j, -4], max_power_w=1.0), state=state, staleness=[0, 0, 3])
    np.testing.assert_allclose(outcome.amplitude, [1, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [1 / 3] * 3, rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1.876, 1.648], rtol=1e-6)
    for found, known in zip(outcome.state, ([2, 1], [0.8, 0.9], 4, 2), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-6)


@pytest.mark.parametrize(("round", "share"), [(0, 1 / 2), (1, 3 / 4), (2, 1), (50, 1)])
def test_the_first_two_steps_are_smaller(round, share):
    """One device, update (1, 0). In event 0 the trend is A = (1, 0) / 2: N_f is that of a long past without movement."""
    rule = PaotaPlus(noise=2.0, boost=2.0, decay=0.5)
    past = rule.init(jnp.zeros(2)) if round == 0 else Sums(jnp.zeros(2), jnp.zeros(2), jnp.array(2.0), jnp.array(0.0))
    outcome = aggregate_by_hand(rule, [[1.0, 0.0]], round=round, state=past)
    np.testing.assert_allclose(outcome.model, [share * LIMIT / 2 * 2, 0], rtol=1e-6)


def test_late_updates_alone_turn_the_trend_and_do_not_move_the_model():
    outcome = aggregate_by_hand(PaotaPlus(), [[1.0, 2.0]], round=9, staleness=3)
    np.testing.assert_array_equal(outcome.model, 0)
    np.testing.assert_allclose(outcome.state.late, [1, 2], rtol=1e-6)


def test_the_weight_of_late_updates_has_a_limit():
    """phi stays at (1 + b) / (2 b) = 3/4 although nearly all updates are late: A = 1/4 f / N_f + 3/4 s / N_s."""
    rule = PaotaPlus(noise=0.0, boost=2.0, decay=0.5)
    state = Sums(jnp.array([0.0, 0.0]), jnp.array([0.0, 1e6]), jnp.array(0.0), jnp.array(1e6))
    outcome = aggregate_by_hand(rule, [[1.0, 0.0]], round=9, state=state)
    np.testing.assert_allclose(outcome.model, [LIMIT * (1 + 2 / 4), LIMIT * 2 * 3 / 4], rtol=1e-6)


def test_noise_raises_the_level_and_no_budget_is_exceeded(play, air):
    """The numbers are those of the golden test of the threshold policy: t = 2, p = (1, 2, 2)."""
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    outcome = play(PaotaPlus(), updates, air([1, 2j, -4], noise_power_w=1.0, max_power_w=1.0), num_devices=10)
    np.testing.assert_allclose(outcome.amplitude, [1, 2, 2], rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [1, 1, 0.25], rtol=1e-5)


def test_two_sums_take_twice_the_airtime():
    table = {"rounds": 2, "data": {"devices": 10}, "algorithms": [{"name": "paota-plus"}, {"name": "cotaf"}]}
    plus, cotaf = (paota.run(table).of(name)[0].metrics["airtime_s"][1] for name in ("paota-plus", "cotaf"))
    np.testing.assert_allclose(plus, 2 * cotaf, rtol=1e-9)


def test_an_event_without_devices_changes_nothing():
    state = Sums(jnp.ones(2), jnp.ones(2), jnp.array(3.0), jnp.array(1.0))
    outcome = aggregate_by_hand(PaotaPlus(), [[1.0, 2.0]], ready=False, state=state)
    np.testing.assert_array_equal(outcome.model, 0)
    for found, known in zip(outcome.state, state, strict=True):
        np.testing.assert_array_equal(found, known)


def farthest(step, *, boost, decay, phi=0.0, delay=0, events=4000):
    """Return the largest |w| at the end of the loop in a direction in which every update is -w, late ones `delay` events old."""
    w, f, s = [1.0] * (delay + 1), 0.0, 0.0
    for _ in range(events):
        f, s = decay * f - (1 - decay) * w[-1], decay * s - (1 - decay) * w[-1 - delay]
        w.append(w[-1] + step * (-w[-1] + boost * ((1 - phi) * f + phi * s)))
        if abs(w[-1]) > 1e9:
            break
    return np.abs(w[-delay - 10 :]).max()


@pytest.mark.parametrize(("boost", "decay"), [(2.5, 0.8), (1.0, 0.5), (5.0, 0.9), (0.5, 0.0)])
def test_the_limit_against_the_loop_itself(boost, decay):
    limit = stability_limit(boost, decay)
    assert farthest(0.99 * limit, boost=boost, decay=decay) < 1e-3
    assert farthest(1.01 * limit, boost=boost, decay=decay) > 1e3


@pytest.mark.parametrize("delay", [1, 2, 3, 4, 7, 12, 30])
@pytest.mark.parametrize("phi", [0.2, 0.5, 0.699])
def test_no_delay_of_late_updates_takes_anything_from_the_limit(phi, delay):
    """phi = (1 + 2.5) / 5 = 0.7 is the bound of the rule; beyond it a long delay makes even a small step unstable."""
    assert farthest(0.99 * stability_limit(2.5, 0.8), boost=2.5, decay=0.8, phi=phi, delay=delay, events=40_000) < 1
    if delay == 30:
        assert farthest(0.5 * stability_limit(2.5, 0.8), boost=2.5, decay=0.8, phi=0.8, delay=delay) > 1e3
