"""Python code that a folder names runs only when the user says so: showing never imports it, computing asks first."""

import json
import shutil
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import paota
from paota.base.files import to_toml
from paota.cli import main
from paota.experiment.experiment import Experiment, RecordedExperiment
from paota.pages.page import render
from paota.results.folder import begin_folder
from paota.studies.live.server import LiveServer
from paota.studies.plan import plan as planner
from paota.studies.sweep import sweep as sweeps
from paota.studies.sweep.grid import Axis

pytestmark = pytest.mark.usefixtures("clean_registries")

PERIODS = (Axis("timing.period_s", (6.0, 8.0)),)
TABLE = {
    "rounds": 2, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}, "model": {"name": "softmax"},
    "training": {"local_steps": 1, "batch_size": 4}, "algorithms": [{"name": "paota"}],
}  # fmt: skip
NEEDS_FLOWER = pytest.mark.skipif(find_spec("flwr") is None, reason="Flower is not installed")
CODE = """
from pathlib import Path
from paota.models.mlp import Softmax
Path(__file__).with_name("ran").touch()
def build():
    return Softmax()
"""


@pytest.fixture(params=["plug-in", "model in a file", "model in a module"])
def named(request, tmp_path, monkeypatch):
    """(settings that name code, the name): the code leaves the file `ran` behind where it runs."""
    module = f"stranger_{request.param[-4:].strip()}"
    file = tmp_path / f"{module}.py"
    file.write_text(CODE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / f"{module}_too.py").write_text(CODE.replace('with_name("ran")', 'parent.with_name("ran")'))
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    yield {
        "plug-in": ({"plugins": [str(file)]}, str(file)),
        "model in a file": ({"model": {"name": f"{file}:build"}}, f"{file}:build"),
        "model in a module": ({"model": {"name": f"{module}_too:build"}}, f"{module}_too:build"),
    }[request.param]
    for name in (module, f"{module}_too"):
        sys.modules.pop(name, None)


def ran() -> bool:
    return Path("ran").exists()


def finished_run(settings) -> Path:
    """A run folder whose experiment names the code, with sound checksums."""
    result = paota.run(TABLE)
    table = result.experiment.to_dict() | settings
    return replace(result, experiment=RecordedExperiment(table=table, why="")).save("run", report=False)


def unfinished_run(settings) -> Path:
    folder = begin_folder("run", Experiment.from_dict(TABLE), [0])
    (folder / "experiment.toml").write_text(to_toml(Experiment.from_dict(TABLE).to_dict() | settings))
    return folder


def begun_sweep(settings) -> Path:
    """Return the folder of a sweep that has computed only one of its points."""
    folder = sweeps.SWEEPS.begin("sweep", sweeps.prepare(Experiment.from_dict(TABLE), PERIODS))
    rename(folder / "sweep.json", settings)
    (folder / "points").mkdir()
    finished_run(settings).rename(folder / "points" / "000")
    return folder


def begun_plan(settings) -> Path:
    folder = planner.PLANS.begin("plan", planner.prepare(Experiment.from_dict(TABLE), target=0.2, seeds=1))
    rename(folder / "plan.json", settings)
    return folder


def begun_deployment(settings) -> Path:
    folder = unfinished_run(settings)
    (folder / "unfinished.json").unlink()
    (folder / "checkpoint-0").mkdir()
    (folder / "checkpoint-0" / "state.npz").touch()
    return folder


def rename(file: Path, settings) -> None:
    found = json.loads(file.read_text())
    file.write_text(json.dumps(found | {"experiment": found["experiment"] | settings}))


def test_showing_imports_nothing(named, capsys):
    settings, _ = named
    folder = finished_run(settings)
    result = paota.load(folder)
    assert result.summary["algorithms"]
    assert result.experiment.to_dict() | settings == result.experiment.to_dict()
    assert repr(result)
    assert repr(result.experiment)
    assert result._repr_html_()
    assert result.plot()
    assert main(["report", str(folder)]) == 0
    assert main(["report", str(folder), "--unchecked", "--out", "again.html"]) == 0
    assert main(["run", "--resume", str(folder)]) == 0  # finished: it is only shown
    assert not ran()


@pytest.mark.parametrize("make", [finished_run, unfinished_run, begun_sweep])
def test_watching_imports_nothing(named, make):
    with LiveServer(make(named[0])) as server:
        for path in ("", "points/0", "points/1"):
            page = server.page(path)
            assert page is None or render(page)
    assert not ran()


