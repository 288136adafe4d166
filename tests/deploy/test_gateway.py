"""The gateway's limits on connections and on requests without the signature of a registered key, and its end."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, sign_message
from helpers.listening import Server, listening_server, request, wait_for

from paota.cli import main
from paota.deploy import gateway

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
MANY_BYTES = 300 * 2**20
LITTLE_BYTES = 50 * 2**20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with listening_server(tmp_path_factory.mktemp("server")) as started:
        yield started


def memory(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:"))


def flood(server: Server, head: bytes, part: bytes) -> None:
    """`head`, then `part` again and again, until there are `MANY_BYTES` or the gateway closes."""
    connection = connect(server)
    assert connection is not None
    with connection, suppress(OSError):
        connection.sendall(b"POST /v1/fleet/push-object HTTP/1.1\r\nhost: localhost\r\n" + head)
        for _ in range(MANY_BYTES // len(part)):
            connection.sendall(part)


def test_long_requests_without_a_key_take_no_memory(server: Server) -> None:
    part = b"x" * 2**20
    ways = [
        (b"content-length: %d\r\n\r\n" % MANY_BYTES, part),
        (b"content-length: %d\r\n\r\n" % (9 * 2**20), part),  # not too long, had it been signed
        (b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(part), part)),
        (b"", b"a: " + b"x" * 2**16 + b"\r\n"),  # no end of headers
    ]
    assert request(server.port, server.keys, "/")[0] == 404  # it has started
    before = memory(server.gateway(), "VmRSS")
    for head, part in ways:
        attackers = [threading.Thread(target=flood, args=(server, head, part)) for _ in range(3)]
        for attacker in attackers:
            attacker.start()
        for attacker in attackers:
            attacker.join()
        assert memory(server.gateway(), "VmHWM") - before < LITTLE_BYTES, head
    assert request(server.port, server.keys, "/")[0] == 404  # and it still answers


def test_requests_that_do_not_wait_for_an_answer_take_no_memory(server: Server) -> None:
    """Flower's client sends a request after the answer to the last one. These come in one go."""
    one = b"POST /v1/fleet/push-object HTTP/1.1\r\nhost: localhost\r\ncontent-length: 60000\r\n\r\n" + b"x" * 60_000
    wait_for("the SuperLink answers", lambda: request(server.port, server.keys, "/v1/fleet/pull-messages")[0] != 502)
    before = memory(server.gateway(), "VmRSS")

    def attack() -> None:
        connection = connect(server)
        assert connection is not None
        with connection, suppress(OSError):
            connection.settimeout(5)
            for _ in range(500):
                connection.sendall(one)

    attackers = [threading.Thread(target=attack) for _ in range(24)]
    for attacker in attackers:
        attacker.start()
    for attacker in attackers:
        attacker.join()
    assert memory(server.gateway(), "VmHWM") - before < LITTLE_BYTES
    wait_for("it still answers", lambda: request(server.port, server.keys, "/")[0] == 404)


def test_a_request_that_comes_a_little_early_is_answered(server: Server) -> None:
    """A client has the last byte of an answer a moment before the gateway has ended it."""
    one = b"POST /elsewhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5_000
    connection = connect(server)
    assert connection is not None
    with connection:
        connection.settimeout(60)
        connection.sendall(3 * one)
        answer = b""
        while answer.count(b"HTTP/1.1 404") < 3:
            part = connection.recv(2**16)
            assert part, answer
            answer += part


def signed(key: ec.EllipticCurvePrivateKey, **changes: str) -> dict[str, str]:
    stamp = now().isoformat()
    return {
        "content-type": "application/protobuf",
        "flwr-public-key": b64encode(public_key_to_bytes(key.public_key())).decode(),
        "flwr-timestamp": stamp,
        "flwr-signature": b64encode(sign_message(key, stamp.encode())).decode(),
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }


def test_a_long_request_must_be_signed_by_a_registered_key(server: Server) -> None:
    def push(headers: dict[str, str], length: int = 6 * 2**20) -> tuple[int, bytes]:
        return request(server.port, server.keys, "/v1/fleet/push-object", headers=headers, body=b"\xff" * length)

    key = load_ssh_private_key((server.keys / "node-1").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    wait_for("the SuperLink answers", lambda: push({}, 0)[0] != 502)
    status, text = push(signed(key))
    assert (status, b"protobuf" in text) == (400, True)  # Flower has read it, and it is no message
    refused = (401, b"not signed by a registered key\n")
    assert push(signed(ec.generate_private_key(ec.SECP384R1()))) == refused
    assert push(signed(key, flwr_timestamp=now().isoformat())) == refused
    assert push(signed(key, flwr_signature="AAAA")) == refused
    assert push(signed(key, flwr_public_key="no base64")) == refused
    assert push({}) == refused
    assert push(signed(key), 11 * 2**20) == (413, b"too large\n")


async def hang_up(writers: Sequence[asyncio.StreamWriter], before: set[asyncio.Task[None]]) -> None:
    """Close the connections, and wait for all tasks but those of `before`: the other ends."""
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)


