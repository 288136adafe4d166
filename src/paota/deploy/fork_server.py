"""Flower client processes without the start-up: `flwr-clientapp`, forked from a process that has imported it all.

Flower starts one process for each message, which then imports Flower, NumPy and JAX: seconds of processor time for a
training of milliseconds. Here a small executable of the same name stands first in the SuperNode's PATH; it hands its
arguments, environment and output over a private socket to this server, which forks. JAX cannot be forked, so training
itself is left to a `trainer` that stays alive. Only the command's name and arguments are relied upon, and where the
server does not answer the executable becomes Flower's own.

    python -m paota.deploy.fork_server FOLDER     serves FOLDER/warm.sock until standard input closes
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from .trainer import TRAINER

COMMAND = "flwr-clientapp"
SOCKET = "warm.sock"

# Run without site-packages, so that it starts in some 15 ms. Arguments and environment travel as one JSON line,
# standard output and error as descriptors; the answer is the exit code.
EXECUTABLE = """\
#!{python} -IS
import json, os, socket, sys

request = json.dumps({{"argv": sys.argv, "cwd": os.getcwd(), "env": dict(os.environ)}}).encode() + b"\\n"
try:
    server = socket.socket(socket.AF_UNIX)
    server.connect({address!r})
    socket.send_fds(server, [request[:1]], [1, 2])
    server.sendall(request[1:])
    answer = server.recv(1)
except OSError:
    answer = None
if answer is None:
    os.execv({original!r}, sys.argv)
sys.exit(answer[0] if answer else 1)
"""


def install(folder: Path, original: str) -> Path:
    """Write the executable that stands for `original`; the folder to put in front of a SuperNode's PATH."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True, exist_ok=True)
    file = bin_folder / COMMAND
    file.write_text(EXECUTABLE.format(python=sys.executable, address=str(folder / SOCKET), original=original))
    file.chmod(0o700)
    return bin_folder


def serve(folder: Path) -> None:
    """Fork a client process for each request, until standard input closes: whoever started this is gone then."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp

    from . import client as client_app  # noqa: F401  everything that the forked process will need, but not JAX

    folder.chmod(0o700)  # the socket runs what it is told
    trainer_socket = folder / "trainer.sock"
    trainer = subprocess.Popen(
        [sys.executable, "-m", "paota.deploy.trainer", str(trainer_socket)], stdin=subprocess.PIPE
    )
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies; each client reports its own end
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    gc.freeze()  # what is imported stays shared between the processes
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        with suppress(FileNotFoundError):
            (folder / SOCKET).unlink()
        listener.bind(str(folder / SOCKET))
        listener.listen(128)
        ready.register(listener, selectors.EVENT_READ)
        ready.register(sys.stdin, selectors.EVENT_READ)
        while True:
            if any(key.fileobj is sys.stdin for key, _ in ready.select()) and not os.read(0, 64):
                trainer.terminate()
                return
            with suppress(BlockingIOError):
                listener.setblocking(False)
                connection, _ = listener.accept()
                connection.setblocking(True)
                if os.fork() == 0:
                    listener.close()
                    assert trainer.stdin is not None
                    trainer.stdin.close()  # only its own parent keeps the trainer alive
                    _become_client(connection, flwr_clientapp, str(trainer_socket))
                connection.close()


def _become_client(connection: socket.socket, run: Any, trainer_socket: str) -> None:
    """In the forked process: what the executable was asked to be. Never returns."""
    code = 1
    try:
        request, outputs = _receive(connection)
        for number, output in enumerate(outputs, start=1):
            os.dup2(output, number)
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"], **{TRAINER: trainer_socket})
        sys.argv = request["argv"]
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([code & 0xFF]))
    os._exit(code)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    first, outputs, _, _ = socket.recv_fds(connection, 1, 2)
    line = bytearray(first)
    while not line.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            raise ConnectionError("the request ended early")
        line += more
    return json.loads(line), outputs


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
