"""The summary, by hand."""

import math
import re
import tomllib

import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota.base import files
from paota.base.errors import UserError
from paota.experiment.experiment import Experiment
from paota.results.result import Result, Trajectory
from paota.simulate import prepare


def trajectory(label, seed, accuracy, step_s, **extra):
    accuracy = np.array(accuracy)
    n = len(accuracy)
    metrics = {
        "round": np.arange(n),
        "time_s": step_s * np.arange(n),
        "ready": np.ones(n, int),
        "test_accuracy": accuracy,
        "test_loss": 1 - accuracy,
        "train_loss": 1 - accuracy,
        **extra,
    }
    devices = {"round": np.arange(n), "device": np.zeros(n, int)}
    return Trajectory(
        label=label, algorithm="paota", seed=seed, metrics=metrics, devices=devices, model=np.zeros(3), compute_s=2.0
    )


@pytest.fixture
def result():
    return Result(
        experiment=Experiment.from_dict({"targets": [0.5, 0.9]}),
        trajectories=[
            trajectory("a", 0, [0.1, 0.4, 0.6, 0.8], 8.0),
            trajectory("a", 1, [0.1, 0.5, 0.5, 0.95], 8.0, lost=np.array([0, 1, 0, 2])),
            trajectory("a", 2, [0.1, np.nan, 0.3, 0.7], 8.0),
            trajectory("b", 0, [0.1, 0.55, 0.9], 15.0),
        ],
    )


def test_summary_by_hand(result):
    summary = result.summary
    assert summary["equal_time_s"] == 24.0
    assert summary["equal_rounds"] == 2
    a, b = summary["algorithms"]["a"], summary["algorithms"]["b"]
    assert a["rounds_to"]["0.5"]["values"] == [2, 1, 3]
    assert a["seconds_to"]["0.5"] == {"median": 16.0, "q25": 12.0, "q75": 20.0, "reached": 3, "values": [16, 8, 24]}
    assert a["rounds_to"]["0.9"]["values"] == [math.inf, 3, math.inf]
    assert a["rounds_to"]["0.9"]["reached"] == 1
    assert a["rounds_to"]["0.9"]["median"] == math.inf
    assert a["final_accuracy"]["mean"] == pytest.approx((0.8 + 0.95 + 0.7) / 3)
    assert a["accuracy_at_equal_rounds"]["values"] == [0.6, 0.5, 0.3]
    assert b["accuracy_at_equal_time"]["values"] == [0.55]
    assert a["rounds_per_second"] == pytest.approx(9 / 6)
    assert files.jsonable(summary)["algorithms"]["a"]["rounds_to"]["0.9"]["median"] is None


def test_time_to(result):
    assert result.time_to(0.5) == {"a": 16.0, "b": 15.0}
    assert result.time_to(0.9, "a") == math.inf


def test_time_to_something_that_is_no_accuracy(result):
    with pytest.raises(UserError, match=r"did you mean time_to\(0.8\)"):
        result.time_to(80)
    with pytest.raises(UserError, match="a number, not"):
        result.time_to("0.8")


def test_what_belongs_to_a_result_is_shown_in_a_line():
    """A notebook that shows a data set or an experiment shows no arrays."""
    experiment = Experiment.from_dict({"data": {"dataset": "synthetic", "devices": 6, "sizes": [30]}})
    planned = prepare(experiment)
    assert repr(experiment) == "<paota.Experiment 'paper': paota, local-sgd, cotaf with 6 devices on synthetic>"
    assert repr(planned.shards[0]) == "<paota.Shards of 6 devices with 30 to 30 samples>"
    assert re.fullmatch(
        r"<paota.Dataset 'synthetic': [\d,]+ training and [\d,]+ test samples of [\dx ]+ \w+, 10 classes>",
        repr(planned.dataset),
    )


def test_arrays(result):
    assert result.array("a", "test_accuracy").shape == (3, 4)
    assert np.isnan(result.array("a", "test_accuracy")[2, 1])


def test_a_column_of_only_some(result):
    lost = result.metrics["lost"]
    assert np.isnan(lost[:4]).all()
    assert lost[4:8].tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize(
    "name", ["plain", 'quo"te', "back\\slash", "new\nline", "🚀", "\x7f\x00", "</script>", "\ud800"]
)
def test_any_name_survives_toml(name):
    text = files.to_toml({"name": name, "table": {name: 1.5}, "list": [{"x": [1, 2]}, {"x": [True]}]})
    back = tomllib.loads(text)
    clean = name.encode("utf-8", "replace").decode()
    assert back == {"name": clean, "table": {clean: 1.5}, "list": [{"x": [1, 2]}, {"x": [True]}]}


def test_atomic_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "x.txt"
    files.write_text(target, "old")

    def half_a_write():
        with files.atomic(target) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half_a_write()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x.txt"]


def test_a_loaded_run_predicts_when_its_objects_are_given_again(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)).astype(np.float32), rng.integers(0, 2, 60)
    given = paota.Dataset.from_arrays(name="given again", x_train=x, y_train=y, x_test=x, y_test=y)
    model = (lambda key, *_: jnp.zeros((3, 2)), lambda w, x: x @ w)
    table = {"rounds": 2, "model": model, "data": {"dataset": given, "devices": 3, "partition": "iid"}}
    result = paota.run({**table, "algorithms": [{"name": "local-sgd"}]})
    result.save(tmp_path / "r", report=False)
    again = paota.load(tmp_path / "r", model=model, dataset=given)
    np.testing.assert_array_equal(again.predict(x), result.predict(x))
    with pytest.raises(paota.UserError, match="stands for a model that was given in Python"):
        paota.load(tmp_path / "r", dataset=given).predict(x)
    other = (lambda key, *_: jnp.zeros((4, 2)), lambda w, x: x @ w[:3])
    with pytest.raises(paota.UserError, match="has 8 parameters, and the run's has 6"):
        paota.load(tmp_path / "r", model=other, dataset=given).predict(x)
