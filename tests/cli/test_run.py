"""The command line as users see it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import paota
from paota.cli import main

pytestmark = pytest.mark.bare

TINY = [
    "--set", "rounds=4", "--set", "data.dataset=synthetic", "--set", "data.devices=5", "--set", "data.sizes=[20]",
    "--set", "training.local_steps=1", "--quiet",
]  # fmt: skip


def test_run_leaves_a_whole_folder(tmp_path, capsys):
    out = tmp_path / "mine"
    assert main(["run", *TINY, "--seeds", "2", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "paota" in shown
    assert str(out / "report.html") in shown.replace("\n", "")
    names = {p.name for p in out.iterdir()}
    assert names == {
        "experiment.toml", "run.json", "metrics.csv", "summary.json", "devices.npz", "device_scores.npz", "models.npz",
        "report.html",
    }  # fmt: skip
    header = (out / "metrics.csv").read_text().splitlines()[0].split(",")
    named = ["label", "algorithm", "seed", "round", "time_s", "ready", "test_accuracy", "test_loss", "train_loss"]
    assert set(named) <= set(header)
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["algorithms"]) == {"paota", "local-sgd", "cotaf"}
    for row in summary["algorithms"].values():
        assert row["rounds_per_second"] > 0
        assert set(row["seconds_to"]) == {"0.5", "0.6", "0.7", "0.8"}
    result = paota.load(out)
    assert len(result.trajectories) == 6
    assert main(["report", str(out)]) == 0


def test_a_diverged_run_says_so_with_its_round_and_its_exit_code(tmp_path, capsys):
    wild = ["--set", "training.learning_rate=1e30", "--set", "power.cap=paper"]
    assert main(["run", *TINY, *wild, "--out", str(tmp_path / "wild")]) == 3
    told = capsys.readouterr()
    found = re.findall(r"paota: (\S+) diverged, its model is no longer finite: seed 0 in round (\d+)", told.err)
    lost = [t for t in paota.load(tmp_path / "wild").trajectories if t.diverged_round is not None]
    assert [(name, int(round_)) for name, round_ in found] == [(t.label, t.diverged_round) for t in lost]
    assert found
    assert main(["run", "--resume", str(tmp_path / "wild"), "--json"]) == 3  # also after a resumed run
    assert json.loads(capsys.readouterr().out)["algorithms"]["paota"]["diverged"]


@pytest.mark.parametrize("cap", ["paper", "physical"])
def test_devices_that_exceed_their_power_budget_are_named(cap, tmp_path, capsys):
    """The terminal, the report's headline and its table name them; the default keeps the budget."""
    words = ["run", *(word for word in TINY if word != "--quiet"), "--set", f"power.cap={cap}"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert ("paota exceeds its power budget in" in told) is (cap == "paper")
    assert ("exceeds its power budget in" in page) is (cap == "paper")
    assert ("over the power budget</span>" in page) is (cap == "paper")


def test_json_is_for_machines(tmp_path, capsys):
    assert main(["run", *TINY, "--json", "--out", str(tmp_path / "x")]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["seeds"] == [0]
    assert captured.err == ""


def test_saved_and_loaded_results_agree(tmp_path):
    result = paota.run(
        {"rounds": 3, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}, "algorithms": [{"name": "paota"}]}
    )
    loaded = paota.load(result.save(tmp_path / "x", report=False))
    assert loaded.experiment == result.experiment
    for table in ("metrics", "devices"):
        for name, column in getattr(result, table).items():
            other = getattr(loaded, table)[name]
            assert len(column) == len(other)
            if column.dtype != object:
                np.testing.assert_array_equal(column, other)
    assert loaded.trajectories[0].model.tobytes() == result.trajectories[0].model.tobytes()
    frame = result.to_pandas()
    assert list(frame["round"]) == [0, 1, 2, 3]
    assert result.time_to(0.0) == {"paota": 0.0}
    assert result.time_to(1.0, "paota") == float("inf")
    with pytest.raises(paota.UserError, match="not empty"):
        result.save(tmp_path / "x")
    with pytest.raises(paota.UserError, match="did you mean 'paota'"):
        result.of("paot")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rn"], "unknown command 'rn': did you mean 'run'?"),
        (["run", "--sett", "a=1"], "unknown option '--sett': did you mean '--set'?"),
        (["run", "--set", "timing.perid_s=3"], "did you mean 'timing.period_s'?"),
        (["run", "--set", "timing.period_s=soon"], "timing.period_s must be a number, not 'soon'"),
        (["run", "--set", "nonsense"], "--set needs section.key=value"),
        (["run", "nowhere.toml"], "no such experiment file: 'nowhere.toml'"),
        (["run", "--preset", "papr"], "did you mean 'paper'?"),
        (["run", "x.toml", "--preset", "paper"], "not both"),
        (["run", "--seeds", "0"], "--seeds must be at least 1"),
        (["run", "--seeds", "many"], "--seeds"),
        (["run", "--set", "data.dataset=nothere"], "nothere"),
        (["run", "--set", "data.dataset=empty.npz"], "empty.npz"),
        (["run", "--set", "timing.latency=trace"], "trace_file"),
        (["run", "--set", "timing.low_s=20"], "must not exceed"),
        (["run", "--set", "duration_s=1"], "no aggregation"),
        (["run", "--resume", "nowhere"], "holds no run to resume"),
        (["run", "--resume", "nowhere", "--set", "seed=1"], "as it was"),
        (["report", "nowhere"], "not a finished run folder"),
        (["presets", "papr"], "did you mean 'paper'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_with_one_sentence_and_nothing_written(arguments, says, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.npz").write_bytes(b"")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("paota: ")
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["empty.npz"]


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x_train": np.zeros((0, 4)), "y_train": np.zeros(0, int)}, "empty|no samples"),
        ({"x_train": np.full((9, 4), np.nan), "y_train": np.arange(9) % 3}, "NaN|finite"),
        ({"x_train": np.zeros((9, 4)), "y_train": np.arange(8) % 3}, "9|8"),
    ],
)
def test_broken_data_is_refused(tmp_path, capsys, arrays, says):
    file = tmp_path / "mine.npz"
    np.savez(file, x_test=np.zeros((3, 4)), y_test=np.arange(3), **arrays)
    out = tmp_path / "out"
    assert main(["run", "--set", f"data.dataset={file}", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "mine.npz" in error
    assert re.search(says, error)
    assert not out.exists()


def test_one_class_and_one_device_work(tmp_path):
    file = tmp_path / "mine.npz"
    rng = np.random.default_rng(0)
    np.savez(
        file, x_train=rng.normal(size=(40, 4)), y_train=np.zeros(40, int), x_test=rng.normal(size=(9, 4)),
        y_test=np.zeros(9, int),
    )  # fmt: skip
    changes = ["data.devices=1", "rounds=2", f"data.dataset={file}"]
    flags = [word for change in changes for word in ("--set", change)]
    assert main(["run", *flags, "--quiet", "--out", str(tmp_path / "out")]) == 0


def test_a_used_folder_is_refused(tmp_path, capsys):
    (tmp_path / "precious.txt").write_text("mine")
    assert main(["run", *TINY, "--out", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_files_are_found_beside_the_experiment(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    part = {"x": rng.normal(size=(30, 4)), "y": np.arange(30) % 3}
    np.savez(tmp_path / "mine.npz", **{f"{k}_{s}": v for k, v in part.items() for s in ("train", "test")})
    (tmp_path / "trace.csv").write_text("device,latency_s\n0,3\n1,4\n")
    (tmp_path / "e.toml").write_text(
        'rounds = 2\n[data]\ndataset = "mine.npz"\ndevices = 2\n'
        '[timing]\nlatency = "trace"\ntrace_file = "trace.csv"\n[[algorithms]]\nname = "paota"\n'
    )
    monkeypatch.chdir(tmp_path.parent)
    assert main(["run", str(tmp_path / "e.toml"), "--quiet", "--out", str(tmp_path / "out")]) == 0
    assert paota.load(tmp_path / "out").trajectories[0].metrics["ready"].tolist() == [0, 2, 2]
