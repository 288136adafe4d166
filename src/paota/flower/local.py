"""A whole federation on one machine: SuperLink and SuperNodes as real processes on loopback, all stopped at the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..errors import UserError
from . import require_flower

HOST = "127.0.0.1"
CONNECTION = "local"


class LocalFederation:
    """Use as a context manager. `folder` gets logs, keys and Flower's own files; nothing is written elsewhere.

    With `secure` (the default) the SuperLink speaks TLS only and accepts only SuperNodes whose keys were registered.
    Every process leads a process group of its own: a SuperNode's helpers die with it.
    """

    def __init__(
        self, folder: Path, devices: int, *, secure: bool = True, environment: Mapping[str, str] | None = None
    ) -> None:
        require_flower()
        self.folder, self.devices, self.secure = folder.resolve(), devices, secure
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
            # Flower starts a process for every message: let them share what JAX compiles.
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "jax-cache"),
            "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
            "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
            **(environment or {}),
        }

    def __enter__(self) -> LocalFederation:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write_connection()
            self._start_superlink()
            if self.secure:
                self._register_nodes()
            for device in range(self.devices):
                self.start_node(device)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_node(self, device: int) -> None:
        """SuperNode of device k: `partition-id` k of `num-partitions` K."""
        command = [
            "flower-supernode", "--superlink", f"{HOST}:{self.port}", "--host", HOST, "--port", str(free_port()),
            "--node-config", f"partition-id={device} num-partitions={self.devices}",
        ]  # fmt: skip
        if self.secure:
            command += ["--root-certificates", str(self.folder / "keys" / "ca.crt")]
            command += ["--auth-supernode-private-key", str(self.folder / "keys" / f"node-{device}")]
        else:
            command.append("--insecure")
        self._start(f"node-{device}", command)

    def kill_node(self, device: int) -> None:
        """As if its power had failed: no goodbye."""
        self._stop(f"node-{device}", signal.SIGKILL)

    def run_app(self, app: Path, run_config: Mapping[str, Any] | None = None, **popen: Any) -> subprocess.Popen[bytes]:
        """`flwr run`, following its log; its exit code does not tell how the run went."""
        words = " ".join(f"{key}={toml_word(value)}" for key, value in (run_config or {}).items())
        command = [self._tool("flwr"), "run", str(app), CONNECTION, "--stream"]
        command += ["--run-config", words] if words else []
        process = subprocess.Popen(command, env=self.environment, cwd=self.folder, start_new_session=True, **popen)
        self.processes[f"run-{len(self.processes)}"] = process
        return process

    def stop(self) -> None:
        """End every process group that was started here, politely first, and wait until all are gone."""
        groups = _groups_below([process.pid for process in self.processes.values()])
        for how, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0)):
            for group in groups:
                _signal_group(group, how)
            latest = time.monotonic() + patience_s
            while groups and time.monotonic() < latest:
                for process in self.processes.values():
                    process.poll()  # reap the leaders: a zombie would count as alive
                groups = {group for group in groups if _signal_group(group, 0)}
                time.sleep(0.05)
        self._logs += [p.stdout for p in self.processes.values() if p.stdout is not None]
        self.processes.clear()
        for log in self._logs:
            log.close()
        self._logs.clear()

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _start_superlink(self) -> None:
        command = [
            "flower-superlink",
            "--host",
            HOST,
            "--port",
            str(self.port),
            "--disable-runtime-dependency-installation",
        ]
        if self.secure:
            from .certificates import make_certificates

            keys = self.folder / "keys"
            make_certificates(keys)
            command += ["--ssl-ca-certfile", str(keys / "ca.crt"), "--ssl-certfile", str(keys / "server.crt")]
            command += ["--ssl-keyfile", str(keys / "server.key"), "--enable-supernode-auth"]
        else:
            command.append("--insecure")
        self._start("superlink", command)
        latest = time.monotonic() + 60
        while not _listening(self.port):
            if self.processes["superlink"].poll() is not None or time.monotonic() > latest:
                raise UserError(f"the SuperLink did not start: see '{self.folder / 'superlink.log'}'")
            time.sleep(0.1)

    def _register_nodes(self) -> None:
        from .certificates import make_node_key

        for device in range(self.devices):
            private = make_node_key(self.folder / "keys", f"node-{device}")
            command = [self._tool("flwr"), "supernode", "register", f"{private}.pub", CONNECTION]
            done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120)
            if done.returncode:
                raise UserError(
                    f"the SuperNode of device {device} could not be registered: {done.stderr or done.stdout}"
                )

    def _write_connection(self) -> None:
        """The SuperLink under the name `local` in Flower's own configuration file."""
        security = f'root-certificates = "{self.folder / "keys" / "ca.crt"}"' if self.secure else "insecure = true"
        home = self.folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        address = f'address = "{HOST}:{self.port}"'
        lines = ["[superlink]", f'default = "{CONNECTION}"', "", f"[superlink.{CONNECTION}]", address, security]
        (home / "config.toml").write_text("\n".join(lines) + "\n")

    def _start(self, name: str, command: list[str]) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        self._logs.append(log)
        self.processes[name] = subprocess.Popen(
            [self._tool(command[0]), *command[1:]], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def _stop(self, name: str, how: signal.Signals) -> None:
        process = self.processes.pop(name)
        for group in _groups_below([process.pid]):
            _signal_group(group, how)
        process.wait(timeout=10)

    def _tool(self, name: str) -> str:
        found = shutil.which(name, path=self.environment["PATH"])
        if found is None:
            raise UserError(
                f"the command '{name}' of Flower is missing beside {sys.executable}: pip install 'paota[flower]'"
            )
        return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def _groups_below(leaders: Sequence[int]) -> set[int]:
    """The process groups of `leaders` and all their descendants: some of Flower's helpers lead groups of their own."""
    try:
        listing = subprocess.run(["ps", "-eo", "pid=,ppid=,pgid="], capture_output=True, text=True, check=True).stdout
    except (
        OSError,
        subprocess.CalledProcessError,
    ):  # no `ps` here: helpers notice on their own that the leader is gone
        return set(leaders)
    rows = [tuple(map(int, line.split())) for line in listing.splitlines()]
    family = set(leaders)
    while True:
        grown = family | {pid for pid, parent, _ in rows if parent in family}
        if grown == family:
            return set(leaders) | {group for pid, _, group in rows if pid in family}
        family = grown


def _signal_group(group: int, how: int) -> bool:
    """Whether there was anybody left to get it."""
    try:
        os.killpg(group, how)
    except (ProcessLookupError, PermissionError):  # gone, or by now somebody else's
        return False
    return True


def toml_word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)
