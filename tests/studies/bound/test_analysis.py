"""Theorem 1 beside real runs, and the runs that it does not cover."""

from __future__ import annotations

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.experiment.experiment import Experiment
from paota.studies.bound import analyse

PRINTED = {"name": "paota", "power": {"method": "staleness", "cap": "paper"}}
SMALL = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [20, 30]},
    "training": {"learning_rate": 0.01},
    "algorithms": [{"name": "paota"}],
}


def test_analysis_of_a_run_is_consistent():
    made = analyse(Experiment.from_dict(SMALL), probes=1, epochs=3, polish=5)
    table = made.table()
    assert list(table["round"]) == [0, 1, 2, 3, 4]
    for form in ("printed", "corrected", "dependent"):
        assert table[f"{form}_bound"][0] == pytest.approx(made.gap[0])
    # kappa and chi by hand.
    devices = made.record.trajectory.devices
    weights = [devices["weight"][devices["round"] == r] for r in np.unique(devices["round"])]
    assert made.system.weight_peak == pytest.approx(max(len(w) * w.max() for w in weights))
    # (d) and (e) by hand from what the run logged.
    logged = made.record.trajectory.metrics
    k, c, s = 8, made.constants, made.system
    assert table["corrected_d"][1:] == pytest.approx(c.smoothness * c.epsilon**2 * k * logged["weight_square_sum"][1:])
    assert table["corrected_e"][1:] == pytest.approx(
        2 * c.smoothness * s.parameters * 20e6 * 10 ** ((-174 - 30) / 10) / logged["amplitude_sum"][1:] ** 2
    )
    assert "Theorem 1" in made.sentences()[0]
    assert made.form == "dependent"
    assert any("depend on the updates that they weigh" in sentence for sentence in made.sentences())


def test_no_gap_is_negative_where_the_run_goes_lower_than_the_search():
    """A long run on little data reaches values below those of the search."""
    table = {**SMALL, "rounds": 12, "model": {"name": "softmax"}, "training": {"learning_rate": 0.5}}
    made = analyse(Experiment.from_dict(table), probes=1, epochs=1, polish=1)
    assert made.gap.min() == 0
    assert made.optimum.value == made.path.values.min()
    assert made.optimum.gradient_norm > 0


def test_an_update_is_not_pulled_back_by_staleness():
    table = {**SMALL, "training": {"learning_rate": 0.001}, "model": {"name": "softmax"}}
    said = {}
    for payload in ("model", "update"):
        changed = {**table, "algorithms": [PRINTED | {"payload": payload}]}
        made = analyse(Experiment.from_dict(changed), probes=1, epochs=1, polish=1)
        assert made.constants.delta > 0.001 * 5 / 2
        assert made.form == "corrected"
        said[payload] = " ".join(made.sentences())
    assert "staleness alone forbids it" in said["model"]
    assert "staleness alone" not in said["update"]
    assert "It promises descent" in said["update"]
    assert "delta and (d) are absent" in said["update"]


@pytest.mark.parametrize("name", ["fedasync", "fedbuff"])
def test_weights_that_do_not_sum_to_one_are_refused(name):
    with pytest.raises(UserError, match="weights that sum to 1"):
        analyse(Experiment.from_dict({**SMALL, "algorithms": [{"name": name}]}))


@pytest.mark.parametrize("name", ["majority-vote", "paota-plus"])
def test_rules_that_take_no_weighted_mean_are_refused(name):
    """The amplitudes of majority-vote are those of a mean, but the server steps by the sign of the sum."""
    with pytest.raises(UserError, match="takes none"):
        analyse(Experiment.from_dict({**SMALL, "algorithms": [{"name": name}]}))
