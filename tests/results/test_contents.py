"""Results and checkpoints belong to what was computed: changed files are noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import paota
from paota import simulate
from paota.cli import main
from paota.results import checkpoint
from paota.results.checkpoint import Checkpoints, Saved
from paota.studies.sweep import sweep as sweeps
from paota.studies.sweep.grid import Axis


def write_data(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 255, (60, 4), dtype=np.uint8), np.arange(60) % 3
    np.savez(path, x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])


@pytest.fixture
def experiment(tmp_path: Path) -> paota.Experiment:
    write_data(tmp_path / "mine.npz", 0)
    (tmp_path / "e.toml").write_text(
        'rounds = 2\n[data]\ndataset = "mine.npz"\ndevices = 4\nsizes = [10]\n[[algorithms]]\nname = "paota"\n'
    )
    return paota.Experiment.from_file(tmp_path / "e.toml")


def test_a_checkpoint_does_not_go_on_with_other_data(experiment: paota.Experiment, tmp_path: Path) -> None:
    saved = Saved([np.zeros(2)], {}, 1, 0.5)
    Checkpoints(tmp_path / "c", simulate.identity(simulate.prepare(experiment))).save(0, saved)
    same = Checkpoints(tmp_path / "c", simulate.identity(simulate.prepare(experiment))).load(0)
    assert same is not None
    assert same.done == 1
    write_data(tmp_path / "mine.npz", 1)
    with pytest.raises(paota.UserError, match=r"belongs to another run: contents.*mine\.npz"):
        Checkpoints(tmp_path / "c", simulate.identity(simulate.prepare(experiment))).load(0)


def test_a_sweep_does_not_go_on_with_other_data(experiment: paota.Experiment, tmp_path: Path) -> None:
    spec = sweeps.prepare(experiment, (Axis("timing.period_s", (4.0, 8.0)),), seeds=1)
    folder = sweeps.SWEEPS.begin(tmp_path / "sweep", spec)
    write_data(tmp_path / "mine.npz", 1)
    with pytest.raises(paota.UserError, match=r"mine\.npz' has changed since the sweep"):
        sweeps.compute(folder, spec, jobs=1)


def test_every_byte_of_a_checkpoint_counts_its_header_too(tmp_path: Path) -> None:
    checkpoint.write(tmp_path / "c.npz", {"done": 3}, {"a": np.arange(3)})
    facts, _ = checkpoint.read(tmp_path / "c.npz")
    assert facts == {"done": 3}
    held = dict(np.load(tmp_path / "c.npz"))
    held["header"] = np.frombuffer(held["header"].tobytes().replace(b"3", b"4"), np.uint8)
    np.savez(tmp_path / "c.npz", **held)
    with pytest.raises(paota.UserError, match="does not match its checksum"):
        checkpoint.read(tmp_path / "c.npz")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = {"rounds": 2, "data": {"dataset": "synthetic", "devices": 4, "sizes": [10]}}
    folder = tmp_path_factory.mktemp("finished") / "run"
    paota.run({**table, "algorithms": [{"name": "paota"}]}).save(folder, report=False)
    return folder


@pytest.mark.parametrize("name", ["metrics.csv", "experiment.toml"])
def test_a_run_that_was_changed_by_hand_says_so(
    finished: Path, name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    original = (finished / name).read_text()
    (finished / name).write_text(original.replace("0.", "1.", 1))
    try:
        with pytest.raises(paota.UserError, match=rf"{name} changed after the run had been written"):
            paota.load(finished)
        assert main(["report", str(finished), "--out", str(tmp_path / "r.html")]) == 2
        assert "--unchecked" in capsys.readouterr().err
        assert paota.load(finished, check=False).labels == ["paota"]
    finally:
        (finished / name).write_text(original)
    assert paota.load(finished).labels == ["paota"]
