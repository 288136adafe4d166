"""Connections between a private network namespace (`isolation`) and the network outside. TLS stays end to end.

A socket file leads from one to the other: namespaces do not separate files, and its folder belongs to one user.

    python -m paota.deploy.gateway SOCKET relay HOST PORT            passes SOCKET on to HOST:PORT, for a SuperNode
    python -m paota.deploy.gateway SOCKET gateway DESCRIPTOR KEYS    passes devices' requests on to SOCKET

Both run outside until standard input closes. The gateway has the SuperLink's TLS certificate and lets requests below
`/v1/fleet/` through, nothing else. Flower reads a whole request before it checks who sent it, so the gateway lets no long
request through without the signature of a registered key.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

from ..base.types import Table

IDLE_S = 60.0  # a connection that is silent for so long is closed; Flower's client waits 30 s for an answer
FLEET = re.compile(rb"/v1/fleet(/[A-Za-z0-9_-]+)+")  # nothing to decode and no dots, so no path leaves it
UNSIGNED_BYTES = 2**16  # longest request whose signature is not checked here
AHEAD_BYTES = 3 * 2**17  # of further requests, more than one read: one may come before the last answer has ended here
BODIES_PER_KEY = 2  # longer requests at a time, as many as Flower's SuperNode sends
PER_DEVICE = 8  # connections; Flower's SuperNode needs four
FILES_PER_CONNECTION = (
    5  # descriptors: to the device, two to uvicorn, to the SuperLink, and to a device that is refused
)
_OURS = {b"host", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect"}

Receive = Callable[[], Awaitable[Table]]  # these three are the ASGI protocol's
Send = Callable[[Table], Awaitable[None]]
Application = Callable[[Table, Receive, Send], Awaitable[None]]


async def listen(
    source: str | socket.socket, target: str | tuple[str, int], *, limits: tuple[int, int] | None = None
) -> asyncio.Server:
    """Pass every connection to `source` on to `target`.

    Args:
        source: a socket file to make, or a socket to listen on.
        target: a socket file, or host and port.
        limits: connections of one address, and of all together.
    """
    present: list[str] = []  # the address of each connection

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str(writer.get_extra_info("peername")[:1])
        present.append(address)
        try:
            if limits is None or (present.count(address) <= limits[0] and len(present) <= limits[1]):
                await _join(reader, writer, target)
        except OSError:  # not reachable, gone, or silent
            pass
        finally:
            present.remove(address)
            writer.transport.abort()

    if isinstance(source, str):
        return await asyncio.start_unix_server(connected, source)
    # The server accepts as many connections as the backlog holds before it looks at one of them.
    return await asyncio.start_server(connected, sock=source, backlog=min(512, limits[1]) if limits else 512)


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
    """Pass `socket_file` on to 127.0.0.1:`port` in a thread, until the process ends."""
    started = threading.Event()

    async def run() -> None:
        server = await listen(socket_file, ("127.0.0.1", port))
        started.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), name="paota-relay", daemon=True).start()
    if not started.wait(10):
        raise OSError(f"cannot listen on '{socket_file}'")


def start_outside(mode: str, arguments: Sequence[str], listener: socket.socket | None = None) -> str:
    """Start a process that stays outside when this one enters a private namespace.

    It ends with this process, whatever program this process becomes, and then removes the socket file.

    Args:
        mode: "relay" or "gateway".
        arguments: of the mode, after the descriptor of `listener`.
        listener: a socket that the process inherits.

    Returns:
        The socket file between the two. Its path is short: at most 107 bytes are allowed.
    """
    socket_file = str(Path(tempfile.mkdtemp(prefix="paota-gateway-")) / "s")
    ends, keep = os.pipe()
    os.set_inheritable(keep, True)  # closed when the last program of this process is gone
    inherited = [] if listener is None else [listener.fileno()]
    command = [sys.executable, "-m", "paota.deploy.gateway", socket_file, mode, *map(str, inherited), *arguments]
    subprocess.Popen(command, stdin=ends, start_new_session=True, pass_fds=inherited)
    os.close(ends)
    return socket_file


def end_with_parent(socket_file: str) -> None:
    """End this process when its standard input closes or on SIGTERM, and remove the folder of `socket_file`."""

    def end() -> None:
        shutil.rmtree(Path(socket_file).parent, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGTERM, lambda *_: end())  # uvicorn raises it again after its own shutdown
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), end)


def application(socket_file: str, keys: Path) -> Application:
    """Return the gateway as an ASGI application."""
    import httpx  # optional
    from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE  # optional

    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    superlink = httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=socket_file, verify=trust, limits=httpx.Limits(max_connections=None)),
        base_url="https://localhost", timeout=httpx.Timeout(120.0), trust_env=False,
    )  # fmt: skip
    room = {key: asyncio.Semaphore(BODIES_PER_KEY) for key in registered(keys)}
    most = 2 * FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE  # a SuperNode sends a model in pieces of that size

    async def application(scope: Table, receive: Receive, send: Send) -> None:
        async def answer(status: int, text: bytes) -> None:
            headers = [(b"content-length", str(len(text)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": text})

        async def forward() -> None:
            head = [(k, v) for k, v in scope["headers"] if k not in _OURS]
            path = scope["raw_path"].decode()
            try:
                async with superlink.stream("POST", path, content=_body(receive), headers=head) as reply:
                    head = [(k.lower(), v) for k, v in reply.headers.raw if k.lower() not in _OURS]
                    await send({"type": "http.response.start", "status": reply.status_code, "headers": head})
                    async for part in reply.aiter_raw():
                        await send({"type": "http.response.body", "body": part, "more_body": True})
                    await send({"type": "http.response.body"})
            except (httpx.TransportError, ConnectionError):
                await answer(502, b"the SuperLink does not answer\n")

        headers = dict(scope["headers"])
        length = int(headers.get(b"content-length", b"0"))
        if scope["method"] != "POST" or scope["query_string"] or not FLEET.fullmatch(scope["raw_path"]):
            await answer(404, b"not here\n")
        elif b"transfer-encoding" in headers:
            await answer(411, b"how long?\n")
        elif length <= UNSIGNED_BYTES:
            await forward()
        elif length > most:
            await answer(413, b"too large\n")
        elif (key := signer(headers, room)) is None:
            await answer(401, b"not signed by a registered key\n")
        else:
            async with room[key]:
                await forward()

    return application


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    while (event := await receive())["type"] == "http.request":
        yield event.get("body", b"")
        if not event.get("more_body"):
            return
    raise ConnectionError("the device is gone")


def registered(keys: Path) -> list[bytes]:
    """Return the devices' public keys as Flower's headers carry them."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key  # optional
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes  # optional

    files = sorted(keys.glob("node-*.pub"))
    return [public_key_to_bytes(load_ssh_public_key(file.read_bytes())) for file in files]  # type: ignore[arg-type]


