"""Isolation of a deployment's processes: another user of the machine reaches nothing, and the reaper ends everything.

The other user has no key. All processes are real.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from helpers.listening import LIMIT_S, Server, listening_server, wait_for

import paota
from paota.deploy import isolation

NEIGHBOUR = 65534
# Another user may not reach the Python that runs the tests.
SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable

# Tries every way into the processes that name `mark`, and those that they started, until it is ended. Writes what it got,
# one JSON line each: a task of the SuperNode's runtime API (taking it also drops it: no other process gets it), an open
# socket file, a network namespace, a secret among arguments or in the environment.
ATTACK = """
import glob, http.client, json, os, socket, subprocess, sys, time

mark, temporary, request, headers = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]), json.loads(sys.argv[4])
def read(path):
    try:
        with open(path, "rb") as stream:
            return stream.read().decode(errors="replace")
    except OSError:
        return ""
def got(what, detail):
    print(json.dumps([what, detail]), flush=True)
def targets():
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
    words = {pid: read(f"/proc/{pid}/cmdline").split("\\0") for pid in pids}
    parents = {pid: int((read(f"/proc/{pid}/stat").rpartition(")")[2].split() or "00")[1]) for pid in pids}
    found, grown = set(), {pid for pid in pids if any(mark in word for word in words[pid])}
    while found != grown:
        found, grown = grown, grown | {pid for pid in pids if parents[pid] in grown}
    return {pid: words[pid] for pid in found}
got("user", os.getuid())
while True:
    ports = set()
    for pid, words in targets().items():
        ports.update(int(words[at + 1]) for at, word in enumerate(words) if word == "--port")
        if "--token" in words:
            got("token", words)
        if read(f"/proc/{pid}/environ"):
            got("environment", words)
        if subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "true"], capture_output=True).returncode == 0:
            got("namespace", words)
    for port in ports:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("POST", "/v1/runtime/acquire-task", request, headers)
            answer = connection.getresponse()
            got("runtime API", answer.status)
            if task := answer.read():
                got("task", task.hex())
        except (OSError, http.client.HTTPException):
            pass
        connection.close()
    for folder in glob.glob(f"{temporary}/*"):
        for name in ("warm/warm.sock", "warm/trainer.sock", "s", "s.tls"):
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(f"{folder}/{name}") == 0:
                    got("socket", f"{folder}/{name}")
    time.sleep(0.02)
"""


@contextmanager
def neighbour(server: Server) -> Iterator[None]:
    """The attack as a process of another user; what it found is in the file `found`."""
    from flwr.proto.runtime_pb2 import AcquireTaskRequest
    from flwr.supercore.constant import TaskType
    from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
    from flwr.supercore.runtime_version_compatibility import RuntimeVersionMetadata

    request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP]).SerializeToString()
    versions = dict(RuntimeVersionMetadata.from_local_component("SuperExec").as_metadata())
    headers = json.dumps({"content-type": PROTOBUF_MEDIA_TYPE, **versions})
    server.temporary.chmod(0o755)  # as /tmp is: what is in there must protect itself
    command = [SYSTEM_PYTHON, "-c", ATTACK, str(server.folder), str(server.temporary), request.hex(), headers]
    with (server.folder / "found").open("wb") as found:
        process = subprocess.Popen(command, stdout=found, cwd="/", user=NEIGHBOUR, group=NEIGHBOUR, extra_groups=[])
    try:
        yield
        assert process.poll() is None, "the attack ended early"
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.geteuid() != 0,
    reason="needs root, to become another user of the machine",
)
def test_another_user_of_a_devices_machine_gets_nothing_and_changes_nothing(tmp_path: Path) -> None:
    with listening_server(tmp_path) as server, neighbour(server), server.devices() as devices:
        code = server.process.wait(timeout=LIMIT_S)
        assert {device.poll() for device in devices} == {None}, (tmp_path / "device-0.log").read_text()
    found = [json.loads(line) for line in (tmp_path / "found").read_text().splitlines()]
    assert found == [["user", NEIGHBOUR]], found[:5]
    assert code == 0, server.told
    result = paota.load(tmp_path / "run")
    assert set(result.devices["device"].tolist()) == {0, 1}, server.told
    assert result.info["deployment"]["algorithms"]["paota"]["incidents"] == [], server.told


def test_the_reaper_survives_a_sigterm_to_all_processes_of_a_service(tmp_path: Path) -> None:
    """A service manager sends SIGTERM to the reaper too: it still ends the others and removes the folder."""
    folder = tmp_path / "paota-device-x"
    folder.mkdir()
    ignores = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    command = [sys.executable, "-c", ignores]
    stubborn = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    words = [sys.executable, "-IS", isolation.__file__, "reap", str(folder)]
    reaper = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    assert reaper.stdin is not None
    reaper.stdin.write(f"{stubborn.pid}\n".encode())
    reaper.stdin.flush()
    status = Path(f"/proc/{reaper.pid}/status")
    ignored = lambda: int(status.read_text().partition("SigIgn:")[2].split()[0], 16)  # noqa: E731
    if status.exists():
        wait_for("the reaper has begun", lambda: ignored() >> (signal.SIGTERM - 1) & 1, 30.0)
    reaper.terminate()
    reaper.stdin.close()
    assert reaper.wait(timeout=60) == 0
    assert stubborn.wait(timeout=60) == -signal.SIGKILL
    stubborn.stdout.close()
    assert not folder.exists()
