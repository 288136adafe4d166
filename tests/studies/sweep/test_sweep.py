"""Whole sweeps: parallel equals serial, finished points survive a kill, and a bad point affects no other."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.made_sweeps import sweep_of, trajectory

import paota
from paota.base import files
from paota.base.errors import UserError
from paota.cli import main
from paota.experiment.experiment import Experiment
from paota.studies.pool import run_tasks
from paota.studies.study import RunJob
from paota.studies.sweep.grid import Axis, make_points, unused_periods
from paota.studies.sweep.outcome import HeldEqual
from paota.studies.sweep.sweep import SWEEPS, common_duration_s, compute, gather, prepare, sweep

OVER = {"training.learning_rate": [0.05, 0.1], "timing.period_s": [6.0, 8.0]}
PERIODS = Axis("timing.period_s", (2, 4, 8))
AXES = tuple(Axis(key, tuple(values)) for key, values in OVER.items())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished sweep, computed in this process."""
    from .conftest import TABLE

    out = tmp_path_factory.mktemp("whole") / "sweep"
    return sweep(TABLE, over=OVER, seeds=2, best="final_accuracy", jobs=1, out=out)


def content(folder: Path) -> dict[str, bytes]:
    """Everything that must not depend on how a sweep was computed."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("metrics.csv")} | {
        "sweep.csv": (folder / "sweep.csv").read_bytes()
    }


def test_a_point_is_the_experiment_it_names(whole, base):
    """Point 3 is learning rate 0.1 and dT = 8 s, with the bits that `paota.run` gives for the time that all points get."""
    changes = {"training.learning_rate": 0.1, "timing.period_s": 8.0, "duration_s": whole.equal.duration_s}
    alone = paota.run(base.override(changes), seeds=2)
    stored = paota.load(whole.folder / "points" / "003")
    np.testing.assert_array_equal(alone.array("local-sgd", "test_accuracy"), stored.array("local-sgd", "test_accuracy"))
    row = whole.rows[3]
    assert row.values == (0.1, 8.0)
    assert row.scores["final_accuracy"].median == np.median(alone.array("local-sgd", "test_accuracy")[:, -1])


def test_the_folder_is_complete(whole):
    names = {file.name for file in whole.folder.iterdir()}
    assert names == {"sweep.json", "sweep.csv", "report.html", "points"}
    assert {file.name for file in (whole.folder / "points").iterdir()} == {"000", "001", "002", "003"}
    lines = (whole.folder / "sweep.csv").read_text().splitlines()
    assert len(lines) == 5
    assert lines[0].startswith("point,label,training.learning_rate,timing.period_s,seeds,diverged,final_accuracy")


def test_a_sweep_as_a_data_frame(whole):
    points, seeds = whole.to_pandas(), whole.to_pandas(by_seed=True)
    assert points["training.learning_rate"].dtype == float
    assert points["final_accuracy"].dtype == float
    assert points["seeds"].dtype == int
    assert seeds.columns.tolist()[:5] == ["point", "label", *OVER, "seed"]
    assert seeds["seed"].tolist() == [0, 1] * 4
    means = seeds.groupby("point")["final_accuracy"].median()
    assert means.tolist() == points["final_accuracy"].tolist()


def test_without_a_folder_nothing_is_left(table, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = sweep(table, over={"training.learning_rate": [0.1]}, jobs=1)
    assert made.best_by.text == "seconds_to:0.3"  # the highest target of the experiment
    assert made.folder is None
    assert list(tmp_path.iterdir()) == []


def test_floats_share_one_compilation(base, tmp_path):
    from paota import engine

    engine.forget_programs()
    spec = prepare(base, [Axis("training.learning_rate", (0.01, 0.02, 0.03))])
    path = SWEEPS.begin(tmp_path / "s", spec)
    assert [file.name for file in path.iterdir()] == ["sweep.json"]  # a sweep killed here can be resumed
    assert compute(path, spec, jobs=1) == {}
    assert engine.known_programs() == 1


def test_processes_give_the_same_bytes_and_a_dead_worker_costs_nothing(base, whole, tmp_path):
    """A worker is killed in the middle: its point is computed by another one."""
    spec = prepare(base, AXES, seeds=2, best="final_accuracy")
    path = SWEEPS.begin(tmp_path / "s", spec)
    killed = []

    def watch(update):
        if not killed and update.kind == "done":
            victim = next(child for child in multiprocessing.active_children() if child.is_alive())
            os.kill(victim.pid, signal.SIGKILL)
            killed.append(victim.pid)

    assert compute(path, spec, jobs=2, watch=watch) == {}
    assert killed
    gather(path, spec, {})
    assert content(path) == content(whole.folder)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(base, tmp_path):
    """Two workers, four tasks, of which the first two kill their process: the others are computed by new ones."""
    plugin = tmp_path / "deadly.py"
    plugin.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    tasks = [
        RunJob(
            key=name, seeds=1, folder=str(tmp_path / name),
            experiment={**base.to_dict(), "plugins": [str(plugin)] if name in "ab" else []},
        )
        for name in "abcd"
    ]  # fmt: skip
    ends = {}
    failed = run_tasks(tasks, workers=2, watch=lambda update: ends.update({update.key: update.kind}))
    assert ends == {"a": "failed", "b": "failed", "c": "done", "d": "done"}
    assert set(failed) == {"a", "b"}
    assert all("SIGKILL" in reason for reason in failed.values())
    assert multiprocessing.active_children() == []


def test_a_point_that_cannot_run_is_reported_and_the_others_finish(base, tmp_path, capsys):
    """A period of 1000 s with an end after 100 s gives no aggregation, which only the timeline shows."""
    experiment = tmp_path / "e.toml"
    table = {**base.override({"duration_s": 100.0}).to_dict(), "algorithms": [{"name": "paota"}]}
    experiment.write_text(files.to_toml(table))
    out = tmp_path / "out"
    over = ["--over", "timing.period_s=8,1000", "--best", "final_accuracy"]
    assert main(["sweep", str(experiment), *over, "--jobs", "1", "--out", str(out), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [row["timing.period_s"] for row in found["rows"]] == [8]
    assert [(item["values"], "no aggregation" in item["why"]) for item in found["failed"]] == [([1000], True)]
    assert found["best"] == {"paota": {"timing.period_s": 8}}
    assert "no aggregation" in (out / "report.html").read_text()


def test_a_sweep_in_which_every_point_fails_raises(base):
    def fail(round):
        raise ValueError("torn")

    with pytest.raises(UserError, match=r"every point of the sweep failed: .*ValueError: torn"):
        sweep(base, over={"timing.period_s": [6, 8]}, jobs=1, callbacks=[fail])


def test_what_no_file_can_hold_is_refused_as_a_value(base):
    with pytest.raises(UserError, match=r"over\['model.name'\] holds function"):
        sweep(base, over={"model.name": [sweep]})


def test_divergence_is_a_result(table):
    """A learning rate of 1e30 leaves the numbers that a computer can hold."""
    made = sweep(table, over={"training.learning_rate": [1e30, 0.1]}, best="final_accuracy", jobs=1)
    assert made.failed == {}
    assert [row.diverged for row in made.rows] == [1, 0]
    assert made.best() == {"training.learning_rate": 0.1}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"over": {**OVER, "timing.period_s": [6.0, 9.0]}}, r"over.timing.period_s\[1\] was 8.0 and is 9.0"),
        ({"seeds": 3}, "seeds was 2 and is 3"),
        ({"experiment": {"rounds": 7}}, "experiment.rounds was 6 and is 7"),
    ],
)
def test_another_sweep_in_the_same_folder_is_refused(whole, table, changes, says):
    arguments = {"over": OVER, "seeds": 2, **{k: v for k, v in changes.items() if k != "experiment"}}
    with pytest.raises(UserError, match=says):
        sweep({**table, **changes.get("experiment", {})}, **arguments, jobs=1, out=whole.folder)


def test_a_point_of_another_sweep_is_refused(base, whole, tmp_path):
    spec = prepare(base, [Axis("training.learning_rate", (0.3,))], seeds=2)
    path = SWEEPS.begin(tmp_path / "s", spec)
    shutil.copytree(whole.folder / "points" / "000", path / "points" / "000")
    with pytest.raises(UserError, match=r"experiment.duration_s was [\d.]+ and is absent; remove it"):
        compute(path, spec, jobs=1)


def test_a_finished_sweep_is_shown_again_and_may_be_judged_by_another_metric(whole, capsys):
    before = content(whole.folder)
    stamp = (whole.folder / "points" / "000" / "run.json").stat().st_mtime_ns
    assert main(["sweep", "--resume", str(whole.folder), "--best", "rounds_to:0.3", "--quiet"]) == 0
    assert "Which training.learning_rate and timing.period_s should I use?" in capsys.readouterr().out
    assert main(["sweep", "--resume", str(whole.folder), "--quiet"]) == 0
    assert content(whole.folder) == before
    assert (whole.folder / "points" / "000" / "run.json").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("axis", "values"), [("data.dataset", ["synthetic", "x\x1b[2J.npz"]), ("training.\x1b[2Jrate", [0.1, 0.2])]
)
def test_control_characters_in_the_file_of_a_sweep_reach_no_terminal(whole, tmp_path, axis, values, capfd):
    """A sweep's folder may come from another person, and so may the texts in it."""
    asked = json.loads((whole.folder / "sweep.json").read_text())
    asked |= {"axes": [axis], "over": {axis: values}, "equal": "rounds"}
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(asked))
    code = main(["sweep", "--resume", str(tmp_path), "--quiet", "--jobs", "1"])
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
    assert (code, out) == (2, "")
    assert err.startswith(f"paota: '{file}' holds a text with control characters, ")


