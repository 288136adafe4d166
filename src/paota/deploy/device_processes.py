"""The processes of a device's machine that outlive a message: a fork server and a trainer.

Flower starts one process for each message, which imports Flower, NumPy and JAX: seconds of processor time for a training
of milliseconds. Here `programs/flwr-clientapp.in` stands for Flower's program and hands its arguments, environment and
output over a private socket to the fork server, which forks with everything imported. JAX cannot be forked, so the
forked process leaves training to the trainer, which imports JAX and compiles each device's training once.

    python -m paota.deploy.device_processes fork FOLDER     serves FOLDER/warm.sock until standard input closes
    python -m paota.deploy.device_processes train SOCKET    trains for clients on SOCKET until standard input closes
"""

from __future__ import annotations

import gc
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import numpy as np

from ..base.types import Table
from .transport import Arrays

CLIENT_SOCKET = "warm.sock"
TRAINER = "PAOTA_TRAINER"  # environment variable: the socket of a trainer on this machine
SHIFT = "shift/"  # prefix of the names of a request's gradient shifts
WORDS = ":words"  # the name of a message's JSON among its arrays

# ---- the fork server ------------------------------------------------------------------------------------------------


def fork_clients(folder: Path) -> None:
    """Fork a client process for each request, until standard input closes with the process that started this one."""
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp  # optional

    from . import client as client_app  # noqa: F401  optional: everything that the forked process needs, but not JAX

    folder.chmod(0o700)  # the fork server runs what the socket says
    trainer_socket = folder / "trainer.sock"
    trainer = subprocess.Popen(
        [sys.executable, "-m", "paota.deploy.device_processes", "train", str(trainer_socket)], stdin=subprocess.PIPE
    )
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies; each client reports its own end
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(0))
    gc.freeze()  # what is imported stays shared between the processes
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        with suppress(FileNotFoundError):
            (folder / CLIENT_SOCKET).unlink()
        listener.bind(str(folder / CLIENT_SOCKET))
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


def _become_client(connection: socket.socket, run: Callable[[], None], trainer_socket: str) -> None:
    """Run the requested program in the forked process. This function does not return."""
    code = 1
    try:
        request, outputs = _receive_request(connection)
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


def _receive_request(connection: socket.socket) -> tuple[Table, list[int]]:
    first, outputs, _, _ = socket.recv_fds(connection, 1, 2)
    with connection.makefile("rb") as stream:
        return json.loads(first + stream.readline()), outputs


# ---- the trainer ----------------------------------------------------------------------------------------------------


def ask(
    address: str, words: Mapping[str, object], model: Arrays, shift: Arrays | None = None
) -> tuple[Table, dict[str, np.ndarray]]:
    """Have the trainer at `address` do one training.

    Args:
        address: the trainer's socket.
        words: a `TrainerKey` with `version` and `training`, or with `prepare`.
        model: the global model.
        shift: vectors to add to every gradient, in the arrays of the model.

    Returns:
        The reply (`num_examples`, `loss`) and the trained model.

    Raises:
        OSError: no trainer answers.
        RuntimeError: the training failed, in the trainer's words.
    """
    with Client(address, "AF_UNIX") as connection:
        connection.send_bytes(_packed(words, {**model, **{SHIFT + name: a for name, a in (shift or {}).items()}}))
        try:
            reply, trained = _unpacked(connection.recv_bytes())
        except EOFError:
            raise ConnectionError("the trainer's connection closed early") from None
    if "error" in reply:
        raise RuntimeError(str(reply["error"]))
    return reply, trained


def _answer(connection: Connection) -> None:
    with connection, suppress(EOFError, OSError):  # the client may be gone
        words, arrays = _unpacked(connection.recv_bytes())
        try:
            reply, trained = _train(words, arrays)
        except Exception as error:  # the device's answer reports it; the trainer continues
            reply, trained = {"error": f"{type(error).__name__}: {error}"}, {}
        connection.send_bytes(_packed(reply, trained))


_at_once = threading.Semaphore(os.cpu_count() or 1)  # more trainings at a time than cores compete for the cache


def _train(words: Table, arrays: Arrays) -> tuple[Table, dict[str, np.ndarray]]:
    from .client import trainer_of  # optional

    with _at_once:
        trainer = trainer_of(**{name: words[name] for name in ("run_config", "folder", "label", "device", "own_data")})
        if words.get("prepare"):
            trainer.prepare()
            return {}, {}
        shift = {name.removeprefix(SHIFT): array for name, array in arrays.items() if name.startswith(SHIFT)}
        start = {name: array for name, array in arrays.items() if not name.startswith(SHIFT)}
        local, loss = trainer.train(start, words["version"], words["training"], shift or None)
    return {"num_examples": trainer.num_samples, "loss": loss}, trainer.layout.split(local)


def _packed(words: Mapping[str, object], arrays: Arrays) -> bytes:
    body = io.BytesIO()
    text = np.frombuffer(json.dumps(dict(words)).encode(), np.uint8)
    np.savez(body, **{**arrays, WORDS: text})  # type: ignore[arg-type]
    return body.getvalue()


def _unpacked(data: bytes) -> tuple[Table, dict[str, np.ndarray]]:
    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
        arrays = dict(stored)
    return json.loads(arrays.pop(WORDS).tobytes()), arrays


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def train_for_clients(path: Path) -> None:
    """Train for every client that connects to the socket `path`, until standard input closes."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(FileNotFoundError):
        path.unlink()
    with Listener(str(path), "AF_UNIX", backlog=128) as listener:
        import jax  # noqa: F401  start-up time: before the first order comes

        while True:
            with suppress(OSError):
                threading.Thread(target=_answer, args=(listener.accept(),), daemon=True).start()


if __name__ == "__main__":
    {"fork": fork_clients, "train": train_for_clients}[sys.argv[1]](Path(sys.argv[2]))
