"""Callbacks from the command line and in sweeps; early stopping through all of them."""

import json
import math

import pytest

import paota
from paota import Callback, UserError
from paota.cli import main

from .conftest import TABLE

FLAGS = [
    word
    for setting in (
        "rounds=20", "data.dataset=synthetic", "data.devices=8", "data.sizes=[30,60]", "training.local_steps=2",
        "training.batch_size=8", "timing.period_s=6", 'algorithms=[{name="paota"},{name="local-sgd"}]',
    )
    for word in ("--set", setting)
]  # fmt: skip


def test_a_run_that_stops_early_and_writes_a_stream(tmp_path, capsys):
    stream = tmp_path / "mine.csv"
    arguments = [*FLAGS, "--stop-at", "0.3", "--callback", f"csv={stream}", "--out", str(tmp_path / "run"), "--json"]
    assert main(["run", *arguments]) == 0
    summary = json.loads(capsys.readouterr().out)
    result = paota.load(tmp_path / "run")
    assert result.experiment.evaluation.stop_at == 0.3
    for t in result.trajectories:
        accuracy = t.metrics["test_accuracy"]
        assert (accuracy[:-1] < 0.3).all()
        assert (accuracy[-1] >= 0.3) == (t.stopped_round is not None)
        assert summary["algorithms"][t.label]["stopped"] == (
            [{"seed": 0, "round": t.stopped_round}] if t.stopped_round else []
        )
    assert any(t.stopped_round for t in result.trajectories)
    rows = stream.read_text().splitlines()
    assert len(rows) - 1 == sum(len(t.metrics["round"]) for t in result.trajectories)
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "again.html")]) == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--callback", "tensorbord"], "unknown callback 'tensorbord': did you mean 'tensorboard'?"),
        (["--stop-at", "80"], "evaluation.stop_at must be at most 1"),
        (["--patience", "0"], "evaluation.patience must be at least 1"),
        (["--callback", "csv=/no/such/folder/x.csv"], "cannot write '/no/such/folder/x.csv'"),
    ],
)
def test_mistakes_are_sentences(tmp_path, monkeypatch, capsys, flags, says):
    monkeypatch.chdir(tmp_path)
    assert main(["run", *FLAGS, *flags, "--quiet"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_a_plugin_brings_a_callback_that_fails_and_the_run_goes_on_later(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin = tmp_path / "fragile.py"
    plugin.write_text(
        "import pathlib, paota\n"
        "class Fragile(paota.Callback):\n"
        "    def round(self, round):\n"
        "        if round.round == 5 and not pathlib.Path('mended').exists():\n"
        "            raise RuntimeError('torn')\n"
        "paota.register('callback', 'fragile', Fragile)\n"
    )
    more = ["--plugin", str(plugin), "--callback", "fragile", "--quiet"]
    assert main(["run", *FLAGS, "--out", "mine", *more]) == 1
    said = capsys.readouterr().err
    assert "the callback Fragile failed in round: RuntimeError: torn; what is done is saved" in said
    assert "paota run --resume mine" in said
    (tmp_path / "mended").touch()
    assert main(["run", "--resume", "mine", *more]) == 0
    assert main(["run", *FLAGS, "--out", "straight", "--quiet"]) == 0
    for name in ("metrics.csv", "models.npz", "devices.npz"):
        assert (tmp_path / "mine" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


class Counter(Callback):
    """Writes what it heard beside the point's folder; has a memory that must not be shared between points."""

    def __init__(self):
        self.rounds = 0

    def start(self, run):
        self.run = run

    def round(self, round):
        self.rounds += 1
        return round.label == "local-sgd" and round.round == 4

    def end(self, result):
        (self.run.folder / "heard.json").write_text(json.dumps([self.run.title, self.rounds]))


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_point_of_a_sweep_has_its_own_copy(tmp_path, jobs):
    made = paota.sweep(
        TABLE, over={"timing.period_s": [6, 8]}, seeds=1, jobs=jobs, out=tmp_path / "s", callbacks=[Counter()],
        best="final_accuracy", equal="rounds",
    )  # fmt: skip
    assert not made.failed
    heard = [json.loads(file.read_text()) for file in sorted(tmp_path.glob("s/points/*/heard.json"))]
    assert heard == [["small, timing.period_s = 6", 21 + 5], ["small, timing.period_s = 8", 21 + 5]]
    assert all(math.isfinite(row.scores["final_accuracy"].median) for row in made.rows)


def test_a_callback_that_cannot_travel_is_refused_at_once(tmp_path):
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(UserError, match=r"the callback .* cannot be sent to other"),
    ):
        paota.sweep(
            TABLE, over={"seed": [0, 1]}, jobs=2, out=tmp_path / "s", callbacks=[lambda round: log.write("")]
        )  # fmt: skip
