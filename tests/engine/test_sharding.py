"""The work spread over several JAX devices, in one process and in two, gives what one device gives."""

import json
import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paota import simulate
from paota.base.errors import UserError
from paota.engine import sharding

TABLE = {
    "rounds": 4,
    "data": {"dataset": "synthetic", "devices": 20, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}
WORKER = Path(__file__).parents[1] / "helpers" / "sharding_worker.py"
arrays_of = runpy.run_path(str(WORKER))["arrays_of"]
TIMEOUT_S = 900


def start(out, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PAOTA_COORDINATOR", "PAOTA_NUM", "PAOTA_PROC"))}
    return subprocess.Popen(
        [sys.executable, str(WORKER), json.dumps(TABLE), str(out)],
        env={**clean, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process):
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, output


def flags(devices):
    """Options beside those of all tests, which compile quickly."""
    return {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"}


@pytest.fixture(scope="module")
def alone():
    """Run in this process, with its one JAX device."""
    return arrays_of(simulate.run(TABLE))


def assert_same(one, other):
    assert set(one) == {name for name in other.files if name != "facts"}
    for name in one:
        np.testing.assert_allclose(other[name], one[name], rtol=3e-4, atol=3e-5, err_msg=name)


def facts(result):
    return json.loads(str(result["facts"]))


@pytest.mark.parametrize("learner", ["auto", pytest.param("generic", marks=pytest.mark.slow)])
def test_two_jax_devices_in_one_process(alone, tmp_path, learner):
    finish(start(tmp_path / "two.npz", PAOTA_LEARNER=learner, **flags(2)))
    two = np.load(tmp_path / "two.npz")
    assert facts(two)["jax_devices"] == 2
    assert_same(alone, two)


def test_two_processes(alone, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        start(
            tmp_path / f"process{i}.npz", PAOTA_COORDINATOR=f"127.0.0.1:{port}", PAOTA_NUM_PROCESSES="2",
            PAOTA_PROCESS_ID=str(i), **flags(1),
        )
        for i in range(2)
    ]  # fmt: skip
    for process in processes:
        finish(process)
    for i in range(2):
        result = np.load(tmp_path / f"process{i}.npz")
        assert facts(result)["processes"] == 2
        assert facts(result)["jax_devices"] == 2
        assert_same(alone, result)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"PAOTA_NUM_PROCESSES": "2"},
        {"PAOTA_NUM_PROCESSES": "two", "PAOTA_PROCESS_ID": "0"},
        {"PAOTA_NUM_PROCESSES": "2", "PAOTA_PROCESS_ID": "2"},
    ],
)
def test_half_a_cluster_is_refused(monkeypatch, environment):
    monkeypatch.setenv("PAOTA_COORDINATOR", "127.0.0.1:1")
    for name in ("PAOTA_NUM_PROCESSES", "PAOTA_PROCESS_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="PAOTA_PROCESS_ID"):
        sharding.join_cluster()


def test_without_a_coordinator_nothing_happens(monkeypatch):
    monkeypatch.delenv("PAOTA_COORDINATOR", raising=False)
    sharding.join_cluster()
