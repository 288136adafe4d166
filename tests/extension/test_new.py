"""`paota new algorithm NAME`: what it writes works as it stands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import paota
from paota.cli import main

SOURCE = Path(paota.__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_skeleton_passes_its_own_tests_and_runs(folder, capsys):
    assert main(["new", "algorithm", "my-policy"]) == 0
    assert sorted(file.name for file in folder.iterdir()) == ["my_policy.py", "my_policy.toml", "test_my_policy.py"]
    assert "paota run my_policy.toml --plugin my_policy.py" in capsys.readouterr().out
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    tested = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "test_my_policy.py"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert "2 passed" in tested.stdout

    settings = ["--set", "rounds=3", "--set", "model.name=softmax", "--set", 'algorithms=[{name="my-policy"}]']
    assert main(["run", "my_policy.toml", "--plugin", "my_policy.py", *settings, "--out", "run", "--quiet"]) == 0
    assert "my-policy" in capsys.readouterr().out
    assert main(["report", "run", "--plugin", "my_policy.py"]) == 0


def test_nothing_is_overwritten(folder, capsys):
    (folder / "test_my_policy.py").write_text("mine")
    assert main(["new", "algorithm", "my-policy"]) == 2
    assert "'test_my_policy.py' exists already" in capsys.readouterr().err
    assert [file.name for file in folder.iterdir()] == ["test_my_policy.py"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["algorithm", "paota"], "exists already"),
        (["algorithm", "My Policy"], "small letters, digits and hyphens"),
        (["algorithm", "../evil"], "small letters, digits and hyphens"),
        (["algorithm", "lambda"], "a word of Python itself"),
        (["algoritm", "x"], "did you mean 'algorithm'"),
    ],
)
def test_bad_names_are_refused(folder, capsys, arguments, message):
    assert main(["new", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(folder.iterdir())
