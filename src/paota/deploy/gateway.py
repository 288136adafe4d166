"""What devices may reach of a SuperLink: its fleet API, and nothing else.

The SuperLink itself listens on a loopback of its own (`private`). This gateway stands outside with the same TLS
certificate and passes on requests below `/v1/fleet/`, over a socket file that `relay` answers inside. Flower reads a
request before it asks whose it is, so the gateway lets nothing long through that no registered key has signed.

    python -m paota.deploy.gateway SOCKET DESCRIPTOR KEYS     until standard input closes
"""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import ssl
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from .relay import end_with_parent, listen

FLEET = re.compile(rb"/v1/fleet(/[A-Za-z0-9_-]+)+")  # nothing to decode, no dots: no way out of it
UNSIGNED_BYTES = 2**16  # of a request whose signature is not checked here
BODIES_PER_KEY = 2  # longer ones at a time, as many as Flower's SuperNode sends
PER_DEVICE = 8  # connections; Flower's SuperNode needs four
_OURS = {b"host", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"expect"}


def application(socket_file: str, keys: Path) -> Any:
    """The gateway as an ASGI application."""
    import httpx
    from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE

    trust = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    superlink = httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=socket_file, verify=trust, limits=httpx.Limits(max_connections=None)),
        base_url="https://localhost", timeout=httpx.Timeout(120.0), trust_env=False,
    )  # fmt: skip
    room = {key: asyncio.Semaphore(BODIES_PER_KEY) for key in registered(keys)}
    most = 2 * FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE  # a SuperNode sends a model in pieces of that size

    async def application(scope: Any, receive: Any, send: Any) -> None:
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


async def _body(receive: Any) -> AsyncIterator[bytes]:
    while (event := await receive())["type"] == "http.request":
        yield event.get("body", b"")
        if not event.get("more_body"):
            return
    raise ConnectionError("the device is gone")


def registered(keys: Path) -> list[bytes]:
    """The devices' public keys, as Flower's headers carry them."""
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes

    files = sorted(keys.glob("node-*.pub"))
    return [public_key_to_bytes(load_ssh_public_key(file.read_bytes())) for file in files]  # type: ignore[arg-type]


def signer(headers: Mapping[bytes, bytes], known: Mapping[bytes, Any]) -> bytes | None:
    """Which of the `known` keys has signed a request; how old the signature is, the SuperLink judges."""
    from flwr.common.constant import TIMESTAMP_HEADER
    from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER
    from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

    names = (FLEET_HTTP_PUBLIC_KEY_HEADER, TIMESTAMP_HEADER, FLEET_HTTP_SIGNATURE_HEADER)
    key, stamp, signature = (headers.get(name.lower().encode(), b"") for name in names)
    try:
        key, signature = b64decode(key, validate=True), b64decode(signature, validate=True)
    except ValueError:
        return None
    return key if key in known and verify_signature(bytes_to_public_key(key), stamp, signature) else None


async def main(socket_file: str, descriptor: int, keys: Path) -> None:
    import uvicorn

    end_with_parent(socket_file)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 10240)), hard))
    behind = socket.socket(socket.AF_UNIX)
    behind.bind(f"{socket_file}.tls")
    behind.listen()
    served = uvicorn.Config(
        application(socket_file, keys), ssl_certfile=keys / "server.crt", ssl_keyfile=str(keys / "server.key"),
        http="h11",  # the other parser does not limit the length of headers
        ws="none", lifespan="off", log_level="critical", access_log=False, server_header=False,
    )  # fmt: skip
    per_address = PER_DEVICE * (len(registered(keys)) + 2)
    await listen(socket.socket(fileno=descriptor), behind.getsockname(), per_address=per_address)
    await uvicorn.Server(served).serve(sockets=[behind])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
