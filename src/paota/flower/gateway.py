"""What devices may reach of a SuperLink: its fleet API, and nothing else.

The SuperLink itself listens on a loopback of its own (`private`). This gateway stands outside with the same TLS
certificate and passes on requests below `/v1/fleet/`, over a socket file that `relay` answers inside.

    python -m paota.flower.gateway HOST PORT KEYS SOCKET     until standard input closes
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

FLEET = re.compile(r"/v1/fleet(/[A-Za-z0-9_-]+)+")  # nothing to decode, no dots: no way out of it
MAX_BODY_BYTES = 2**30
_OURS = {b"host", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect"}


def application(socket_file: str, keys: Path) -> Any:
    """The gateway as an ASGI application."""
    import httpx
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    superlink = httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=socket_file, verify=trust, limits=httpx.Limits(max_connections=1000)),
        base_url="https://localhost", timeout=httpx.Timeout(120.0), trust_env=False,
    )  # fmt: skip

    async def forward(request: Request) -> Response:
        path = request.url.path
        if request.url.query or request.scope["raw_path"] != path.encode() or not FLEET.fullmatch(path):
            return PlainTextResponse("not here\n", status_code=404)
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                return PlainTextResponse("too large\n", status_code=413)
        headers = [(k, v) for k, v in request.headers.raw if k.lower() not in _OURS | {b"content-length"}]
        try:
            answer = await superlink.request(request.method, path, content=bytes(body), headers=headers)
        except httpx.TransportError:
            return PlainTextResponse("the SuperLink does not answer\n", status_code=502)
        skip = _OURS | {b"content-length", b"content-encoding"}
        made = Response(answer.content, status_code=answer.status_code)
        made.raw_headers = [(k.lower(), v) for k, v in answer.headers.raw if k.lower() not in skip]
        made.raw_headers.append((b"content-length", str(len(answer.content)).encode()))
        return made

    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    return Starlette(routes=[Route("/{path:path}", forward, methods=methods)])


def relay(socket_file: str, port: int) -> None:
    """Inside: pass what comes to `socket_file` on to 127.0.0.1:`port`, in a thread of its own, until the process ends."""
    started = threading.Event()

    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    async def run() -> None:
        server = await asyncio.start_unix_server(connected, socket_file)
        started.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(run()), name="paota-relay", daemon=True).start()
    if not started.wait(10):
        raise OSError(f"cannot listen on '{socket_file}'")


def main(host: str, port: int, keys: Path, socket_file: str) -> None:
    import uvicorn

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    uvicorn.run(
        application(socket_file, keys), host=host, port=port, ssl_certfile=str(keys / "server.crt"),
        ssl_keyfile=str(keys / "server.key"), log_level="warning", access_log=False, server_header=False,
    )  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
