"""The account of privacy: by hand, and against the exact loss of a Gaussian mechanism."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import paota
from paota.air.privacy import account, epsilon, event_rho, privacy_columns
from paota.air.uplink import noise_power_w
from paota.algorithms.threshold import Threshold
from paota.power.settings import Power
from paota.timing.timeline import Timeline, Trainings


def test_rho_by_hand():
    """p = 3, C = 0.5: sensitivity 3; sigma^2 = 6, so a variance of 3: rho = 9 / 6. Silence reveals no data."""
    np.testing.assert_allclose(event_rho([3.0, 0.0], 0.5, 6.0), [1.5, 0.0])
    assert np.isinf(event_rho([1.0], 1.0, 0.0)[0])  # no noise, no privacy


def test_epsilon_by_hand():
    """rho = 0.5, delta = e^-8: 0.5 + 2 sqrt(4) = 4.5."""
    np.testing.assert_allclose(epsilon(0.5, np.exp(-8)), 4.5)
    assert epsilon(0.0) == 0


@pytest.mark.parametrize("rho", [0.01, 0.1, 1.0, 5.0])
def test_epsilon_bounds_the_exact_loss_of_the_gaussian_mechanism(rho):
    """Balle and Wang, 2018: delta = Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m), m = sensitivity/deviation = sqrt(2 rho).

    Gaussian mechanisms compose to one with the sum of their rho, so this is the truth for any number of events.
    """
    m, delta = np.sqrt(2 * rho), 1e-5

    def excess(eps):
        return stats.norm.cdf(m / 2 - eps / m) - np.exp(eps + stats.norm.logcdf(-m / 2 - eps / m)) - delta

    exact = optimize.brentq(excess, 1e-9, 100)
    assert exact <= epsilon(rho, delta) <= 1.5 * exact


@pytest.mark.parametrize(
    ("losses", "by_moments", "exact"),
    [([0.02, 0.02, 0.02, 0.05], 2.01777, 1.85595), ([0.1] * 20, 10.72551, 9.99726), ([1.0] * 5, 19.05360, 17.85659)],
)
def test_epsilon_against_a_known_accountant(losses, by_moments, exact):
    """Google's dp-accounting 0.6.0, one GaussianDpEvent(1/sqrt(2 rho)) for each loss, delta = 1e-5: its Renyi accountant and
    its exact one (privacy loss distributions). Ours is a bound on both, and not far above.
    """
    assert exact < by_moments <= epsilon(sum(losses)) <= 1.2 * by_moments


def test_noise_that_devices_add():
    """C = 1, z = 2, no noise at the receiver but sigma^2 = 2 (variance 1). Amplitudes 1 and 2: own variances 4 and 16.

    Alone 4/2 and 16/2. With its own: 4/(2 (1 + 4)), 16/(2 (1 + 16)); with all: 4/(2 (1 + 20)), 16/(2 (1 + 20)).
    """
    both = Trainings(*map(np.array, ([0, 1], [0, 0], [0, 0], [0.0, 0.0], [3.0, 4.0])))
    columns = account(
        Timeline.build([(4.0, both)]), np.array([1.0, 2.0]), 1, clip_norm=1.0, noise_power_w=2.0, noise_multiplier=2.0
    )
    np.testing.assert_allclose(columns["rho_max"], [0, 8])
    np.testing.assert_allclose(columns["own_rho_max"], [0, 8 / 17])
    np.testing.assert_allclose(columns["all_rho_max"], [0, 8 / 21])
    np.testing.assert_allclose(columns["all_epsilon_max"], epsilon([0, 8 / 21]))


def test_rho_adds_up_over_the_events_of_a_device():
    """Device 0 in events 1 and 3, device 1 in event 1; event 2 is empty."""
    none = Trainings(*(np.zeros(0) for _ in range(5)))
    both = Trainings(*map(np.array, ([0, 1], [0, 0], [0, 0], [0.0, 0.0], [3.0, 4.0])))
    one = Trainings(*map(np.array, ([0], [1], [1], [4.0], [9.0])))
    timeline = Timeline.build([(4.0, both), (5.0, none), (9.0, one)])
    columns = privacy_columns(timeline, np.array([1.0, 1.5, 2.0]), 3)
    np.testing.assert_allclose(columns["rho_max"], [0, 1.5, 1.5, 3.0])
    np.testing.assert_allclose(columns["epsilon_max"], epsilon([0, 1.5, 1.5, 3.0]))


def test_a_run_has_the_columns_where_updates_are_clipped():
    table = {
        "rounds": 2,
        "model": {"name": "softmax"},
        "data": {"dataset": "synthetic", "devices": 12, "sizes": [60]},
        "air": {"n0_dbm_per_hz": -70},
        "power": {"cap": "physical"},
        "algorithms": [
            {"name": "threshold", "participants": 6, "guards": {"max_update_norm": 0.5}},
            {"name": "threshold", "label": "unclipped", "participants": 6},
        ],
    }
    clipped, plain = paota.run(table).trajectories
    assert "rho_max" not in plain.metrics
    rho = 4 * 0.25 * clipped.devices["amplitude"] ** 2 / (20e6 * 1e-10)
    np.testing.assert_allclose(
        clipped.metrics["rho_max"][-1], np.bincount(clipped.devices["device"], rho).max(), rtol=1e-5
    )


SMALL = {
    "rounds": 3,
    "model": {"name": "softmax"},
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [60]},
    "power": {"cap": "physical"},
}


def test_noise_of_the_devices_in_a_run():
    """The update that a device sends is that of the quiet run and noise of z C = 1 a weight; then the account has all columns.

    d = 2410 for 240 inputs: |noise|^2 is about d; of |dw| <= 0.1 one sees nothing in it.
    """
    noisy = {"max_update_norm": 0.1, "noise_multiplier": 10.0}
    table = {**SMALL, "rounds": 1, "algorithms": [{"name": "threshold", "participants": 6, "guards": noisy}]}
    run, again = (paota.run(table, events_per_call=n).trajectories[0] for n in (1, 4))
    np.testing.assert_array_equal(run.model, again.model)
    quiet = {
        **SMALL,
        "rounds": 1,
        "algorithms": [{"name": "threshold", "participants": 6, "guards": {"max_update_norm": 0.1}}],
    }
    moved = run.model - paota.run(quiet).trajectories[0].model
    assert np.std(moved) == pytest.approx(1 / np.sqrt(6), rel=0.1)  # the mean of six
    assert run.metrics["all_rho_max"][-1] < run.metrics["own_rho_max"][-1] < run.metrics["rho_max"][-1]
    np.testing.assert_allclose(run.metrics["own_rho_max"][-1], 2 / 10**2, rtol=1e-3)  # 2/z^2: the receiver's is nothing


def test_noise_needs_a_clip():
    table = {**SMALL, "algorithms": [{"name": "cotaf", "guards": {"noise_multiplier": 1.0}}]}
    with pytest.raises(paota.UserError, match="noise_multiplier is in units of guards"):
        paota.run(table)


def test_votes_have_no_account():
    """Signs are not clipped: their length is that of all ones, and a loss in units of C would be wrong."""
    table = {**SMALL, "algorithms": [{"name": "majority-vote", "participants": 6, "guards": {"max_update_norm": 0.1}}]}
    assert "rho_max" not in paota.run(table).trajectories[0].metrics


def test_what_counts_is_what_arrives_and_not_what_was_meant():
    """Believed 0.1, met 0.3: a device that intends to arrive with 0.1 arrives with 0.3, and loses nine times the rho."""
    uplink = paota.Uplink(
        jnp.array([0.1 + 0j, 1.0]), jnp.array([True, True]), jnp.array(1e-9), jnp.array(15.0), jax.random.key(0),
        actual_channel=jnp.array([0.3j, 1.0]),
    )  # fmt: skip
    outcome = paota.aggregate_by_hand(
        Threshold(), [[1.0, 0.0], [0.0, 1.0]], uplink=uplink, power=Power(cap="physical"), model=[0.0, 0.0],
        previous_model=[0.0, 0.0],
    )  # fmt: skip
    level = outcome.amplitude[1]
    np.testing.assert_allclose(outcome.amplitude, [3 * level, level], rtol=1e-5)
    np.testing.assert_allclose(outcome.weight, [0.5, 0.5], rtol=1e-5)  # as decided


def test_wrong_channel_knowledge_costs_privacy_in_a_run():
    """The same devices, norms and decisions: with |h| known to 10 % the loudest device has lost more."""
    line = {"name": "cotaf", "fading": True, "participants": 12, "guards": {"max_update_norm": 0.01}}
    table = {**SMALL, "rounds": 1, "algorithms": [line]}
    exact, wrong = (paota.run({**table, "air": air}).trajectories[0] for air in ({}, {"csi_error": 0.1}))
    assert np.ptp(exact.devices["amplitude"]) <= 1e-6 * exact.devices["amplitude"].max()  # COTAF aligns them ...
    assert wrong.devices["amplitude"].max() > 1.05 * wrong.devices["amplitude"].min()  # ... if it knows the channels
    rho = 4 * 0.01**2 * wrong.devices["amplitude"] ** 2 / noise_power_w(20e6, -174.0)
    np.testing.assert_allclose(wrong.metrics["rho_max"][-1], rho.max(), rtol=1e-4)