def test_a_sweep_of_things_that_are_unknown_here_can_be_watched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LiveServer(begun_sweep({"algorithms": [{"name": "of-a-stranger"}]})) as server:
        page = server.page("")
    assert page is not None
    assert "timing.period_s = 6" in render(page)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (finished_run, ["bound", "--rounds", "1"]), (unfinished_run, ["bound", "--rounds", "1"]),
        (unfinished_run, ["run", "--quiet", "--resume"]), (begun_sweep, ["sweep", "--quiet", "--jobs", "1", "--resume"]),
        (begun_plan, ["plan", "--quiet", "--jobs", "1", "--resume"]),
        pytest.param(begun_deployment, ["deploy", "--resume"], marks=NEEDS_FLOWER),
    ],
    ids=lambda value: value.__name__ if callable(value) else value[0],
)  # fmt: skip
def test_computing_asks_first(named, capsys, make, words):
    settings, name = named
    folder = make(settings)
    assert main([*words, str(folder)]) == 2
    said = capsys.readouterr().err
    assert name in said
    assert "--trust-plugins" in said
    assert said.count("\n") == 1
    assert not ran()
    if words[0] in ("bound", "run"):  # the others take longer, by the same way
        assert main([*words, str(folder), "--trust-plugins"]) == 0
        assert ran()


def test_python_asks_first(named):
    settings, _ = named
    result = paota.load(finished_run(settings))
    for compute in (
        lambda: result.model(), lambda: result.predict(np.zeros((1, 8, 8))), lambda: result.shards,
        lambda: paota.run(result.experiment), lambda: paota.sweep(result.experiment, over={"seed": [1]}, jobs=1),
        lambda: paota.sweep(TABLE, over={"timing.period_s": [6.0, 8.0]}, jobs=1, out=begun_sweep_of(settings)),
        lambda: paota.plan(TABLE, target=0.2, seeds=1, jobs=1, out=begun_plan(settings)),
    ):  # fmt: skip
        with pytest.raises(paota.UserError, match="trust_plugins"):
            compute()
    assert not ran()
    trusted = paota.load("run", trust_plugins=True)
    assert trusted.model() is not None
    assert ran()
    assert paota.load("run").model() is not None  # this process runs that code already


def begun_sweep_of(settings) -> Path:
    Path("run").rename("kept")
    folder = begun_sweep(settings)
    Path("kept").rename("run")
    return folder


def test_the_users_own_file_is_trusted_and_so_is_its_folder_meanwhile(named, capsys):
    settings, _ = named
    Path("mine.toml").write_text(to_toml(TABLE | settings))
    assert main(["run", "mine.toml", "--quiet", "--out", "mine"]) == 0
    assert ran()
    assert isinstance(paota.load("mine").experiment, Experiment)


NO_PATHS = {"loop": "loop.py", "NUL": "a\0b.py", "long": "a" * 5000 + ".py", "below a loop": "loop.py/x.py"}


@pytest.mark.parametrize("case", NO_PATHS)
def test_names_that_are_no_paths(tmp_path, monkeypatch, capsys, case):
    monkeypatch.chdir(tmp_path)
    Path("loop.py").symlink_to("loop.py")
    for settings in ({"plugins": [NO_PATHS[case]]}, {"model": {"name": f"{NO_PATHS[case]}:build"}}):
        Path("mine.toml").write_text(to_toml(TABLE | settings))
        folder = finished_run(settings)
        assert paota.load(folder).summary
        for words in (["run", "mine.toml"], ["bound", str(folder)]):
            assert main(words) == 2
            assert capsys.readouterr().err.count("\n") == 1
        shutil.rmtree(folder)


def test_a_plug_in_that_is_given_needs_no_trust(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").touch()
    folder = unfinished_run({"plugins": [str(tmp_path / "mine.py")]})
    assert main(["run", "--quiet", "--resume", str(folder), "--plugin", "mine.py"]) == 0


def test_the_command_to_go_on_with_works(tmp_path, monkeypatch, capsys):
    """A run of a plug-in that is cut short names the option that its folder needs."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import paota\nclass Stop(paota.Callback):\n    def round(self, round):\n        raise paota.UserError('enough')\n"
        "paota.register('callback', 'stop', Stop)\n"
    )
    Path("mine.toml").write_text(to_toml(TABLE | {"plugins": ["mine.py"]}))
    assert main(["run", "mine.toml", "--quiet", "--callback", "stop", "--out", "mine"]) == 2
    assert "paota run --resume mine --trust-plugins" in capsys.readouterr().err
