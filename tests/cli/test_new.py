"""`paota new KIND NAME`: what it writes works as it stands, and what it leaves behind can be read."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paota
from paota.base import plugins
from paota.base.registry import ALGORITHMS
from paota.cli import main
from paota.cli.new import KINDS

pytestmark = [pytest.mark.bare, pytest.mark.usefixtures("clean_registries")]

SOURCE = Path(paota.__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kinds", "tests"),
    [pytest.param(["algorithm"], 2, id="algorithm"), pytest.param(KINDS, 13, id="all", marks=pytest.mark.slow)],
)
def test_the_skeletons_pass_their_own_tests(folder, capsys, kinds, tests):
    """All kinds in one process: most of its time is importing JAX."""
    for kind in kinds:
        assert main(["new", kind, f"my-{kind}"]) == 0
        assert f"paota run my_{kind}.toml" in capsys.readouterr().out
    assert len(list(folder.iterdir())) == 3 * len(kinds)
    # Options for this suite, such as `-m bare`, are not for the skeleton's tests.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SOURCE), str(folder)]), "PYTEST_ADDOPTS": ""}
    tested = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tested.returncode == 0, tested.stdout
    assert f"{tests} passed" in tested.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_the_experiment_of_a_skeleton_can_be_planned(folder, kind):
    """The file names its plug-in, so nothing else is needed, from wherever it is read."""
    main(["new", kind, f"my-{kind}"])
    made = paota.Experiment.from_file(folder / f"my_{kind}.toml")
    assert made.plugins == (str((folder / f"my_{kind}.py").resolve()),)
    assert f"my-{kind}" in str(made.to_dict())


def test_a_run_with_a_plug_in_opens_without_it(folder, capsys, monkeypatch):
    """Run, forget the plug-in, and read the folder: as data, without executing anything; with it, as it was."""
    main(["new", "algorithm", "my-policy"])
    small = ["--set", "rounds=2", "--set", "model.name=softmax", "--set", 'algorithms=[{name="my-policy"}]']
    assert main(["run", "my_policy.toml", *small, "--out", "run", "--quiet"]) == 0
    whole = paota.load("run")
    assert whole.experiment.algorithms[0].label == "my-policy"
    assert f"paota run experiment.toml --plugin {folder.resolve()}/my_policy.py" in Path("run/report.html").read_text()
    monkeypatch.setattr(ALGORITHMS, "_things", {k: v for k, v in ALGORITHMS._things.items() if k != "my-policy"})
    monkeypatch.setattr(plugins, "_LOADED", {})
    monkeypatch.delitem(sys.modules, "my_policy")
    Path("my_policy.py").write_text("raise SystemExit('a run folder must not run code')\n")
    opened = paota.load("run")
    np.testing.assert_array_equal(opened.array("my-policy", "test_loss"), whole.array("my-policy", "test_loss"))
    assert opened.experiment.to_dict() == whole.experiment.to_dict()
    assert "my-policy" in repr(opened)
    why = "the Python code that this folder names is not run without your consent"
    assert repr(opened.experiment) == f"<paota.RecordedExperiment 'my-policy', as data only: {why}>"
    assert main(["report", "run", "--out", "again.html"]) == 0
    assert "--plugin" in Path("again.html").read_text()
    with pytest.raises(paota.UserError, match=r"opened as data.*read '.*my_policy.py'.*trust_plugins=True"):
        opened.shards  # noqa: B018


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
        (["algorithm", "lambda"], "a reserved word of Python"),
        (["algoritm", "x"], "did you mean 'algorithm'"),
    ],
)
def test_bad_names_are_refused(folder, capsys, arguments, message):
    assert main(["new", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not list(folder.iterdir())
