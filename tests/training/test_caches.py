"""Caches are a comfort: found where the user says, kept small, and never in the way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paota.training import caches


def test_the_user_says_where(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("PAOTA_CACHE_DIR", raising=False)
    assert caches.cache_folder() == tmp_path / "paota"
    monkeypatch.setenv("PAOTA_CACHE_DIR", str(tmp_path / "mine"))
    assert caches.cache_folder() == tmp_path / "mine"


def test_the_oldest_programs_go_first(monkeypatch, tmp_path):
    monkeypatch.setattr(caches, "MAX_BYTES", 25)
    for age, name in enumerate(["newest", "middle", "oldest"]):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    caches._keep_small(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"newest", "middle"}


def test_a_folder_that_cannot_be_made_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert not caches.writable(tmp_path / "file" / "folder")


SCRIPT = """
import json, jax
jax.config.update("jax_log_compiles", False)
from paota import simulate
table = {"rounds": 2, "data": {"dataset": "synthetic", "devices": 4, "sizes": [20]}, "algorithms": [{"name": "local-sgd"}]}
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
result = simulate.run(table)
print(json.dumps({"misses": sum("cache_misses" in h for h in hits), "hits": sum("cache_hits" in h for h in hits)}))
"""


@pytest.mark.slow
def test_the_second_start_does_not_compile(tmp_path):
    def start():
        environment = {**os.environ, "PAOTA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout.splitlines()[-1])

    first, second = start(), start()
    assert list(Path(tmp_path / "programs").iterdir())
    assert first["hits"] < second["hits"]
    assert second["misses"] < first["misses"]
