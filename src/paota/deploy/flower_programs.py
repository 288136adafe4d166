"""Flower's own programs, changed where Flower has no setting for it (1.41, 1.42).

    python -m paota.deploy.flower_programs superlink ARGUMENTS    `flower-superlink`, with patience for its processes
    python -m paota.deploy.flower_programs supernode [--look-every-s 0.25] [--through SOCKET] ARGUMENTS
                                                                  `flower-supernode`, which looks for work more often
    python -m paota.deploy.flower_programs register CONNECTION KEY...   `flwr supernode register` for many public keys

`flower-superexec` is called by Flower: an executable of that name (`programs/flower-superexec.in`) stands first in the PATH.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

from ..base.types import Json

SIGN_OF_LIFE_S = 120  # for a process to start; twice that, later, between two signs of life


def _replace(module: ModuleType, name: str, replacement: object) -> None:
    if not hasattr(module, name):
        raise AttributeError(f"{module.__name__} has no {name} any more")
    setattr(module, name, replacement)


def superlink() -> None:
    """Run the SuperLink.

    Flower starts another process after 30 s without a sign of life from the first. On a busy machine that is too soon,
    and every further process makes the machine busier.
    """
    from flwr.supercore.corestate import in_memory_corestate, sql_corestate  # optional
    from flwr.superlink.cli import flower_superlink  # optional

    for module in (in_memory_corestate, sql_corestate):
        _replace(module, "HEARTBEAT_DEFAULT_INTERVAL", SIGN_OF_LIFE_S)
    sys.argv[0] = "flower-superlink"
    flower_superlink()


def supernode() -> None:
    """Run a SuperNode. Flower's own waits 3 s after each look for work that found none."""
    from flwr.supernode.cli import flower_supernode  # optional

    for option, set_up in (("--look-every-s", look_every), ("--through", reach_through)):
        if option in sys.argv:
            at = sys.argv.index(option)
            set_up(sys.argv[at + 1])
            del sys.argv[at : at + 2]
    sys.argv[0] = "flower-supernode"
    flower_supernode()


def look_every(seconds: str) -> None:
    """Limit every pause of this process's SuperNode to `seconds`."""
    from flwr.supernode import start_client_internal  # optional

    names = SimpleNamespace(**{name: getattr(time, name) for name in dir(time)})
    names.sleep = lambda pause_s: time.sleep(min(pause_s, float(seconds)))
    _replace(start_client_internal, "time", names)


def reach_through(socket_file: str) -> None:
    """Let this process's SuperNode reach its server through `socket_file`. TLS still verifies the server's own name."""
    import httpx  # optional
    from flwr.supercore.protobuf import client  # optional

    def connect(*, verify: ssl.SSLContext | bool, **options: Json) -> httpx.Client:
        return httpx.Client(transport=httpx.HTTPTransport(uds=socket_file, verify=verify), **options)

    names = SimpleNamespace(**{name: getattr(httpx, name) for name in httpx.__all__})
    names.Client = connect
    _replace(client, "httpx", names)


def superexec() -> None:
    """Run the SuperExec, which starts a process for each task.

    Flower passes the task's token as an argument, and every user of a machine can read the arguments of every process.
    This SuperExec passes the token in a file that only its own user can read.
    """
    from flwr.supercore.cli.flower_superexec import flower_superexec  # optional
    from flwr.supercore.superexec.executor import subprocess_executor  # optional

    folder, files = Path(sys.argv[0]).parent, dict[subprocess.Popen[bytes], str]()

    def start(command: list[str], **popen: object) -> subprocess.Popen[bytes]:
        for ended in [process for process in files if process.poll() is not None]:
            Path(files.pop(ended)).unlink()
        at = command.index("--token")
        descriptor, name = tempfile.mkstemp(prefix="token-", dir=folder)
        with os.fdopen(descriptor, "w") as file:
            file.write(command[at + 1])
        words = [*command[:at], "--token-file", name, *command[at + 2 :]]
        process: subprocess.Popen[bytes] = subprocess.Popen(words, **popen)  # type: ignore[call-overload]
        files[process] = name
        return process

    _replace(subprocess_executor, "subprocess", SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL))
    sys.argv[0] = "flower-superexec"
    flower_superexec()


def register() -> None:
    """Register SuperNodes. One process serves all: importing Flower's command line takes longer than its work."""
    from flwr.cli.app import app  # optional

    for key in sys.argv[2:]:
        app(["supernode", "register", key, sys.argv[1], "--format", "json"], standalone_mode=False)


if __name__ == "__main__":
    {"superlink": superlink, "supernode": supernode, "register": register}[sys.argv.pop(1)]()
