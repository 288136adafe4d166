"""The processes of a deployment on one machine: started together, and ended together however this process ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

from ..base.errors import UserError, install_command
from ..base.files import filled
from . import isolation, require_flower
from .device_processes import CLIENT_SOCKET

HOST = "127.0.0.1"
OUTCOME = "PAOTA_OUTCOME"  # environment variable: the file in which the ServerApp says how its deployment ended
PROGRAMS = Path(__file__).parent / "programs"
CONNECTION = "local"
Output = Literal["log", "pipe", "inherit"]
START_S = 180.0  # for the SuperLink to listen: seconds, unless the machine is very busy
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 30.0  # before a device tries again
LASTING_S = 30.0  # a SuperNode that lived so long had reached its server


class Processes:
    """A context manager for processes. `begin` starts them.

    `folder` gets the logs and Flower's own files; nothing is written elsewhere. Every process leads a process group. A
    reaper (`isolation`) ends the groups when this process is gone, and then removes a `temporary` folder.
    """

    def __init__(self, folder: Path, *, temporary: bool = False) -> None:
        require_flower()
        self.folder, self.temporary = folder.resolve(), temporary
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._reaper: subprocess.Popen[bytes] | None = None
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
        }

    def begin(self) -> None:
        """Start the processes."""

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._reaper = subprocess.Popen(
                [sys.executable, "-IS", isolation.__file__, "reap", *([str(self.folder)] if self.temporary else [])],
                stdin=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            _install(self.folder / "bin", "flower-superexec")
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
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, *,
        stdin: int = subprocess.DEVNULL, output: Output = "log",
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        """Start `command` under `name`. Its output goes to a log of that name, to a pipe, or where this process writes."""
        log: IO[bytes] | int | None = {"pipe": subprocess.PIPE, "inherit": None}.get(output)
        if output == "log":
            log = (self.folder / f"{name}.log").open("ab")
            self._logs.append(log)
        process = subprocess.Popen(
            [self.tool(command[0]), *command[1:]], env=environment or self.environment, cwd=self.folder, stdin=stdin,
            stdout=log, stderr=None if output == "inherit" else subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.running[name] = process
        self._tell_reaper(process.pid)
        return process

    def start_warm(self) -> None:
        """Start one fork server with one trainer for all SuperNodes of this machine."""
        folder = self.folder / "warm"
        folder.mkdir(mode=0o700, exist_ok=True)
        original = self.tool("flwr-clientapp")
        _install(folder / "bin", "flwr-clientapp", SOCKET=repr(str(folder / CLIENT_SOCKET)), ORIGINAL=repr(original))
        command = [sys.executable, "-m", "paota.deploy.device_processes", "fork", str(folder)]
        self.start("warm", command, stdin=subprocess.PIPE)

    def start_supernode(
        self, name: str, superlink: str, node_config: str, *, look_every_s: float | None, security: list[str],
        through: str | None = None, output: Output = "log",
    ) -> None:  # fmt: skip
        """Start a SuperNode that uses the fork server.

        Args:
            name: of the process.
            superlink: the address of the server, HOST:PORT.
            node_config: Flower's.
            look_every_s: longest pause between two looks for work; None: a SuperNode as Flower starts it.
            security: Flower's options for TLS and the node's key.
            through: the socket file that leads to `superlink`, where this process cannot reach it itself.
            output: as for `start`.
        """
        arguments = [
            "--superlink", superlink, "--host", HOST, "--port", str(free_port()), "--node-config", node_config, *security,
        ]  # fmt: skip
        if look_every_s is None:
            self.start(name, ["flower-supernode", *arguments], output=output)
            return
        ours = ["--look-every-s", str(look_every_s), *(["--through", through] if through else [])]
        command = [sys.executable, "-m", "paota.deploy.flower_programs", "supernode", *ours, *arguments]
        path = os.pathsep.join([str(self.folder / "warm" / "bin"), self.environment["PATH"]])
        self.start(name, command, {**self.environment, "PATH": path}, output=output)

    def kill(self, name: str) -> None:
        """Kill the process without cleanup, with all that it has started."""
        process = self.running.pop(name)
        for group in isolation.groups_below([process.pid]):
            isolation.signal_group(group, signal.SIGKILL)
        process.wait(timeout=10)
        self._tell_reaper(-process.pid)  # its number may soon belong to another process

    def stop(self) -> None:
        """End every process group that was started here, first with SIGTERM, and wait until all are gone."""
        groups = isolation.groups_below([process.pid for process in self.running.values()])
        for number, patience_s in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 10.0)):
            for group in groups:
                isolation.signal_group(group, number)
            latest = time.monotonic() + patience_s
            while groups and time.monotonic() < latest:
                for process in self.running.values():
                    process.poll()  # reap the leaders: a zombie would count as alive
                groups = {group for group in groups if isolation.signal_group(group, 0)}
                time.sleep(0.05)
        streams = [stream for p in self.running.values() for stream in (p.stdin, p.stdout) if stream is not None]
        self.running.clear()
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.close()  # all groups are gone
            self._reaper.wait()
        for stream in [*streams, *self._logs]:
            stream.close()
        self._logs.clear()

    def tool(self, name: str) -> str:
        """Return the path of a command beside this Python."""
        found = shutil.which(name, path=self.environment["PATH"])
        if found is None:
            raise UserError(
                f"the command '{name}' of Flower is missing beside {sys.executable}: {install_command('flower')}"
            )
        return found

    def _tell_reaper(self, pid: int) -> None:
        """Name a process to end when this one is gone; a negative number takes it off the list."""
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.write(f"{pid}\n".encode())
            self._reaper.stdin.flush()


class LocalFederation(Processes):
    """A SuperLink and `devices` SuperNodes on loopback, all stopped at the end.

    Args:
        folder: for logs and Flower's own files.
        devices: K.
        secure: TLS only, and only SuperNodes whose keys were registered.
        keys: a folder made by `certificates`; None: new keys.
        nodes: False where the SuperNodes are on other machines.
        warm: False starts a process for each message, as Flower does.
    """

    def __init__(
        self, folder: Path, devices: int, *, secure: bool = True, keys: Path | None = None, nodes: bool = True,
        warm: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(folder)
        self.devices, self.secure, self.nodes, self.warm = devices, secure, nodes, warm
        self.keys = (keys or self.folder / "keys").resolve()
        self.port = free_port()
        self.outcome = self.folder / "outcome.json"  # written by the ServerApp of the last run
        self.node_ids: list[int] = []  # Flower's numbers, by device: the key identifies the device

    def begin(self) -> None:
        self._write_connection()
        self._start_superlink()
        if self.secure:
            self._register_nodes()
        if self.nodes:
            if self.warm:
                self.start_warm()
            for device in range(self.devices):
                self.start_node(device)

    def start_node(self, device: int) -> None:
        """Start the SuperNode of device k: `partition-id` k of `num-partitions` K."""
        self.start_supernode(
            f"node-{device}", f"{HOST}:{self.port}", _node_config(device, self.devices),
            look_every_s=max(0.25, 0.025 * self.devices) if self.warm else None,  # all together 40 times per second
            security=_security(self.keys, device) if self.secure else ["--insecure"],
        )  # fmt: skip

    def run_app(self, app: Path, run_config: Mapping[str, object]) -> subprocess.Popen[bytes]:
        """Start `flwr run`, which writes the app's log to a pipe. Its exit code does not say how the run ended."""
        words = " ".join(f"{key}={toml_word(value)}" for key, value in run_config.items())
        command = ["flwr", "run", str(app), CONNECTION, "--stream", *(["--run-config", words] if words else [])]
        return self.start(f"run-{len(self.running)}", command, output="pipe")

    def _start_superlink(self) -> None:
        command = [
            sys.executable, "-m", "paota.deploy.flower_programs", "superlink", "--host", HOST, "--port", str(self.port),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        if self.secure:
            from .certificates import make_certificates  # start-up time

            if not (self.keys / "ca.crt").exists():
                make_certificates(self.keys)
            command += ["--ssl-ca-certfile", str(self.keys / "ca.crt"), "--ssl-certfile", str(self.keys / "server.crt")]
            command += ["--ssl-keyfile", str(self.keys / "server.key"), "--enable-supernode-auth"]
        else:
            command.append("--insecure")
        self.outcome.unlink(missing_ok=True)
        superlink = self.start("superlink", command, {**self.environment, OUTCOME: str(self.outcome)})
        latest = time.monotonic() + START_S
        while not listening(self.port):
            if superlink.poll() is not None or time.monotonic() > latest:
                raise UserError(f"the SuperLink did not start: see '{self.folder / 'superlink.log'}'")
            time.sleep(0.1)

    def _register_nodes(self) -> None:
        """Make the missing keys and register all of them."""
        from .certificates import make_node_key  # start-up time

        for device in range(self.devices):
            if not (self.keys / f"node-{device}.pub").exists():
                make_node_key(self.keys, f"node-{device}")
        public = [str(self.keys / f"node-{device}.pub") for device in range(self.devices)]
        command = [sys.executable, "-m", "paota.deploy.flower_programs", "register", CONNECTION, *public]
        patience_s = 120 + 5 * self.devices
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=patience_s)
        self.node_ids = [int(number) for number in re.findall(r'"node-id":\s*"?(\d+)', done.stdout)]
        if done.returncode or len(self.node_ids) != self.devices:
            raise UserError(f"the SuperNodes could not be registered: {(done.stderr or done.stdout).strip()[-500:]}")

    def _write_connection(self) -> None:
        """Name the SuperLink `local` in Flower's own configuration file."""
        security = f'root-certificates = "{self.keys / "ca.crt"}"' if self.secure else "insecure = true"
        home = self.folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        address = f'address = "{HOST}:{self.port}"'
        lines = ["[superlink]", f'default = "{CONNECTION}"', "", f"[superlink.{CONNECTION}]", address, security]
        (home / "config.toml").write_text("\n".join(lines) + "\n")


