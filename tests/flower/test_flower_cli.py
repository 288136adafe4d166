"""`paota deploy` and the settings of a deployment: what a user gets to see before anything starts."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import paota
from paota.cli import main
from paota.flower.deployment import Deployment

WITHOUT_FLOWER = """
import sys
sys.modules["flwr"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "flwr" else real(name, *rest)
from paota.cli import main
sys.exit(main(["deploy", "--preset", "quick"]))
"""


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_FLOWER], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "paota: a deployment needs Flower, which is not installed: pip install 'paota[flower]'"
    )
    assert done.stdout == ""


def test_the_settings_of_a_deployment_are_checked() -> None:
    good = Deployment.from_run_config({"time-scale": 0.5, "patience": 3, "somebody-elses": "setting"})
    assert (good.time_scale, good.patience, good.resume) == (0.5, 3.0, False)
    for wrong in ({"time-scale": 0.0}, {"patience": -1}, {"resume": "yes"}, {"min-devices": -2}):
        with pytest.raises(paota.UserError, match=next(iter(wrong)).replace("-", "_")):
            Deployment.from_run_config(wrong)


def test_the_experiment_is_a_file_of_the_app_or_a_preset_with_changes(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "mine"\nrounds = 7\n')
    assert Deployment(experiment="mine.toml").load(tmp_path).horizon.rounds == 7
    changed = Deployment(experiment="quick", changes="rounds=3; timing.period_s=6").load(tmp_path)
    assert (changed.horizon.rounds, changed.timing.period_s) == (3, 6.0)
    with pytest.raises(paota.UserError, match=r"yours\.toml"):
        Deployment(experiment="yours.toml").load(tmp_path)


def test_algorithms_are_chosen_by_label_and_must_be_deployable() -> None:
    experiment = paota.Experiment.preset("quick")
    assert [c.label for c in Deployment(algorithms="local-sgd, paota").contestants(experiment)] == [
        "local-sgd",
        "paota",
    ]
    with pytest.raises(paota.UserError, match="did you mean 'paota'"):
        Deployment(algorithms="poata").contestants(experiment)
    buffered = paota.Experiment.from_dict({"algorithms": [{"name": "fedbuff"}]})
    with pytest.raises(paota.UserError, match="'fedbuff' cannot be deployed yet"):
        Deployment().contestants(buffered)
    impatient = paota.Experiment.from_dict({"algorithms": [{"name": "local-sgd", "deadline_s": 9.0}]})
    with pytest.raises(paota.UserError, match="knows neither selected nor deadline_s"):
        Deployment().contestants(impatient)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "data.devices=100"], "at most 32 are started"),
        (["--set", "data.devises=5"], "did you mean 'data.devices'"),
        (["nowhere.toml"], "no such experiment file"),
    ],
)
def test_a_mistake_is_one_sentence_and_starts_nothing(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install 'paota[flower]'")
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_write_app_makes_an_app_that_flower_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install 'paota[flower]'")
    from flwr.cli.config_utils import load_and_validate

    app = tmp_path / "app"
    (tmp_path / "own.npz").write_bytes(b"")
    (tmp_path / "e.toml").write_text('rounds = 5\n[data]\ndataset = "own.npz"\ndevices = 4\n')
    assert main(["deploy", str(tmp_path / "e.toml"), "--write-app", str(app), "--real-latency"]) == 0
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert warnings == []
    assert config["tool"]["flwr"]["app"]["config"]["emulate-latency"] is False
    written = tomllib.loads((app / "experiment.toml").read_text())
    assert written["data"]["dataset"] == str(tmp_path / "own.npz")  # still found from where the app is
    capsys.readouterr()
