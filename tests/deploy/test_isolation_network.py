"""Several machines as far as one can be: six network namespaces with addresses of their own, joined by slow links.

Needs root and iproute2. Where the kernel has netem the links delay and lose packets, else they are only slow (tbf).
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from helpers.listening import FORBIDDEN, processes_naming, superlink_port

import paota
from paota.cli import main

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux") or os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")),
        reason="needs root, ip and tc",
    ),
]
DEVICES = 5
EXPERIMENT = f"""
name = "network"
rounds = 8
data = {{dataset = "synthetic", devices = {DEVICES}, sizes = [40]}}
model = {{name = "softmax"}}
training = {{local_steps = 2, batch_size = 8}}
timing = {{period_s = 8.0}}
algorithms = [{{name = "paota", payload = "update"}}]
"""
LIMIT_S = 1500.0
SERVER = "10.88.0.1"
NUMBERS = itertools.count()
# Other users may not reach the one that runs the tests.
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable


def sh(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, check=check, capture_output=True, text=True)


class Machines:
    """`server` and `device-K`: namespaces on one bridge. `inside` starts a command in one of them."""

    def __init__(self) -> None:
        # A new name each time: the kernel removes links some time after their namespace.
        self.mark = f"p{os.getpid() % 10_000}{next(NUMBERS)}"
        self.bridge = f"{self.mark}br"
        self.names = ["server", *(f"device-{k}" for k in range(DEVICES))]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def build(self) -> None:
        sh("ip", "link", "add", self.bridge, "type", "bridge")
        sh("ip", "link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            space, inner, outer = self.space(name), "eth0", f"{self.mark}v{i}"
            sh("ip", "netns", "add", space)
            sh("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", space)
            sh("ip", "link", "set", outer, "master", self.bridge, "up")
            address = SERVER if name == "server" else f"10.88.0.{10 + i}"
            sh("ip", "-n", space, "addr", "add", f"{address}/24", "dev", inner)
            for link in ("lo", inner):
                sh("ip", "-n", space, "link", "set", link, "up")
            if name != "server":
                self.slow_link(space, inner)

    def slow_link(self, space: str, link: str) -> None:
        queue = ["tc", "-n", space, "qdisc", "add", "dev", link, "root"]
        if sh(*queue, "netem", "delay", "60ms", "20ms", "loss", "1%", check=False).returncode != 0:
            sh(*queue, "tbf", "rate", "4mbit", "burst", "32kbit", "latency", "400ms")

    def set_link(self, name: str, state: str) -> None:
        sh("ip", "-n", self.space(name), "link", "set", "eth0", state)

    def inside(self, name: str, folder: Path, *words: str) -> subprocess.Popen[bytes]:
        with (folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.space(name), sys.executable, "-m", "paota", *words],
                cwd=folder, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = process
        return process

    def space(self, name: str) -> str:
        return f"{self.mark}-{name}"

    def remove(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(timeout=60)
        for name in self.names:
            sh("ip", "netns", "del", self.space(name), check=False)
        sh("ip", "link", "del", self.bridge, check=False)


@pytest.fixture
def machines() -> Iterator[Machines]:
    made = Machines()
    try:
        made.build()
        yield made
    finally:
        made.remove()


def wait_for(what: str, condition, process: subprocess.Popen[bytes], log: Path) -> None:  # type: ignore[no-untyped-def]
    latest = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < latest, f"{what}: {log.read_text()[-2000:]}"
        assert process.poll() is None, f"{what}: {log.read_text()[-2000:]}"
        time.sleep(0.5)


# An attacker with nothing but ca.crt: what does each path of the gateway answer, and is anything else
# reachable: the SuperLink's port, the socket file between the two, the SuperLink's network namespace.
ATTACK = """
import http.client, json, socket, ssl, subprocess, sys
host, inner, ca, superlink_pid, socket_file, *paths = sys.argv[1:]
def status(path, method):
    trust = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection(host, 8000, context=trust, timeout=30)
    connection.putrequest(method, path, skip_accept_encoding=True)
    connection.putheader("content-length", "0")
    connection.endheaders()
    return connection.getresponse().status
def reaches(family, address):
    with socket.socket(family) as probe:
        probe.settimeout(3)
        try:
            return probe.connect_ex(address) == 0
        except OSError:
            return False