class Device(Processes):
    """This machine as device k of a federation whose server is elsewhere.

    Args:
        folder: for logs and Flower's own files; it is removed at the end.
        server: the address of the server, HOST:PORT.
        keys: the folder with `ca.crt` and `node-K`.
        device: k.
        devices: K.
        data: a file with the device's own data; None: its part of the experiment's data set.
        through: a socket file that leads to the server; None: the network of this process.
    """

    def __init__(
        self, folder: Path, server: str, *, keys: Path, device: int, devices: int, data: str | None = None,
        through: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(folder, temporary=True)
        self.server, self.through, self.security = server, through, _security(keys, device)
        self.node_config = _node_config(device, devices) + (f" data={toml_word(data)}" if data else "")

    def begin(self) -> None:
        self.start_warm()
        self._start_node()

    def wait(self, show: Callable[[str], None] = print) -> int:
        """Wait as long as the server may come back. Return the exit code of a SuperNode that cannot take part.

        A SuperNode ends when a restarted server does not know it yet. Another SuperNode then takes its place.
        """
        pause_s, has_worked = FIRST_PAUSE_S, False
        while True:
            began = time.monotonic()
            code = self.running["node"].wait()
            lasted = time.monotonic() - began > LASTING_S
            has_worked |= lasted or code == 0
            if not has_worked:
                return code
            pause_s = FIRST_PAUSE_S if lasted else min(2 * pause_s, LAST_PAUSE_S)
            show(f"the server at {self.server} does not know this device (any more); again in {pause_s:g} s")
            time.sleep(pause_s)
            self.kill("node")
            self._start_node()

    def _start_node(self) -> None:
        self.start_supernode(
            "node", self.server, self.node_config, look_every_s=0.25, security=self.security, through=self.through,
            output="inherit",
        )  # fmt: skip


def _node_config(device: int, devices: int) -> str:
    return f"partition-id={device} num-partitions={devices}"


def _security(keys: Path, device: int) -> list[str]:
    return ["--root-certificates", str(keys / "ca.crt"), "--auth-supernode-private-key", str(keys / f"node-{device}")]


def toml_word(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)


def _install(folder: Path, name: str, **words: str) -> None:
    """Write the executable `programs/NAME.in` into `folder`, with `words` for @WORD@."""
    folder.mkdir(parents=True, exist_ok=True)
    text = filled(PROGRAMS / f"{name}.in", {"PYTHON": sys.executable, **words})
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o700)


def free_port() -> int:
    """Return a port of loopback on which no process listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> bool:
    """Return whether a process listens on this port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
