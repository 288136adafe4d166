"""The estimate from the latencies alone: worked out by hand, and beside exact timelines."""

import math

import numpy as np
import pytest

from paota.experiment.experiment import Experiment
from paota.simulate import prepare, run
from paota.studies.plan.candidates import Law, from_timeline, law_of, mean_amplitude, noise_std, simulated

UNIFORM = Law(
    np.zeros(1000, int), np.linspace(5, 15, 1000), np.ones(100)
)  # one law for all: a hundred devices like the first


def test_the_paper_by_hand():
    """U(5, 15) at dT = 8: m is 1 with .3 and 2 with .7, so E[m] = 1.7, 58.8 of 100 are ready and s is .7 on average."""
    pace = UNIFORM.periodic(8.0)
    assert pace.ready == pytest.approx(100 / 1.7, rel=2e-3)
    assert pace.staleness == pytest.approx(0.7, abs=5e-3)
    assert pace.idle == pytest.approx(1 - 10 / (1.7 * 8), abs=2e-3)
    assert UNIFORM.periodic(6.0).ready == pytest.approx(45.5, rel=2e-3)  # .1, .6, .3
    assert UNIFORM.mean_staleness_factor(8.0, 3.0) == pytest.approx(0.3 + 0.7 * 0.75, abs=2e-3)


def test_devices_that_differ_are_not_mixed():
    """One takes 1 period, the other 4: 1.25 ready on average, and their updates are 0 and 3 versions old."""
    law = Law(np.array([0, 1, 1]), np.array([7.0, 30.0, 32.0]), np.ones(2))
    pace = law.periodic(8.0)
    assert pace.ready == pytest.approx(1.25)
    assert pace.staleness == pytest.approx((1 * 0 + 0.25 * 3) / 1.25)


@pytest.mark.parametrize(
    "timing",
    [
        {},
        {"latency": "lognormal", "spread": 0.8},
        {"latency": "per-device"},
        {"latency": "two-speeds", "period_s": 5.0},
    ],
)
def test_beside_exact_timelines(timing):
    """The renewal argument and the timeline's own mean, for a hundred devices and a long time."""
    table = {"duration_s": 2000.0, "timing": timing, "algorithms": [{"name": "paota"}]}
    made = prepare(Experiment.from_dict({**table, "data": {"dataset": "synthetic", "devices": 100, "sizes": [10]}}))
    (timeline,) = made.timelines.values()
    exact = from_timeline(timeline)
    said = Law.of(timeline, 100).periodic(made.experiment.timing.period_s)
    assert said.ready == pytest.approx(exact.ready, rel=0.02)
    assert said.staleness == pytest.approx(exact.staleness, rel=0.04, abs=0.02)
    assert said.idle == pytest.approx(exact.idle, abs=0.02)


def test_devices_that_come_and_go_count_by_the_time_that_they_are_there(tmp_path):
    """Half of a hundred devices leave after a quarter of the time: 62.5 are there on average, 0.588 of them ready."""
    rows = [f"d{k},0,1\n" + (f"d{k},500,0\n" if k % 2 else "") for k in range(100)]
    (tmp_path / "fleet.csv").write_text("device,time_s,available\n" + "".join(rows))
    table = {"duration_s": 2000.0, "algorithms": [{"name": "paota"}], "timing": {"fleet_file": "fleet.csv"}}
    table["data"] = {"dataset": "synthetic", "devices": 100, "sizes": [10]}
    made = prepare(Experiment.from_dict(table, base=tmp_path))
    (timeline,) = made.timelines.values()
    law = law_of(made.experiment, timeline)
    said = law.periodic(8.0)
    assert law.mean_s == pytest.approx(10, rel=0.02)
    assert said.ready == pytest.approx(0.625 * 58.8, rel=0.03)
    assert said.ready == pytest.approx(timeline.ready.mean(), rel=0.03)
    assert said.staleness == pytest.approx(timeline.staleness.mean(), rel=0.04)


def test_noise_beside_a_simulation(table):
    """PAOTA's noise as printed: sqrt(sigma^2 / 2) over the sum of the amplitudes."""
    printed = {"algorithms": [{"name": "paota"}], "model": {"hidden": [4]}, "power": {"cap": "paper"}}
    experiment = Experiment.from_dict({**table, **printed})
    made = prepare(experiment)
    (timeline,) = made.timelines.values()
    law = Law.of(timeline, 8)
    pace = law.periodic(8.0)
    seen = simulated(run(experiment).trajectories)

    def noise(changed):
        config = changed.algorithms[0]
        return noise_std(config, law, pace, mean_amplitude(made, config))

    said = noise(experiment)
    assert said == pytest.approx(seen.noise_std, rel=0.5)
    assert seen.ready == pytest.approx(pace.ready, rel=0.25)
    quieter = experiment.override({"air.n0_dbm_per_hz": -194.0})
    assert noise(quieter) == pytest.approx(said / 10)
    physical = experiment.override({"power.cap": "physical"})
    assert 0 < noise(physical) < math.inf
    unknown = physical.override({"algorithms.paota.payload": "update"})
    assert math.isnan(noise(unknown))
