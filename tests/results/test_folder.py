"""Run folders: files that changed later are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

import paota
from paota.cli import main


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
