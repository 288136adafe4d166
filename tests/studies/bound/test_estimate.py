"""The estimators against paths whose constants are known, and the landscape against finite differences."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paota import simulate
from paota.base.errors import UserError
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.studies.bound import Landscape, analyse, minimise, record
from paota.studies.bound.estimate import Path, constants_of, device_spread, drift, pl_constant, secant_smoothness

PRINTED = {"name": "paota", "power": {"method": "staleness", "cap": "paper"}}
SMALL = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [20, 30]},
    "training": {"learning_rate": 0.01},
    "algorithms": [{"name": "paota"}],
}


@pytest.fixture(scope="module")
def landscape():
    experiment = Experiment.from_dict({**SMALL, "model": {"name": "softmax"}})
    plan = simulate.prepare(experiment)
    return Landscape(plan.dataset, plan.shards[0], experiment.model)


def descent_path(h, eta, steps):
    w = [np.ones(len(h))]
    for _ in range(steps):
        w.append(w[-1] - eta * h * w[-1])
    models = np.array(w)
    return Path(models=models, values=0.5 * models**2 @ h, gradients=models * h)


def test_constants_of_a_known_descent():
    path = descent_path(np.array([2.0]), 0.1, 5)  # w^r = 0.8^r
    assert secant_smoothness(path) == pytest.approx(2.0)
    delta, epsilon, vartheta = drift(path, 2)
    # n = 2: (w^(r-2) - w^r) w^r 2 / (2 w^r)^2 = (1/0.64 - 1)/2; |1 - 0.64|; 1/0.64
    assert delta == pytest.approx((1 / 0.64 - 1) / 2)
    assert epsilon == pytest.approx(0.36)
    assert vartheta == pytest.approx(1 / 0.64)
    assert pl_constant(path, 0.0) == pytest.approx(2.0)  # |2w|^2 / (2 w^2) = 2
    assert drift(path, 0) == (0.0, 0.0, 1.0)  # nobody is ever late


def test_gradient_and_curvature_against_differences(landscape):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(landscape.num_parameters) * 0.1
    v = rng.standard_normal(landscape.num_parameters)
    v /= np.linalg.norm(v)
    _, gradient = landscape.value_and_gradient(w)
    step = 1e-2
    up, down = (landscape.value_and_gradient(w + sign * step * v) for sign in (1, -1))
    assert (up[0] - down[0]) / (2 * step) == pytest.approx(gradient @ v, rel=2e-2, abs=1e-4)
    # No direction may bend more than the largest eigenvalue.
    along = abs((up[1] - down[1]) @ v) / (2 * step)
    assert along <= landscape.largest_curvature(w, iterations=30) * 1.01


def test_device_gradients_add_up_to_the_gradient_of_the_objective(landscape):
    w = np.random.default_rng(1).standard_normal(landscape.num_parameters) * 0.1
    gradients, squares = landscape.device_moments(w)
    share = landscape.shards.sizes / landscape.shards.sizes.sum()
    assert share @ gradients == pytest.approx(landscape.value_and_gradient(w)[1], abs=1e-5)  # Eq. sys_FL_task
    assert (squares >= np.sum(gradients**2, axis=1) - 1e-6).all()  # a variance is not negative
    zeta, variance = device_spread(landscape, [w])
    assert zeta >= np.max(np.sum((gradients - share @ gradients) ** 2, axis=1)) * (1 - 1e-9)
    assert variance > 0


def test_the_optimum_is_below_every_start_and_nearly_flat(landscape):
    found = minimise(landscape, seed=0, epochs=5, polish=60)
    start, gradient = landscape.value_and_gradient(landscape.initial_model(0))
    assert found.value < 0.5 * start
    assert found.gradient_norm < 0.1 * np.linalg.norm(gradient)
    assert found.last_gain >= 0


def test_recording_does_not_change_the_run():
    experiment = Experiment.from_dict(SMALL)
    kept = record(experiment)
    plain = simulate.execute(simulate.prepare(experiment)).trajectories[0]
    assert kept.models.shape == (5, len(plain.model))
    np.testing.assert_array_equal(kept.models[-1], plain.model)
    landscape = Landscape(kept.plan.dataset, kept.plan.shards[0], experiment.model)
    values = [landscape.value_and_gradient(w)[0] for w in kept.models]
    assert values == pytest.approx(plain.metrics["train_loss"], rel=1e-4)  # the engine's F is this F


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
    """Before, F* was what the search found, and a long run on little data fell below it."""
    table = {**SMALL, "rounds": 12, "model": {"name": "softmax"}, "training": {"learning_rate": 0.5}}
    made = analyse(Experiment.from_dict(table), probes=1, epochs=1, polish=1)
    assert made.gap.min() == 0
    assert made.optimum.value == made.path.values.min()
    assert made.optimum.gradient_norm > 0


def test_every_device_counts_for_the_smoothness(landscape):
    """The mean of the F_k is smoother than the roughest of them."""
    w = np.zeros(landscape.num_parameters)
    path = Path(models=w[None], values=np.zeros(1), gradients=w[None])
    each = [landscape.largest_curvature(w, device=k) for k in range(landscape.shards.num_devices)]
    assert max(each) > landscape.largest_curvature(w)
    found = constants_of(
        landscape, path, minimise(landscape, seed=0, epochs=1, polish=1), max_staleness=0, batch_size=1
    )
    assert found.smoothness == max(each)


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
    """Before, majority-vote passed: its amplitudes are those of a mean, but the server steps by the sign of the sum."""
    with pytest.raises(UserError, match="takes none"):
        analyse(Experiment.from_dict({**SMALL, "algorithms": [{"name": name}]}))


def test_bound_command(tmp_path, capsys):
    settings = ["--set", "data.dataset=synthetic", "--set", "data.devices=8", "--set", "data.sizes=[20]"]
    settings += ["--set", "rounds=2"]  # before, 30 rounds were run whatever was said
    assert main(["bound", *settings, "--probes", "1", "--out", str(tmp_path / "b"), "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["system"]["devices"] == 8
    assert len(made["rounds"]["gap"]) == 3
    assert (tmp_path / "b" / "bound.csv").read_text().startswith("round,gap,")
    for wrong in (["--label", "nobody"], [str(tmp_path)], ["--rounds", "0"]):
        assert main(["bound", *wrong]) == 2
        assert capsys.readouterr().err.startswith("paota: ")


def test_bound_command_says_which_form_counts_and_what_convexity_gives(tmp_path, capsys):
    settings = [
        "bound", "--rounds", "3", "--probes", "1", "--set", "data.dataset=synthetic", "--set", "data.devices=8",
        "--set", "data.sizes=[20]", "--set", "model.name=softmax",
        "--set", 'algorithms=[{name="paota",payload="update"},{name="fedasync"}]',
    ]  # fmt: skip
    assert main([*settings]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "…" not in said  # 80 columns are enough
    for words in ("bound, lengths only", "terms of the dependent G", "depend on the updates that they weigh",
                  "F is convex: the mean gap"):  # fmt: skip
        assert words in said
    assert "staleness alone" not in said
    assert main([*settings, "--label", "fedasync"]) == 2
    assert "weights that sum to 1" in capsys.readouterr().err