enter = ["nsenter", f"--net=/proc/{superlink_pid}/ns/net", "true"]
print(json.dumps({
    "answers": sorted({status(path, method) for path in paths for method in ("GET", "POST")}),
    "superlink": [where for where in (host, "127.0.0.1") if reaches(socket.AF_INET, (where, int(inner)))],
    "socket": reaches(socket.AF_UNIX, socket_file),
    "namespace": subprocess.run(enter, capture_output=True).returncode == 0,
}))
"""
NOBODY = 65534


def test_an_attacker_on_another_machine_or_of_another_user_reaches_the_fleet_api_only(
    machines: Machines, tmp_path: Path
) -> None:
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    keys, public = tmp_path / "keys", Path(tempfile.mkdtemp()) / "ca.crt"
    assert main(["keys", str(keys), "--devices", str(DEVICES), "--names", SERVER]) == 0
    public.parent.chmod(0o755)
    shutil.copy(keys / "ca.crt", public)
    server = machines.inside("server", tmp_path, "deploy", "e.toml", "--listen", f"{SERVER}:8000", "--keys", str(keys))
    inner = superlink_port(keys)
    named = processes_naming(str(keys))
    superlink = next(pid for pid, words in named.items() if "superlink" in words)
    gateway = next(words for words in named.values() if "paota.deploy.gateway" in words)
    socket_file = gateway[gateway.index("paota.deploy.gateway") + 1]

    def attack(place: str, user: int) -> dict[str, Any]:
        words = [SERVER, str(inner), str(public), str(superlink), socket_file, *FORBIDDEN]
        done = subprocess.run(
            ["ip", "netns", "exec", machines.space(place), "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
             SYSTEM_PYTHON, "-c", ATTACK, *words],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    wait_for(
        "the gateway",
        lambda: sh(*gateway_probe(machines), check=False).returncode == 0,
        server,
        tmp_path / "server.log",
    )
    closed = {"answers": [404], "superlink": [], "socket": False, "namespace": False}
    assert attack("server", NOBODY) == closed  # another user of the same machine
    assert attack("device-0", NOBODY) == closed  # another machine
    from_a_device = attack("device-0", 0)  # root there owns this machine, too, and so enters its files and namespaces
    assert (from_a_device["answers"], from_a_device["superlink"]) == ([404], [])


def gateway_probe(machines: Machines) -> list[str]:
    probe = f"import socket; socket.create_connection(('{SERVER}', 8000), 5)"
    return ["ip", "netns", "exec", machines.space("device-0"), sys.executable, "-c", probe]


def test_a_device_disappears_and_returns_and_the_server_is_killed_and_goes_on(
    machines: Machines, tmp_path: Path
) -> None:
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    keys, log = tmp_path / "keys", tmp_path / "server.log"
    assert main(["keys", str(keys), "--devices", str(DEVICES), "--names", SERVER]) == 0
    listen = ["--listen", f"{SERVER}:8000", "--keys", str(keys)]
    server = machines.inside("server", tmp_path, "deploy", "e.toml", *listen, "--out", "run")
    for k in range(DEVICES):
        words = ["device", f"{SERVER}:8000", "--keys", str(keys), "--device", str(k), "--devices", str(DEVICES)]
        machines.inside(f"device-{k}", tmp_path, *words)
    wait_for("the second round", lambda: "paota round 2 " in log.read_text(), server, log)
    machines.set_link("device-4", "down")  # the device is out of reach ...
    wait_for("the fourth round", lambda: "paota round 4 " in log.read_text(), server, log)
    machines.set_link("device-4", "up")  # ... and comes back
    os.kill(server.pid, signal.SIGKILL)
    server.wait(timeout=30)
    before = log.read_text()
    server = machines.inside("server", tmp_path, "deploy", "--resume", "run", *listen)
    assert server.wait(timeout=LIMIT_S) == 0, log.read_text()[-3000:]
    assert "resuming from version" in log.read_text()[len(before) :]
    result = paota.load(tmp_path / "run")
    (only,) = result.trajectories
    assert len(only.metrics["round"]) == 9
    assert set(only.devices["device"].tolist()) == set(range(DEVICES))
    assert 4 in only.devices["device"][only.devices["round"] > 4], "the device that walked away took part again"
    told = json.loads((tmp_path / "run" / "run.json").read_text())["deployment"]["algorithms"]["paota"]
    assert told["restarts"] == 1
