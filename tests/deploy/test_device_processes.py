"""The trainer of a device's machine: a separate process that trains as `LocalTrainer` does, and survives mistakes."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from helpers.listening import wait_for

from paota.base.files import to_toml
from paota.deploy.client import TrainerKey, trainer_of
from paota.deploy.device_processes import ask

TABLE = {
    "data": {"dataset": "synthetic", "devices": 2, "sizes": [30]},
    "model": {"name": "softmax"},
    "training": {"local_steps": 2, "batch_size": 8},
    "algorithms": [{"name": "paota"}],
}


def test_the_trainer_trains_reports_mistakes_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text(to_toml(TABLE))
    key: TrainerKey = {
        "run_config": json.dumps({"experiment": "experiment.toml"}), "folder": str(tmp_path), "label": "paota",
        "device": 1, "own_data": "",
    }  # fmt: skip
    here = trainer_of(**key)
    start = here.layout.split(np.linspace(-0.1, 0.1, here.layout.size))
    shift = here.layout.split(np.full(here.layout.size, 0.01))
    with tempfile.TemporaryDirectory() as folder:  # a short name: those of socket files are limited
        address = f"{folder}/s"
        with pytest.raises(OSError, match="No such file"):
            ask(address, key, start)
        command = [sys.executable, "-m", "paota.deploy.device_processes", "train", address]
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            wait_for("the trainer listens", Path(address).exists)
            assert ask(address, {**key, "prepare": True}, {}) == ({}, {})
            for number, added in ((0, None), (1, shift)):
                reply, trained = ask(address, {**key, "version": 0, "training": number}, start, added)
                local, loss = here.train(start, 0, number, added)
                assert reply == {"num_examples": 30, "loss": loss}
                np.testing.assert_array_equal(here.layout.join(trained), local)
            with pytest.raises(RuntimeError, match="Malformed: its arrays are not those of the model"):
                ask(address, {**key, "version": 0, "training": 0}, {"x": np.zeros(1)})
            with socket.socket(socket.AF_UNIX) as silent:
                silent.connect(address)
            assert ask(address, {**key, "prepare": True}, {}) == ({}, {})
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)