def start(tmp_path: Path, table, out: Path, *more: str) -> subprocess.Popen:
    experiment = tmp_path / "e.toml"
    experiment.write_text(files.to_toml(Experiment.from_dict(table).to_dict()))
    over = [word for key, values in OVER.items() for word in ("--over", f"{key}={','.join(map(str, values))}")]
    command = [sys.executable, "-m", "paota", "sweep", str(experiment), *over, "--seeds", "2"]
    return subprocess.Popen(
        [*command, "--best", "final_accuracy", "--out", str(out), "--quiet", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_a_point(process: subprocess.Popen, out: Path, sign: str = "points/*/run.json") -> None:
    while not list(out.glob(sign)):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("how", "code"), [(signal.SIGKILL, -9), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_killed_or_interrupted_and_resumed(table, whole, tmp_path, how, code, capsys):
    """The parent dies: no worker outlives it, and the resumed sweep has the bytes of an uninterrupted one."""
    out = tmp_path / "out"
    process = start(tmp_path, table, out, "--jobs", "2")
    # A busy machine may look up only when everything is done, and then there is nothing to interrupt: be early.
    wait_for_a_point(process, out, "points/*" if how == signal.SIGINT else "points/*/run.json")
    os.kill(process.pid, how)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == code
    if how == signal.SIGINT:
        assert "Traceback" not in errors
        assert f"paota sweep --resume {out}" in errors
    deadline = time.monotonic() + 30
    while alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(process.pid)
    assert main(["sweep", "--resume", str(out), "--jobs", "1", "--quiet"]) == 0
    assert content(out) == content(whole.folder)


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
        (Axis("rounds", (5, 10)), {}, None),  # the axis sets the end
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
    found = {c.label: unused_periods(c, [PERIODS]) for c in paota_and(base, "local-sgd", "fedasync").algorithms}
    assert found == {"paota": (), "local-sgd": ("timing.period_s",), "fedasync": ("timing.period_s",)}
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
