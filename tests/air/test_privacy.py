"""The account of privacy: by hand, and against the exact loss of a Gaussian mechanism."""

import numpy as np
import pytest
from scipy import optimize, stats

import paota
from paota.air.privacy import epsilon, event_rho, privacy_columns
from paota.timing.timeline import Participants, Timeline


def test_rho_by_hand():
    """p = 3, C = 0.5: sensitivity 3; sigma^2 = 6, so a variance of 3: rho = 9 / 6. Silence tells nothing."""
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


def test_rho_adds_up_over_the_events_of_a_device():
    """Device 0 in events 1 and 3, device 1 in event 1; nobody in event 2."""
    none = Participants(*(np.zeros(0) for _ in range(5)))
    both = Participants(*map(np.array, ([0, 1], [0, 0], [0, 0], [0.0, 0.0], [3.0, 4.0])))
    one = Participants(*map(np.array, ([0], [1], [1], [4.0], [9.0])))
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
    rho = 4 * 0.25 * clipped.devices["power"] ** 2 / (20e6 * 1e-10)
    np.testing.assert_allclose(
        clipped.metrics["rho_max"][-1], np.bincount(clipped.devices["device"], rho).max(), rtol=1e-5
    )
