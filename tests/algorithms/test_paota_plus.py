"""PAOTA+: its rule by hand, and the limit of its loop against the loop itself."""

import jax.numpy as jnp
import numpy as np
import pytest

from paota import aggregate_by_hand
from paota.algorithms.paota_plus import PaotaPlus, stability_limit
from paota.timing.latency import Latencies, LogNormal, PerDevice, Uniform
from paota.timing.schemes import share_ready
from paota.timing.timeline import Horizon


def test_the_rule_by_hand(play, air):
    """P = 1, |dw| = 1: caps |h| = (1, 2, 4), no noise, so that the level is the weakest cap, t = 1. K = 10, gain 2.

    s = (2/10) (1.6, 1.8) = (0.32, 0.36); m = 1.5 s - 0.5 (0.2, 0) = (0.38, 0.54).
    """
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    rule = PaotaPlus(gain=2.0, lead=0.5)
    outcome = play(rule, updates, air([1, 2j, -4], max_power_w=1.0), num_devices=10, state=jnp.array([0.2, 0.0]))
    np.testing.assert_allclose(outcome.amplitude, [1, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(outcome.weight, [0.2, 0.2, 0.2], rtol=1e-6)
    np.testing.assert_allclose(outcome.model, [1.38, 1.54], rtol=1e-6)
    np.testing.assert_allclose(outcome.state, [0.38, 0.54], rtol=1e-6)


def test_noise_raises_the_level_and_no_budget_is_exceeded(play, air):
    """As in the golden test of the threshold policy: t = 2, p = (1, 2, 2)."""
    updates = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]
    outcome = play(PaotaPlus(), updates, air([1, 2j, -4], noise_power_w=1.0, max_power_w=1.0), num_devices=10)
    np.testing.assert_allclose(outcome.amplitude, [1, 2, 2], rtol=1e-5)
    np.testing.assert_allclose(outcome.transmit_power_w, [1, 1, 0.25], rtol=1e-5)


def test_lock_step_is_never_more_than_the_mean_update(play, air):
    """All four of four devices at once: gain n / K = 2, and yet the model moves by the mean, (1/2, 1/2)."""
    outcome = play(PaotaPlus(), [[1.0, 0.0], [0.0, 1.0]] * 2, air([1] * 4))
    np.testing.assert_allclose(outcome.model, [1.5, 1.5], rtol=1e-6)


@pytest.mark.parametrize("turn", [1, 2, 3, 5, 10])
def test_the_limit_of_a_constant_delay_is_the_known_one(turn):
    """w^(r+1) = w^r - a w^(r-T+1) is stable for a < 2 sin(pi / (2 (2T - 1))) (Levin and May, 1976), and a = gain / T."""
    known = 2 * turn * np.sin(np.pi / (2 * (2 * turn - 1)))
    np.testing.assert_allclose(stability_limit(np.eye(turn)[-1], 1 / turn, lead=0.0), known, rtol=1e-4)


@pytest.mark.parametrize("law", [Uniform(), PerDevice(), LogNormal()], ids=["uniform", "per-device", "lognormal"])
@pytest.mark.parametrize("lead", [0.0, 0.5])
def test_the_limit_against_the_loop_itself(law, lead):
    """One direction of a quadratic, dw = -w, on real timelines: 10 % below the limit it dies out, 25 % above it grows."""
    latencies = Latencies(law, devices=100, seed=0)
    timeline = share_ready(latencies, share=0.3, updates=None, horizon=Horizon(rounds=None, duration_s=1500.0))
    late = timeline.staleness[timeline.event > 20]
    limit = stability_limit(np.bincount(late) / len(late), 0.3, lead)
    assert 1.5 < limit < 3.0
    assert end_of_loop(timeline, 0.9 * limit, lead) < 1e-3
    assert end_of_loop(timeline, 1.25 * limit, lead) > 10


def end_of_loop(timeline, gain, lead):
    """The largest |w| of the last ten versions, from w^0 = 1."""
    w, moved = [1.0], 0.0
    for a, b in zip(timeline.offsets, timeline.offsets[1:], strict=False):
        step = -gain / 100 * sum(w[v] for v in timeline.version[a:b])
        moved = (1 + lead) * step - lead * moved
        w.append(w[-1] + moved)
    return np.abs(w[-10:]).max()


def test_nobody_ready_changes_nothing():
    outcome = aggregate_by_hand(PaotaPlus(), [[1.0, 2.0]], ready=False, state=jnp.array([1.0, 1.0]))
    np.testing.assert_array_equal(outcome.model, 0)
    np.testing.assert_array_equal(outcome.state, 1)
