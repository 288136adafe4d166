"""`paota deploy` and the settings of a deployment: what a user gets to see before anything starts."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import paota
from paota.base.formatting import duration
from paota.base.registry import ALGORITHMS
from paota.base.system import only_one
from paota.cli import main
from paota.deploy import isolation
from paota.deploy.processes import free_port
from paota.deploy.settings import Deployment
from paota.simulate import prepare

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
        "paota: a deployment needs Flower, which is not installed: pip install 'flwr<1.43,>=1.41'"
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
    assert [c.label for c in Deployment(algorithms="local-sgd, paota").chosen(experiment)] == [
        "local-sgd",
        "paota",
    ]
    with pytest.raises(paota.UserError, match="did you mean 'paota'"):
        Deployment(algorithms="poata").chosen(experiment)
    others = [{"name": name} for name in ALGORITHMS if ALGORITHMS[name].__module__.startswith("paota.")]
    assert len(Deployment().chosen(paota.Experiment.from_dict({"algorithms": others}))) == len(others)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--set", "data.devices=100"], "at most 32 are started"),
        (["--set", "data.devises=5"], "did you mean 'data.devices'"),
        (["nowhere.toml"], "no such experiment file"),
        (["--time-scale", "0"], "--time-scale must be above 0"),
        (["--time-scale", "nan"], "--time-scale must be above 0"),
        (["--resume", "nowhere"], "holds no checkpoint"),
        (["--resume", "x", "--preset", "quick"], "as it was"),
        (["--keys", "x"], "--keys goes with --listen"),
        (["--listen", "8000"], "--listen must be HOST:PORT"),
        (["--listen", "0.0.0.0:8000", "--insecure"], "there is always TLS"),
        (["--listen", "0.0.0.0:8000", "--keys", "x"], "paota keys x --devices 100"),
    ],
)
def test_a_mistake_is_one_sentence_and_starts_nothing(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    monkeypatch.chdir(tmp_path)
    assert main(["deploy", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_write_app_makes_an_app_that_flower_accepts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    from flwr.cli.config_utils import load_and_validate

    app = tmp_path / "app"
    (tmp_path / "device_scores.npz").write_bytes(b"")
    (tmp_path / "e.toml").write_text('rounds = 5\n[data]\ndataset = "device_scores.npz"\ndevices = 4\n')
    assert main(["deploy", str(tmp_path / "e.toml"), "--write-app", str(app), "--real-latency"]) == 0
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert warnings == []
    assert config["tool"]["flwr"]["app"]["config"]["emulate-latency"] is False
    written = tomllib.loads((app / "experiment.toml").read_text())
    assert written["data"]["dataset"] == str(tmp_path / "device_scores.npz")  # still found from where the app is
    capsys.readouterr()


def test_keys_are_made_once_and_secrets_are_the_owners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    keys = tmp_path / "keys"
    assert main(["keys", str(keys), "--devices", "2", "--names", "server.example.org,192.0.2.10"]) == 0
    assert {file.name for file in keys.iterdir()} == {
        "ca.crt", "server.crt", "server.key", "node-0", "node-0.pub", "node-1", "node-1.pub",
    }  # fmt: skip
    assert {(keys / name).stat().st_mode & 0o777 for name in ("server.key", "node-0", "node-1")} == {0o600}
    from paota.deploy.certificates import make_node_key

    (tmp_path / "open").write_text("another user's file")
    (tmp_path / "open").chmod(0o644)
    (keys / "node-1").unlink()
    (keys / "node-1").symlink_to(tmp_path / "open")
    assert not make_node_key(keys, "node-1").is_symlink()
    assert (tmp_path / "open").read_text() == "another user's file"
    assert (keys / "node-1").stat().st_mode & 0o777 == 0o600
    assert main(["keys", str(keys), "--devices", "2", "--names", "x"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["device", "server.example.org:8000", "--keys", str(keys), "--device", "2", "--devices", "3"]) == 2
    assert "has no node-2" in capsys.readouterr().err


def paota_says(*words: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
    """Exit code and all output of the program."""
    done = subprocess.run([*before, sys.executable, "-m", "paota", *words], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    assert main(["keys", str(tmp_path / "keys"), "--devices", "2", "--names", "localhost"]) == 0
    return tmp_path / "keys"


def test_a_port_in_use_is_one_sentence(keys: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        address = f"127.0.0.1:{used.getsockname()[1]}"
        words = ["--set", "data.devices=2", "--listen", address, "--keys", str(keys), "--out", str(tmp_path / "run")]
        assert paota_says("deploy", "--preset", "quick", *words) == (
            2,
            f"paota: cannot listen on {address}: Address already in use\n",
        )
    assert not (tmp_path / "run").exists()


def test_a_folder_that_another_process_goes_on_with_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    (tmp_path / "checkpoint-0").mkdir()
    (tmp_path / "checkpoint-0" / "state.npz").touch()
    (tmp_path / "experiment.toml").write_text("rounds = 3\n[data]\ndevices = 2\n")
    with only_one(tmp_path):
        assert main(["deploy", "--resume", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (f"paota: another process is at work in '{tmp_path}': wait for it, or stop it\n")


WITHOUT_NAMESPACES = ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh")


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare, of util-linux")
@pytest.mark.parametrize("command", ["device", "deploy", "deploy --listen"])
def test_where_other_users_cannot_be_kept_out_nothing_starts_unless_the_user_says_so(
    command: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    port = free_port()
    if command == "device":
        words = ["device", f"localhost:{port}", "--keys", str(keys), "--device", "0", "--devices", "2"]
    else:
        words = ["deploy", "--preset", "quick", "--set", "data.devices=2", "--out", str(tmp_path / "run")]
        words += ["--listen", f"127.0.0.1:{port}", "--keys", str(keys)] if "--listen" in command else []
    assert paota_says(*words, before=WITHOUT_NAMESPACES) == (2, f"{isolation.REFUSED}\n")
    assert not (tmp_path / "run").exists()
    latest = time.monotonic() + 30
    while list((tmp_path / "tmp").iterdir()):
        assert time.monotonic() < latest, "temporary files are left"
        time.sleep(0.1)


def test_only_a_program_moves_into_a_namespace(keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device", "localhost:1", "--keys", str(keys), "--device", "0", "--devices", "2"]) == 2
    assert "with --shared-loopback" in capsys.readouterr().err


class Stopped(Exception):
    pass


@pytest.mark.parametrize(("codes", "tries"), [([1], 1), ([0, 1, 0], 3)])
def test_a_device_goes_on_when_its_server_forgets_it_but_not_where_it_never_worked(
    codes: list[int], tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real processes in place of the SuperNode, which end with these codes."""
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    from paota.deploy import processes

    monkeypatch.setattr(processes, "FIRST_PAUSE_S", 0.01)
    begun: list[int] = []

    class Quick(processes.Device):
        def begin(self) -> None:
            self._start_node()

        def _start_node(self) -> None:
            if len(begun) == len(codes):
                raise Stopped
            begun.append(codes[len(begun)])
            self.start("node", [sys.executable, "-c", f"raise SystemExit({begun[-1]})"])

    told: list[str] = []
    device = Quick(tmp_path, "server.example.org:8000", keys=tmp_path, device=0, devices=1)
    if codes == [1]:
        with device:
            assert device.wait(told.append) == 1
    else:
        with pytest.raises(Stopped), device:
            device.wait(told.append)
    assert len(begun) == tries
    assert len(told) == (0 if codes == [1] else tries)


def test_a_dry_run_takes_the_simulated_time_of_all_algorithms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")
    monkeypatch.chdir(tmp_path)
    words = ["--preset", "quick", "--set", "data.devices=5", "--time-scale", "0.5", "--dry-run", "--out", "mine"]
    assert main(["deploy", *words]) == 0
    prepared = prepare(paota.Experiment.preset("quick").override({"data.devices": 5}))
    seconds = sum(timeline.time_s[-1] for timeline in prepared.timelines.values())
    assert f"about {duration(0.5 * seconds)}, one algorithm at a time" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
