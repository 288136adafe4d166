"""`paota deploy --listen` and `paota device` as processes of their own, on loopback."""

from __future__ import annotations

import http.client
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paota.cli import main
from paota.deploy.processes import free_port, listening

EXPERIMENT = """
name = "listened"
rounds = 3
[data]
dataset = "synthetic"
devices = 2
sizes = [40]
[training]
local_steps = 2
[timing]
period_s = 4.0
[[algorithms]]
name = "paota"
payload = "update"
"""
LIMIT_S = 300.0  # a hang must not last


def processes_naming(text: str) -> dict[int, list[str]]:
    """Processes of this machine whose command line contains `text`."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(text in word for word in words):
                found[int(entry.name)] = words
    return found


def wait_for(what: str, condition, patience_s: float = LIMIT_S) -> None:  # type: ignore[no-untyped-def]
    latest = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < latest, what
        time.sleep(0.2)


@dataclass
class Server:
    """A running `paota deploy --listen`, its temporary files apart from those of others."""

    process: subprocess.Popen[bytes]
    port: int
    keys: Path
    folder: Path
    temporary: Path

    @property
    def told(self) -> str:
        return (self.folder / "deploy.log").read_text()

    def gateway(self) -> int:
        """The gateway's process number."""
        return next(pid for pid, words in processes_naming(str(self.keys)).items() if "paota.deploy.gateway" in words)

    @contextmanager
    def devices(self, data: Sequence[str | None] = (None, None)) -> Iterator[list[subprocess.Popen[bytes]]]:
        """`paota device`s, each with its own data or without, ended by SIGTERM."""
        started = []
        for k, file in enumerate(data):
            words = ["device", f"localhost:{self.port}", "--keys", str(self.keys), "--device", str(k)]
            words += ["--devices", str(len(data)), *(["--data", file] if file else [])]
            started.append(start(self.folder, f"device-{k}", self.temporary, *words))
        try:
            yield started
        finally:
            for device in started:
                device.terminate()
                device.wait(timeout=30)


def start(folder: Path, name: str, temporary: Path, *words: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "paota", *words], cwd=folder, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, "TMPDIR": str(temporary)},
        )  # fmt: skip


@contextmanager
def listening_server(folder: Path, experiment: str = EXPERIMENT) -> Iterator[Server]:
    keys, port = folder / "keys", free_port()
    (folder / "e.toml").write_text(experiment)
    assert main(["keys", str(keys), "--devices", "2", "--names", "localhost"]) == 0
    temporary = Path(tempfile.mkdtemp())  # a short name: those of socket files are limited
    words = ["deploy", str(folder / "e.toml"), "--listen", f"127.0.0.1:{port}", "--keys", str(keys)]
    process = start(folder, "deploy", temporary, *words, "--out", str(folder / "run"))
    try:
        wait_for("the gateway listens", lambda: listening(port) or process.poll() is not None)
        yield Server(process, port, keys, folder, temporary)
    finally:
        process.kill()
        process.wait()
        wait_for("no process is left", lambda: not processes_naming(str(keys)), 60.0)
        shutil.rmtree(temporary)


def superlink_port(keys: Path) -> int:
    def find() -> list[int]:
        lines = [w for w in processes_naming(str(keys)).values() if "superlink" in w]
        return [int(words[words.index("--port") + 1]) for words in lines]

    wait_for("the SuperLink starts", find)
    return find()[0]


def request(
    port: int, keys: Path, path: str, method: str = "POST", headers: Mapping[str, str] | None = None, body: bytes = b""
) -> tuple[int, bytes]:
    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    connection = http.client.HTTPSConnection("localhost", port, context=trust, timeout=30)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


# What an attacker tries: Flower's control and runtime APIs, by every spelling that a server might take for them.
FORBIDDEN = [
    "/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/openapi.json", "/health", "/",
    "//v1/control/list-runs", "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs", "/v1/fleet",
    "/v1/fleet/..;/control/list-runs", "/v1/fleet%2f..%2fcontrol/list-runs", "/V1/CONTROL/list-runs", "/v1/fleet//control",
    "/v1/fleet/a?x=/../../control", "/v1/fleet/pull\\control",
]  # fmt: skip
