"""A real SuperLink and five real SuperNodes, with TLS and node authentication, train MNIST on loopback.

One SuperNode is killed midway, one update is NaN.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

import paota
from paota.deploy.processes import LocalFederation

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
DEVICES, PERIOD_S, ROUNDS = 5, 4.0, 12
TARGET = 0.75
LIMIT_S = 900.0  # a hang must not last; the usual time is about 100 s
CHANGES = f"rounds={ROUNDS}; timing.period_s={PERIOD_S}; training.local_steps=60; data.classes_per_device=10"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    target = tmp_path / "app"
    shutil.copytree(EXAMPLE, target, ignore=shutil.ignore_patterns("__pycache__", "runs", "federation"))
    shutil.copy(Path(__file__).parents[1] / "helpers" / "faulty_client.py", target / "paota_app" / "client_app.py")
    return target


def test_mnist_with_a_dead_node_and_a_nan_update(app: Path, tmp_path: Path) -> None:
    out, work = tmp_path / "run", tmp_path / "federation"
    started: dict[str, int] = {}
    with LocalFederation(work, DEVICES) as federation:
        started.update({name: process.pid for name, process in federation.running.items()})
        run_config = {"out": str(out), "changes": CHANGES, "emulate-latency": False, "patience": 3.0}
        run = federation.run_app(app, run_config)
        lines = follow(run, federation)
    told = "".join(lines)

    assert (out / "run.json").is_file(), told
    result = paota.load(out)
    (run_,) = result.of("paota")
    devices = run_.devices
    assert len(run_.metrics["round"]) == ROUNDS + 1
    assert set(devices["device"].tolist()) >= {1, 2, 3, 4}, told
    incidents = {(i["device"], i["kind"]) for i in result.info["deployment"]["algorithms"]["paota"]["incidents"]}
    assert (1, "not finite") in incidents, told  # the NaN update was refused ...
    assert told.count("device 1: not finite") == 1  # ... and said so once
    assert np.isfinite(run_.model).all()
    assert (devices["round"][devices["device"] == 1] > 2).any(), told  # and its device took part afterwards
    assert {(0, "no answer"), (0, "expired"), (0, "offline")} & incidents, told  # the dead node ...
    others = (devices["round"] > ROUNDS // 2) & (devices["device"] != 0)
    assert len(set(devices["device"][others].tolist())) >= 3, told  # ... did not stop the others
    assert run_.metrics["test_accuracy"].max() > TARGET, told
    left = [name for name, pid in started.items() if group_exists(pid)]
    assert not left, f"still running: {left}"


def follow(run: subprocess.Popen[bytes], federation: LocalFederation) -> list[str]:
    """The log up to the end of the run; on the way the SuperNode of device 0 dies."""
    lines: list[str] = []
    assert run.stdout is not None
    watchdog = threading.Timer(LIMIT_S, run.kill)  # then the log ends, whatever hangs
    watchdog.start()
    for line in run.stdout:
        lines.append(line.decode(errors="replace"))
        if re.search(r"paota round 4 ", lines[-1]):
            federation.kill("node-0")
        if "the run folder is" in lines[-1] or "ServerApp failed" in lines[-1] or "raised an exception" in lines[-1]:
            break
    watchdog.cancel()
    return lines


def group_exists(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
