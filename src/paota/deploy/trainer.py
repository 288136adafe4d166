"""Local training in a process that stays alive: JAX is imported, and each device's training compiled, once.

python -m paota.deploy.trainer SOCKET     trains for whoever asks on SOCKET, until standard input closes
"""

from __future__ import annotations

import io
import json
import os
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAINER = "PAOTA_TRAINER"  # environment variable: the socket of a trainer on this machine
SHIFT = "shift/"  # before the names of those arrays of a request
_SIZES = struct.Struct("!QQ")

Arrays = Mapping[str, NDArray[Any]]


def ask(
    address: str, words: Mapping[str, Any], model: Arrays, shift: Arrays | None = None
) -> tuple[dict[str, Any], Arrays]:
    """Have the trainer at `address` do one training; its words (`num_examples`, `loss`) and the trained model.

    `shift`: what it shall add to every gradient, in the arrays of the model.
    Raises OSError where nobody answers, and RuntimeError with the trainer's own words where the training failed.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        _send(connection, words, {**model, **{SHIFT + name: array for name, array in (shift or {}).items()}})
        told, trained = _receive(connection)
    if "error" in told:
        raise RuntimeError(str(told["error"]))
    return told, trained


class _Request(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        words, model = _receive(self.request)
        try:
            told, trained = _train(words, model)
        except Exception as error:  # the device's answer says what went wrong; the trainer goes on
            told, trained = {"error": f"{type(error).__name__}: {error}"}, {}
        with suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it any more
            _send(self.request, told, trained)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


_at_once = threading.Semaphore(os.cpu_count() or 1)  # more trainings at once than cores only fight for the cache


def _train(words: Mapping[str, Any], model: Arrays) -> tuple[dict[str, Any], Arrays]:
    from .client import trainer_of

    which = {name: words[name] for name in ("run_config", "folder", "label", "device", "own_data")}
    with _at_once:
        trainer = trainer_of(**which)
        if words.get("prepare"):
            trainer.prepare()
            return {}, {}
        shift = {name.removeprefix(SHIFT): array for name, array in model.items() if name.startswith(SHIFT)}
        start = {name: array for name, array in model.items() if not name.startswith(SHIFT)}
        local, loss = trainer.train(start, words["version"], words["training"], shift or None)
    return {"num_examples": trainer.num_samples, "loss": loss}, trainer.layout.split(local)


def _send(connection: socket.socket, words: Mapping[str, Any], arrays: Arrays) -> None:
    body = io.BytesIO()
    np.savez(body, **dict(arrays))  # type: ignore[arg-type]
    text, data = json.dumps(dict(words)).encode(), body.getbuffer()
    connection.sendall(_SIZES.pack(len(text), len(data)) + text)
    connection.sendall(data)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], Arrays]:
    text_size, data_size = _SIZES.unpack(_exactly(connection, _SIZES.size))
    words = json.loads(_exactly(connection, text_size))
    with np.load(io.BytesIO(_exactly(connection, data_size)), allow_pickle=False) as arrays:
        return words, dict(arrays)


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(min(1 << 20, size - len(received)))
        if not part:
            raise ConnectionError("the trainer's connection closed early")
        received += part
    return bytes(received)


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def main(path: Path) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(FileNotFoundError):
        path.unlink()
    with _Server(str(path), _Request) as server:
        import jax  # noqa: F401  before the first order comes

        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
