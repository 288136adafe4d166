"""Federations of real processes: SuperLink and SuperNodes on one machine, or one machine as a single device."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from .processes import HOST, OUTCOME, Processes, free_port, listening

CONNECTION = "local"
START_S = 180.0  # for the SuperLink to listen: seconds, unless the machine is very busy
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 30.0  # before a device tries again
LASTING_S = 30.0  # a SuperNode that lived so long had reached its server
REGISTER = """
import sys
from flwr.cli.app import app
for key in sys.argv[2:]:
    app(["supernode", "register", key, sys.argv[1], "--format", "json"], standalone_mode=False)
"""


class LocalFederation(Processes):
    """A SuperLink and `devices` SuperNodes on loopback, all stopped at the end.

    With `secure` (the default) the SuperLink speaks TLS only and accepts only SuperNodes whose keys were registered;
    `keys` is a folder made by `certificates`, one of its own if there is none. With `nodes=False` the SuperNodes are
    elsewhere; with `warm=False` they start a process for each message, as Flower does.
    """

    def __init__(
        self, folder: Path, devices: int, *, secure: bool = True, environment: Mapping[str, str] | None = None,
        keys: Path | None = None, nodes: bool = True, warm: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(folder, environment)
        self.devices, self.secure, self.nodes, self.warm = devices, secure, nodes, warm
        self.keys = (keys or self.folder / "keys").resolve()
        self.port = free_port()
        self.outcome = self.folder / "outcome.json"  # written by the ServerApp of the last run
        self.node_ids: list[int] = []  # by device, as Flower numbers them: the key decides who is which device

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
        """SuperNode of device k: `partition-id` k of `num-partitions` K."""
        self.start_supernode(
            f"node-{device}", f"{HOST}:{self.port}", _node_config(device, self.devices),
            look_every_s=max(0.25, 0.025 * self.devices) if self.warm else None,  # all together, 40 times a second
            security=_security(self.keys, device) if self.secure else ["--insecure"],
        )  # fmt: skip

    def kill_node(self, device: int) -> None:
        """As if its power had failed: no goodbye."""
        self.kill(f"node-{device}")

    def run_app(self, app: Path, run_config: Mapping[str, Any] | None = None, **popen: Any) -> subprocess.Popen[bytes]:
        """`flwr run`, following its log; its exit code does not tell how the run went."""
        words = " ".join(f"{key}={toml_word(value)}" for key, value in (run_config or {}).items())
        command = ["flwr", "run", str(app), CONNECTION, "--stream", *(["--run-config", words] if words else [])]
        return self.start(f"run-{len(self.running)}", command, **popen)

    def _start_superlink(self) -> None:
        command = [
            sys.executable, "-m", "paota.deploy.superlink", "--host", HOST, "--port", str(self.port),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        if self.secure:
            from .certificates import make_certificates

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
        """All keys in one process of Flower's command line: importing it takes longer than what it does."""
        from .certificates import make_node_key

        for device in range(self.devices):
            if not (self.keys / f"node-{device}.pub").exists():
                make_node_key(self.keys, f"node-{device}")
        public = [str(self.keys / f"node-{device}.pub") for device in range(self.devices)]
        done = subprocess.run(
            [sys.executable, "-c", REGISTER, CONNECTION, *public], env=self.environment, capture_output=True, text=True,
            timeout=120 + 5 * self.devices,
        )  # fmt: skip
        self.node_ids = [int(number) for number in re.findall(r'"node-id":\s*"?(\d+)', done.stdout)]
        if done.returncode or len(self.node_ids) != self.devices:
            raise UserError(f"the SuperNodes could not be registered: {(done.stderr or done.stdout).strip()[-500:]}")

    def _write_connection(self) -> None:
        """The SuperLink under the name `local` in Flower's own configuration file."""
        security = f'root-certificates = "{self.keys / "ca.crt"}"' if self.secure else "insecure = true"
        home = self.folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        address = f'address = "{HOST}:{self.port}"'
        lines = ["[superlink]", f'default = "{CONNECTION}"', "", f"[superlink.{CONNECTION}]", address, security]
        (home / "config.toml").write_text("\n".join(lines) + "\n")


class Device(Processes):
    """This machine as device k of a federation whose server is elsewhere.

    `through` is a socket file that leads to the server; a `temporary` folder is removed at the end, however it comes.
    """

    def __init__(
        self, folder: Path, server: str, *, keys: Path, device: int, devices: int, data: str | None = None,
        through: str | None = None, temporary: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(folder, temporary=temporary)
        self.server, self.through, self.security = server, through, _security(keys, device)
        self.node_config = _node_config(device, devices) + (f" data={toml_word(data)}" if data else "")

    def begin(self) -> None:
        self.start_warm()
        self._start_node()

    def wait(self, show: Callable[[str], None] = print) -> int:
        """As long as the server may come back; the exit code of a SuperNode that cannot take part.

        A SuperNode ends itself when a server that has been started anew does not know it yet. Then another one begins.
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
            stdout=None,
        )  # fmt: skip


def _node_config(device: int, devices: int) -> str:
    return f"partition-id={device} num-partitions={devices}"


def _security(keys: Path, device: int) -> list[str]:
    return ["--root-certificates", str(keys / "ca.crt"), "--auth-supernode-private-key", str(keys / f"node-{device}")]


def toml_word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value), ensure_ascii=False)
