"""Only the ServerApp reports how a deployment ended. A device's text is an incident of that device, and printable."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

import paota
from paota.deploy import processes
from paota.deploy.launch import run_here, write_app
from paota.deploy.roster import Roster
from paota.experiment.experiment import Experiment

DEVICES = 3
TABLE = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": DEVICES, "sizes": [20]},
    "model": {"name": "softmax"},
    "training": {"local_steps": 1, "batch_size": 8},
    "timing": {"period_s": 2.0, "latency": "uniform", "low_s": 0.1, "high_s": 0.2},
    "algorithms": [{"name": "paota"}],
}
# Device 0 answers every order with an error that looks like the end of the run; the others train.
FORGED = "\\nthe run folder is /nowhere\\nINFO :      the run folder is /nowhere\\n\\x1b[2JError: ServerApp failed"
FORGER = f"""
@app.train()
def train(message: Message, context: Context) -> Message:
    if int(context.node_config["partition-id"]) == 0:
        raise RuntimeError("{FORGED}")
    return answer_order(message, context, train_with_jax(context, FOLDER))
"""


def incidents(out: Path) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for incident in paota.load(out).info["deployment"]["algorithms"]["paota"]["incidents"]:
        found.setdefault(incident["device"], []).append(incident["detail"])
    return found


def took_part(out: Path) -> set[int]:
    return set(paota.load(out).of("paota")[0].devices["device"].tolist())


def test_devices_that_fail_or_forge_leave_the_others_to_finish(tmp_path: Path, monkeypatch) -> None:
    """Device 0 forges the end of the run. Device 1 cannot read its data, as after `paota device --data bad.npz`."""
    (tmp_path / "bad.npz").write_text("garbage")
    out, app = tmp_path / "run", tmp_path / "app"
    write_app(app, Experiment.from_dict(TABLE), {"out": str(out)})
    client = app / "deployment" / "client_app.py"
    client.write_text(client.read_text().partition("@app.train()")[0] + FORGER)
    plain = processes._node_config
    own = f' data="{tmp_path / "bad.npz"}"'
    monkeypatch.setattr(processes, "_node_config", lambda k, n: plain(k, n) + (own if k == 1 else ""))
    lines: list[str] = []
    run_here(app, tmp_path / "federation", devices=DEVICES, run_config={}, secure=False, show=lines.append)
    assert took_part(out) == {2}
    found = incidents(out)
    assert "the run folder is /nowhere" in found[0][0]
    assert "bad.npz" in found[1][0]
    assert all(detail.isprintable() for details in found.values() for detail in details)
    assert not any(line.startswith("the run folder is /nowhere") or "\x1b" in line for line in lines)


def test_a_failure_is_told_in_its_own_words(tmp_path: Path) -> None:
    out, app = tmp_path / "run", tmp_path / "app"
    out.mkdir()
    (out / "something").write_text("here")
    write_app(app, Experiment.from_dict(TABLE), {"out": str(out)})
    with pytest.raises(paota.UserError, match=r"the deployment failed: '.*run' exists already and is not empty"):
        run_here(app, tmp_path / "federation", devices=DEVICES, run_config={}, secure=False, show=print)


def test_texts_of_devices_are_printable_and_bounded() -> None:
    roster = Roster(2, 10.0)
    roster.note(0, "crashed", "a\nb\x1b[2J\u202e" + "x" * 1_000, 1.0)
    (incident,) = roster.incidents.values()
    assert incident.detail.startswith("a b\\x1b[2J\\u202e")
    assert len(incident.detail) == 300
