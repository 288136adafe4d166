"""The grid: what a person may type, and what is refused before anything is written."""

import math
import sys

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.cli import main
from paota.results.measures import Spread
from paota.studies.sweep.grid import Axis, make_axes, make_points, parse_axis
from paota.studies.sweep.metrics import parse_metric

MANY = ",".join(map(str, range(1, 401)))
SMALL = ["--preset", "quick", "--set", "rounds=3"]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("timing.period_s=4,6.5,8", (4, 6.5, 8)),
        ("air.n0_dbm_per_hz=-174,-74", (-174, -74)),
        ("power.method=exact,uniform", ("exact", "uniform")),
        ('power.method="exact","uniform"', ("exact", "uniform")),
        ("model.hidden=[10, 10],[20]", ([10, 10], [20])),
        ("training.learning_rate=1e-2", (0.01,)),
        ("timing.period_s=4:12:2", (4, 6, 8, 10, 12)),
        ("timing.period_s=2,4:9:2.5,20", (2, 4.0, 6.5, 9.0, 20)),
        ("training.learning_rate=0.1:0.3:0.1", (0.1, 0.2, 0.3)),
        ("model.name=mine:build,mlp", ("mine:build", "mlp")),
    ],
)
def test_values_are_toml_or_bare_words(text, values):
    assert parse_axis(text) == Axis(text.partition("=")[0], values)


def test_points_are_all_combinations(base):
    points = make_points(base, [Axis("timing.period_s", (4, 6)), Axis("model.hidden", ([10], [20, 5], [3]))])
    assert [point.values for point in points[:4]] == [(4, [10]), (4, [20, 5]), (4, [3]), (6, [10])]
    assert [point.index for point in points] == list(range(6))
    assert points[4].experiment.timing.period_s == 6
    assert points[4].experiment.model.hidden == (20, 5)


def test_numpy_values_are_welcome(base):
    (axis,) = make_axes({"timing.period_s": np.linspace(4, 8, 3)})
    assert axis.values == (4.0, 6.0, 8.0)
    assert all(type(value) is float for value in axis.values)


@pytest.mark.parametrize("values", ["abc", 5, None, {"a": 1}])
def test_over_wants_lists(values):
    with pytest.raises(UserError, match=r"over\['timing.period_s'\] must be a list"):
        make_axes({"timing.period_s": values})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "needs at least one --over"),
        (["--over", "timing.period=4,6"], "did you mean 'timing.period_s'"),
        (["--over", "timin.period_s=4"], "did you mean 'timing'"),
        (["--over", "timing.period_s"], "needs section.key=value,value"),
        (["--over", "=4"], "needs section.key=value,value"),
        (["--over", "timing.period_s=4:2:1"], "low at most high"),
        (["--over", "timing.period_s=4:8:0"], "a step above 0"),
        (["--over", "timing.period_s=0:1:1e-9"], "more than 100,000"),
        (["--over", "timing.period_s=4,8", "--equal", "tyme"], "did you mean 'time'"),
        (["--over", "timing.period_s="], "names no value"),
        (["--over", "power.method=exact,,uniform"], "an empty value between commas"),
        (["--over", "timing.period_s=4,fast"], "timing.period_s must be a number"),
        (["--over", "timing.period_s=4,-6"], "must be greater than 0, not -6"),
        (["--over", "timing.period_s=4,6,4"], "names 4 twice"),
        (["--over", "timing.period_s=4", "--over", "timing.period_s=6"], "given twice"),
        (["--over", "timing.period_s=4", "--set", "timing.period_s=6"], "by --set and by --over"),
        (["--over", "rounds=4,6", "--over", "duration_s=40,60"], "replace each other"),
        (["--over", "algorithms.other.payload=model"], "unknown algorithm label 'other'"),
        (["--over", "data.dataset=nowhere.npz"], "nowhere.npz"),
        (["--over", "timing.period_s=4", "--best", "fastest"], "unknown metric"),
        (["--over", "timing.period_s=4", "--best", "seconds_to:80"], "at most 1, not 80"),
        (["--over", "timing.period_s=4", "--seeds", "0"], "seeds must be at least 1"),
        (["--over", "timing.period_s=4", "--jobs", "0"], "--jobs must be at least 1"),
        (["--over", "timing.period_s=4", "--resume", "here"], "give it without --out"),
        (["--over", f"seed={MANY}", "--over", f"training.local_steps={MANY}"],
         "more than 100,000"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_before_anything_is_written(arguments, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", *SMALL, "--out", "out", *arguments]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.err.startswith("paota: ")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused(tmp_path, capsys):
    (tmp_path / "precious").write_text("x")
    assert main(["sweep", *SMALL, "--over", "timing.period_s=4", "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["precious"]


def test_resume_needs_a_sweep(tmp_path, capsys):
    assert main(["sweep", "--resume", str(tmp_path)]) == 2
    assert "holds no sweep to resume" in capsys.readouterr().err


def test_ray_must_be_installed(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)  # as good as not installed
    assert main(["sweep", *SMALL, "--over", "timing.period_s=4", "--out", str(tmp_path / "out"), "--ray"]) == 2
    assert "--ray needs Ray: pip install ray" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_middle_half_names_its_unit_once():
    assert parse_metric("seconds_to:0.8").between(Spread((97.0, 97.3, 113.0))) == "97.2 to 105 s"
    assert parse_metric("airtime_s").between(Spread((0.01, 0.01, 0.012))) == "10 to 11 ms on the air"
    assert parse_metric("airtime_s").between(Spread((0.05, 0.05, 0.3))) == "50 ms on the air to 0.175 s on the air"
    assert parse_metric("seconds_to:0.8").between(Spread((90.0, 90.0, math.inf, math.inf))) == "90 s to never"
