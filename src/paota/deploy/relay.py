"""Connections between a private network namespace (`private`) and the network outside, byte for byte: TLS stays end to end.

A socket file leads from one to the other: namespaces do not divide files, and its folder belongs to one user.

    python -m paota.deploy.relay SOCKET HOST PORT     passes SOCKET on to HOST:PORT until standard input closes
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

IDLE_S = 60.0  # a connection that is silent for so long is closed; Flower's client waits 30 s for an answer


async def listen(
    source: str | socket.socket, target: str | tuple[str, int], *, per_address: int | None = None
) -> asyncio.Server:
    """Pass every connection to `source` on to `target`.

    Args:
        source: a socket file to make, or a socket to listen on.
        target: a socket file, or host and port.
        per_address: connections that one address may have; four addresses with so many are the limit for all together.
    """
    present: list[str] = []  # the address of each connection

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str(writer.get_extra_info("peername")[:1])
        present.append(address)
        try:
            if per_address is None or (present.count(address) <= per_address and len(present) <= 4 * per_address):
                await _join(reader, writer, target)
        except OSError:  # not reachable, gone, or silent
            pass
        finally:
            present.remove(address)
            writer.transport.abort()

    if isinstance(source, str):
        return await asyncio.start_unix_server(connected, source)
    return await asyncio.start_server(connected, sock=source, backlog=512)


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str | tuple[str, int]) -> None:
    """Both directions until one side closes or both are silent."""
    async with asyncio.timeout(IDLE_S) as idle:
        opening = asyncio.open_unix_connection(target) if isinstance(target, str) else asyncio.open_connection(*target)
        far_reader, far_writer = await opening

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            try:
                while data := await source.read(1 << 16):
                    idle.reschedule(asyncio.get_running_loop().time() + IDLE_S)
                    sink.write(data)
                    await sink.drain()
            finally:
                sink.close()

        try:
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
            await writer.wait_closed()
        finally:
            far_writer.transport.abort()


def relay(socket_file: str, port: int) -> None:
    """Pass `socket_file` on to 127.0.0.1:`port`, in a thread of its own, until the process ends."""
    started = threading.Event()

    async def run() -> None:
        server = await listen(socket_file, ("127.0.0.1", port))
        started.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), name="paota-relay", daemon=True).start()
    if not started.wait(10):
        raise OSError(f"cannot listen on '{socket_file}'")


def start_outside(module: str, arguments: Sequence[str], listener: socket.socket | None = None) -> str:
    """Start a process that stays outside when this one enters a private namespace; the socket file between the two.

    It ends with this process, whatever program this process becomes, and then removes the socket file.

    Args:
        module: this one or `gateway`; its arguments are the socket file, the number of `listener` and `arguments`.
        arguments: for the module.
        listener: a socket that the process inherits.
    """
    socket_file = str(
        Path(tempfile.mkdtemp(prefix="paota-gateway-")) / "s"
    )  # short: the path of a socket has at most 107 bytes
    ends, keep = os.pipe()
    os.set_inheritable(keep, True)  # closed when the last program of this process is gone
    inherited = [] if listener is None else [listener.fileno()]
    command = [sys.executable, "-m", module, socket_file, *map(str, inherited), *arguments]
    subprocess.Popen(command, stdin=ends, start_new_session=True, pass_fds=inherited)
    os.close(ends)
    return socket_file


def end_with_parent(socket_file: str) -> None:
    """End this process when its standard input closes, and remove the folder of `socket_file`."""

    def end() -> None:
        shutil.rmtree(Path(socket_file).parent, ignore_errors=True)
        os._exit(0)

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), end)


async def main(socket_file: str, host: str, port: int) -> None:
    end_with_parent(socket_file)
    await (await listen(socket_file, (host, port))).serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