def signer(headers: Mapping[bytes, bytes], known: Collection[bytes]) -> bytes | None:
    """Return which of the `known` keys has signed a request. The SuperLink checks the age of the signature."""
    from flwr.common.constant import TIMESTAMP_HEADER  # optional
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER  # optional
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature  # optional

    names = (FLEET_HTTP_PUBLIC_KEY_HEADER, TIMESTAMP_HEADER, FLEET_HTTP_SIGNATURE_HEADER)
    key, stamp, signature = (headers.get(name.lower().encode(), b"") for name in names)
    try:
        key, signature = b64decode(key, validate=True), b64decode(signature, validate=True)
    except ValueError:
        return None
    return key if key in known and verify_signature(bytes_to_public_key(key), stamp, signature) else None


async def run_gateway(socket_file: str, descriptor: int, keys: Path) -> None:
    """Serve devices on the socket `descriptor` until the process ends."""
    import h11  # optional
    import uvicorn  # optional
    from uvicorn.protocols.http.h11_impl import H11Protocol  # optional

    class Bounded(H11Protocol):
        """A connection with a limit on further requests before an answer. uvicorn reads them on and on."""

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.DONE and len(self.conn.trailing_data[0]) > AHEAD_BYTES:
                self.transport.abort()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = max(soft, min(hard, 10240))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    behind = socket.socket(socket.AF_UNIX)
    behind.bind(f"{socket_file}.tls")
    behind.listen()
    served = uvicorn.Config(
        application(socket_file, keys), ssl_certfile=keys / "server.crt", ssl_keyfile=str(keys / "server.key"),
        http=Bounded,  # uvicorn's other parser does not limit the length of headers
        ws="none", lifespan="off", log_level="critical", access_log=False, server_header=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    per_address = PER_DEVICE * (len(registered(keys)) + 2)
    together = min(4 * per_address, files // FILES_PER_CONNECTION - 8)
    await listen(socket.socket(fileno=descriptor), behind.getsockname(), limits=(per_address, together))
    await uvicorn.Server(served).serve(sockets=[behind])


async def main(socket_file: str, mode: str, first: str, second: str) -> None:
    """Run the relay (`first` and `second` are HOST and PORT) or the gateway (DESCRIPTOR and KEYS)."""
    end_with_parent(socket_file)
    if mode == "relay":
        await (await listen(socket_file, (first, int(second)))).serve_forever()
    else:
        await run_gateway(socket_file, int(first), Path(second))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
