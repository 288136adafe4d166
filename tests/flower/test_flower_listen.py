"""`paota deploy --listen` with `paota device`s, and somebody on the same network who has the certificate of the CA."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install 'paota[flower]'")

import paota
from paota.cli import main
from paota.flower import private
from paota.flower.processes import free_port, listening

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

# What an attacker tries: Flower's control and runtime APIs, by every spelling that a server might take for them.
FORBIDDEN = [
    "/v1/control/list-runs", "/v1/control/start-run", "/v1/runtime/acquire-task", "/docs", "/openapi.json", "/health", "/",
    "//v1/control/list-runs", "/v1/fleet/../control/list-runs", "/v1/fleet/%2e%2e/control/list-runs", "/v1/fleet",
    "/v1/fleet/..;/control/list-runs", "/v1/fleet%2f..%2fcontrol/list-runs", "/V1/CONTROL/list-runs", "/v1/fleet//control",
    "/v1/fleet/a?x=/../../control", "/v1/fleet/pull\\control",
]  # fmt: skip


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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    keys, port = tmp_path / "keys", free_port()
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    assert main(["keys", str(keys), "--devices", "2", "--names", "localhost"]) == 0
    command = [
        sys.executable, "-m", "paota", "deploy", str(tmp_path / "e.toml"), "--listen", f"127.0.0.1:{port}",
        "--keys", str(keys), "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    with (tmp_path / "deploy.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_for("the gateway listens", lambda: listening(port) or process.poll() is not None)
        yield process, port, keys
    finally:
        process.kill()
        process.wait()


def superlink_port(keys: Path) -> int:
    def find() -> list[int]:
        lines = [w for w in processes_naming(str(keys)).values() if any(x.endswith(".superlink") for x in w)]
        return [int(words[words.index("--port") + 1]) for words in lines]

    wait_for("the SuperLink starts", find)
    return find()[0]


def request(port: int, keys: Path, path: str, method: str = "POST") -> tuple[int, bytes]:
    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    connection = http.client.HTTPSConnection("localhost", port, context=trust, timeout=30)
    connection.putrequest(method, path, skip_accept_encoding=True)
    connection.putheader("content-length", "0")
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc, and loopbacks of one's own are Linux's")
def test_devices_take_part_and_an_attacker_reaches_nothing_but_the_fleet_api(
    server: tuple[subprocess.Popen[bytes], int, Path], tmp_path: Path
) -> None:
    process, port, keys = server
    inner = superlink_port(keys)
    for path in FORBIDDEN:
        assert request(port, keys, path) == (404, b"not here\n"), path
        assert request(port, keys, path, "GET")[0] == 404, path
    wait_for("the SuperLink answers", lambda: request(port, keys, "/v1/fleet/pull-messages")[0] != 502)
    assert request(port, keys, "/v1/fleet/pull-messages")[1] != b"not here\n"  # Flower's own answer
    allowed = subprocess.run(
        [sys.executable, "-IS", private.__file__, "sh", "-c", "echo $PAOTA_LOOPBACK"], capture_output=True
    )
    if allowed.stdout.strip() == b"private":  # nobody outside reaches the SuperLink itself, on loopback neither
        with socket.socket() as probe:
            probe.settimeout(2)
            assert probe.connect_ex(("127.0.0.1", inner)) != 0
    devices = [
        subprocess.Popen(
            [sys.executable, "-m", "paota", "device", f"localhost:{port}", "--keys", str(keys), "--device", str(k),
             "--devices", "2"],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        for k in range(2)
    ]  # fmt: skip
    try:
        code = process.wait(timeout=LIMIT_S)
    finally:
        for device in devices:
            device.send_signal(signal.SIGTERM)
            device.wait(timeout=30)
    told = (tmp_path / "deploy.log").read_text()
    assert code == 0, told
    result = paota.load(tmp_path / "run")
    assert set(result.devices["device"].tolist()) == {0, 1}, told
    wait_for("nobody is left", lambda: not processes_naming(str(keys)), 30.0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_signal_leaves_an_orphan(server: tuple[subprocess.Popen[bytes], int, Path], number: signal.Signals) -> None:
    process, _, keys = server
    superlink_port(keys)
    os.kill(process.pid, number)
    process.wait(timeout=30)
    wait_for("nobody is left", lambda: not processes_naming(str(keys)), 30.0)
