"""Fair by construction: equal time where rounds differ in length, no advice on what is idle."""

import json

import pytest
from helpers.made_sweeps import sweep_of, trajectory

import paota
from paota.base import files
from paota.base.errors import UserError
from paota.cli import main
from paota.studies.sweep.fair_comparison import HeldEqual, common_duration_s, without_period
from paota.studies.sweep.grid import Axis, make_points
from paota.studies.sweep.sweep import sweep

PERIODS = Axis("timing.period_s", (2, 4, 8))


def test_points_with_longer_rounds_get_no_more_time(table, tmp_path, capsys):
    """Twenty rounds of 2 s against twenty of 8 s: all get 160 s, and the command, the page and the JSON say so."""
    file = tmp_path / "e.toml"
    file.write_text(files.to_toml({**table, "rounds": 20, "algorithms": [{"name": "paota"}]}))
    command = ["sweep", str(file), "--over", "timing.period_s=2,4,8", "--best", "final_accuracy", "--jobs", "1"]
    assert main([*command, "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ends = [paota.load(tmp_path / "out" / "points" / f"{i:03d}").metrics["time_s"].max() for i in range(3)]
    assert ends == [160, 160, 160]
    assert found["equal"]["what"] == "time"
    assert found["equal"]["duration_s"] == 160
    assert "160 simulated seconds" in found["equal"]["sentence"]
    assert found["equal"]["sentence"] in (tmp_path / "out" / "report.html").read_text()
    assert main(["sweep", "--resume", str(tmp_path / "out"), "--quiet"]) == 0
    assert "all points get 160 simulated seconds" in " ".join(capsys.readouterr().out.split())


def paota_and(base, *others):
    entries = [{"name": "paota"}, *({"name": name} for name in others)]
    return base.override({"algorithms": entries})


@pytest.mark.parametrize(
    ("axis", "changes", "duration_s"),
    [
        (PERIODS, {}, 48),
        (Axis("timing.high_s", (6, 15)), {}, None),  # PAOTA's rounds stay 8 s
        (Axis("training.learning_rate", (0.1, 0.2)), {}, None),
        (Axis("rounds", (5, 10)), {}, None),  # the end is what is asked about
        (PERIODS, {"duration_s": 100.0}, None),  # equal already
    ],
)
def test_the_timelines_decide(base, axis, changes, duration_s):
    points = make_points(paota_and(base).override(changes), [axis])
    assert common_duration_s(points, [axis]) == duration_s


def test_a_setting_of_one_algorithm_may_change_its_rounds(base):
    """The number of participants: the slowest of six is slower than the slowest of two."""
    axis = Axis("algorithms.local-sgd.participants", (2, 6))
    points = make_points(base, [axis])
    longest = paota.run(points[1].experiment).metrics["time_s"].max()
    assert common_duration_s(points, [axis]) == longest


def test_rounds_can_be_held_equal(table):
    made = sweep(
        {**table, "algorithms": [{"name": "paota"}]}, over={"timing.period_s": [4, 8]}, equal="rounds",
        best="rounds_to:0.3", jobs=1,
    )  # fmt: skip
    assert made.equal.duration_s is None
    assert made.equal.sentence == ""


def test_no_advice_on_a_setting_that_makes_no_difference(base):
    """`one` has the same bits everywhere, `two` depends on the second axis alone."""
    runs = [
        [trajectory([0.1, 0.5], label="one"), trajectory([0.1, 0.5 + 0.1 * (i % 2)], label="two")] for i in range(4)
    ]
    made, _ = sweep_of(base, {"power.omega": [1, 3], "power.epsilon2": [1, 2]}, runs, "final_accuracy")
    assert made.best("one") == {}
    assert made.best("two") == {"power.epsilon2": 2}
    one, two = made.sentences
    assert one.startswith("one: power.omega and power.epsilon2 make no difference")
    assert two.startswith("power.epsilon2 = 2 for two:")
    assert repr(made).endswith("best two: power.epsilon2 = 2>")


def test_methods_without_a_period_are_known_by_their_schemes(base):
    """dT moves Local SGD only through the fairness rule, and FedAsync not at all."""
    found = without_period(paota_and(base, "local-sgd", "fedasync").override({"duration_s": 60.0}), [PERIODS])
    assert found == {"local-sgd": ("timing.period_s",), "fedasync": ("timing.period_s",)}
    runs = [[trajectory([0.1, a], label="paota"), trajectory([0.1, a], label="local-sgd")] for a in (0.5, 0.6, 0.55)]
    made, _ = sweep_of(base, {"timing.period_s": [2, 4, 8]}, runs, "final_accuracy", foreign=found)
    assert made.best("paota") == {"timing.period_s": 4}
    assert made.best("local-sgd") == {}
    assert "local-sgd has no timing.period_s" in made.sentences[1]
    assert "algorithms.local-sgd.participants" in made.sentences[1]


def test_what_is_held_equal_in_a_sentence():
    assert HeldEqual(what="rounds").sentence == ""
    assert "all points get 160 simulated seconds" in HeldEqual(duration_s=160.0).sentence


@pytest.mark.parametrize("what", ["joules", "airtime", "updates"])
def test_an_unknown_equality_is_refused(table, what):
    with pytest.raises(UserError, match=f"unknown value of --equal '{what}'"):
        sweep(table, over={"timing.period_s": [4, 8]}, equal=what, jobs=1)
