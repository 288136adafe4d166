"""Real processes that are started together and all end together, however this one ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from ..base.errors import UserError, install_command
from . import fork_server as warm
from . import reaper as guard
from . import require_flower, superexec

HOST = "127.0.0.1"
OUTCOME = "PAOTA_OUTCOME"  # environment variable: the file in which the ServerApp says how its deployment ended


class Processes:
    """Use as a context manager; `begin` starts what there is to start.

    `folder` gets the logs and Flower's own files; nothing is written elsewhere. Every process leads a process group of
    its own, and a guard ends the groups when this process is gone; if `folder` is `temporary`, it removes that, too.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None, *, temporary: bool = False) -> None:
        require_flower()
        self.folder, self.temporary = folder.resolve(), temporary
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._guard: subprocess.Popen[bytes] | None = None
        self._logs: list[IO[bytes]] = []
        self.environment = {
            **os.environ,
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "JAX_COMPILATION_CACHE_DIR": str(self.folder / "jax-cache"),
            "JAX_PERSISTENT_COMPILATION_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PLATFORMS": os.environ.get("JAX_PLATFORMS", "cpu"),
            "PATH": os.pathsep.join(
                [str(self.folder / "bin"), sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
            ),
            **(environment or {}),
        }

    def begin(self) -> None:
        """Start the processes."""

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._guard = subprocess.Popen(
                [sys.executable, "-IS", guard.__file__, *([str(self.folder)] if self.temporary else [])],
                stdin=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            superexec.install(self.folder / "bin")
            self.begin()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(
        self, name: str, command: list[str], environment: Mapping[str, str] | None = None, **popen: Any
    ) -> subprocess.Popen[bytes]:
        """Start `command` under `name`, into a log of that name unless `popen` says otherwise."""
        if "stdout" not in popen:
            log = (self.folder / f"{name}.log").open("ab")
            self._logs.append(log)
            popen |= {"stdout": log, "stderr": subprocess.STDOUT}
        process = subprocess.Popen(
            [self.tool(command[0]), *command[1:]], env=environment or self.environment, cwd=self.folder,
            start_new_session=True, **{"stdin": subprocess.DEVNULL, **popen},
        )  # fmt: skip
        self.running[name] = process
        self._tell_guard(process.pid)
        return process

    def start_warm(self) -> None:
        """One server of warm client processes, and one trainer, for all SuperNodes that are started here."""
        folder = self.folder / "warm"
        folder.mkdir(mode=0o700, exist_ok=True)
        warm.install(folder, self.tool(warm.COMMAND))
        self.start("warm", [sys.executable, "-m", "paota.deploy.fork_server", str(folder)], stdin=subprocess.PIPE)

    def start_supernode(
        self,
        name: str,
        superlink: str,
        node_config: str,
        *,
        look_every_s: float | None,
        security: list[str],
        through: str | None = None,
        **popen: Any,
    ) -> None:
        """A SuperNode that uses the warm client processes; with `look_every_s` None one as Flower starts it.

        `through`: the socket file that leads to `superlink`, where this process cannot reach it itself.
        """
        arguments = [
            "--superlink", superlink, "--host", HOST, "--port", str(free_port()), "--node-config", node_config, *security,
        ]  # fmt: skip
        if look_every_s is None:
            self.start(name, ["flower-supernode", *arguments], **popen)
            return
        ours = ["--look-every-s", str(look_every_s), *(["--through", through] if through else [])]
        command = [sys.executable, "-m", "paota.deploy.supernode", *ours, *arguments]
        path = os.pathsep.join([str(self.folder / "warm" / "bin"), self.environment["PATH"]])
        self.start(name, command, {**self.environment, "PATH": path}, **popen)

    def kill(self, name: str) -> None:
        """As if its power had failed: no goodbye."""
        process = self.running.pop(name)
        for group in guard.groups_below([process.pid]):
            guard.signal_group(group, signal.SIGKILL)
        process.wait(timeout=10)
        self._tell_guard(-process.pid)  # its number may soon be somebody else's

    def stop(self) -> None:
        """End every process group that was started here, politely first, and wait until all are gone."""
        groups = guard.groups_below([process.pid for process in self.running.values()])
        for how, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0)):
            for group in groups:
                guard.signal_group(group, how)
            latest = time.monotonic() + patience_s
            while groups and time.monotonic() < latest:
                for process in self.running.values():
                    process.poll()  # reap the leaders: a zombie would count as alive
                groups = {group for group in groups if guard.signal_group(group, 0)}
                time.sleep(0.05)
        streams = [stream for p in self.running.values() for stream in (p.stdin, p.stdout) if stream is not None]
        self.running.clear()
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.close()  # it finds nobody left
            self._guard.wait()
        for stream in [*streams, *self._logs]:
            stream.close()
        self._logs.clear()

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def tool(self, name: str) -> str:
        """The path of a command beside this Python."""
        found = shutil.which(name, path=self.environment["PATH"])
        if found is None:
            raise UserError(
                f"the command '{name}' of Flower is missing beside {sys.executable}: {install_command('flower')}"
            )
        return found

    def _tell_guard(self, pid: int) -> None:
        """Of a process to end (negative: no longer to end) when this one is gone."""
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(f"{pid}\n".encode())
            self._guard.stdin.flush()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