def test_one_address_has_few_connections(server: Server) -> None:
    opened = [connection for _ in range(300) if (connection := connect(server)) is not None]
    try:
        wait_for("most are closed", lambda: sum(map(is_open, opened)) <= 32, 60.0)
    finally:
        for connection in opened:
            connection.close()
    wait_for("the gateway has seen that they are gone", lambda: close(connect(server)))


def test_each_address_and_all_together_have_a_limit_of_connections(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def answered(source: tuple[str, int], address: str) -> tuple[bool, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(*source, local_addr=(address, 0))
        writer.write(b"hello")
        with suppress(OSError):
            return await reader.read(100) == b"hello", writer
        return False, writer

    async def play() -> None:
        before = asyncio.all_tasks()
        target, listener = str(tmp_path / "target"), socket.create_server(("127.0.0.1", 0))
        async with await asyncio.start_unix_server(echo, target), await gateway.listen(listener, target, limits=(2, 8)):
            source = listener.getsockname()
            talks = [await answered(source, f"127.0.0.{10 + i // 3}") for i in range(15)]  # 3 from each of 5 addresses
            assert [passed for passed, _ in talks] == [True, True, False] * 4 + [False] * 3
            await hang_up([writer for _, writer in talks], before)

    asyncio.run(asyncio.wait_for(play(), 120.0))


def test_connections_leave_descriptors_for_the_gateway(tmp_path: Path) -> None:
    """A process with few descriptors: more connections than it can have, and it still answers without a traceback."""
    assert main(["keys", str(tmp_path / "keys"), "--devices", "20", "--names", "localhost"]) == 0
    folder = Path(tempfile.mkdtemp(prefix="paota-gateway-"))
    few = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96)); del sys.argv[0]; "
    few += "runpy.run_module('paota.deploy.gateway', run_name='__main__', alter_sys=True)"
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener, (tmp_path / "log").open("wb") as log:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", few, "x", str(folder / "s"), "gateway", str(listener.fileno()), str(tmp_path / "keys")],
            stdin=subprocess.PIPE, stderr=log, pass_fds=[listener.fileno()],
        )  # fmt: skip
        wait_for("it answers", lambda: request(port, tmp_path / "keys", "/")[0] == 404)
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(150)]
        wait_for("those beyond the limit are closed", lambda: sum(map(is_open, idle)) <= 24)
        for connection in idle:
            connection.close()
        wait_for("it answers again", lambda: answers(port, tmp_path / "keys"))
        process.terminate()
        process.wait(timeout=60)
        assert process.stdin is not None
        process.stdin.close()
    assert (tmp_path / "log").read_text() == ""


def answers(port: int, keys: Path) -> bool:
    try:
        return request(port, keys, "/")[0] == 404
    except OSError:
        return False


@pytest.mark.parametrize("mode", ["relay", "gateway"])
def test_sigterm_to_a_process_outside_leaves_no_folder(mode: str, tmp_path: Path) -> None:
    """A service manager stops all processes of a service at once: no parent is left to clean up."""
    folder = Path(tempfile.mkdtemp(prefix="paota-gateway-"))  # a short name: those of socket files are limited
    words, ready = ["localhost", "1"], folder / "s"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if mode == "gateway":
            assert main(["keys", str(tmp_path / "keys"), "--devices", "1", "--names", "localhost"]) == 0
            words, ready = [str(listener.fileno()), str(tmp_path / "keys")], folder / "s.tls"
        process = subprocess.Popen(
            [sys.executable, "-m", "paota.deploy.gateway", str(folder / "s"), mode, *words], stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )  # fmt: skip
        wait_for("it listens", ready.exists)
        if mode == "gateway":  # uvicorn handles signals in its own way once it serves
            wait_for("it answers", lambda: request(listener.getsockname()[1], tmp_path / "keys", "/")[0] == 404)
        process.terminate()
        process.wait(timeout=60)
        assert process.stdin is not None
        process.stdin.close()
    assert not folder.exists()


def close(connection: ssl.SSLSocket | None) -> bool:
    """Close the connection. Return whether there was one."""
    if connection is not None:
        connection.close()
    return connection is not None


def connect(server: Server) -> ssl.SSLSocket | None:
    """A connection that is ready for a request; None where the gateway closes it."""
    trust = ssl.create_default_context(cafile=str(server.keys / "ca.crt"))
    plain = socket.create_connection(("localhost", server.port), timeout=30)
    try:
        return trust.wrap_socket(plain, server_hostname="localhost")
    except OSError:
        return None


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except (ssl.SSLWantReadError, BlockingIOError):
        return True
    except OSError:
        return False


def test_silent_connections_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "IDLE_S", 1.0)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def play() -> None:
        before = asyncio.all_tasks()
        target, source = str(tmp_path / "target"), socket.create_server(("127.0.0.1", 0))
        async with await asyncio.start_unix_server(echo, target), await gateway.listen(source, target):
            talks = [await asyncio.open_connection(*source.getsockname()) for _ in range(50)]
            for _, writer in talks[:25]:
                writer.write(b"hello")
            assert [await reader.read() for reader, _ in talks] == [b"hello"] * 25 + [b""] * 25
            await hang_up([writer for _, writer in talks], before)

    asyncio.run(asyncio.wait_for(play(), 120.0))
