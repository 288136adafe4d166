"""`paota deploy --listen` with `paota device`s, and an attacker on the same network with the CA's certificate."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra: pip install '.[flower]'")

from helpers.listening import (
    EXPERIMENT,
    FORBIDDEN,
    LIMIT_S,
    Server,
    listening_server,
    processes_naming,
    request,
    start,
    superlink_port,
    wait_for,
)

import paota
from paota.deploy.processes import listening

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc; namespaces are Linux's")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with listening_server(tmp_path) as started:
        yield started


def server_app(port: int) -> list[str]:
    """The arguments of the ServerApp's process at the SuperLink on `port`."""
    for words in processes_naming(f":{port}").values():
        if any("flwr-serverapp" in word for word in words):
            return words
    return []


def test_devices_take_part_and_an_attacker_reaches_nothing_but_the_fleet_api(server: Server) -> None:
    port, keys = server.port, server.keys
    inner = superlink_port(keys)
    for path in FORBIDDEN:
        assert request(port, keys, path) == (404, b"not here\n"), path
        assert request(port, keys, path, "GET")[0] == 404, path
    wait_for("the SuperLink answers", lambda: request(port, keys, "/v1/fleet/pull-messages")[0] != 502)
    assert request(port, keys, "/v1/fleet/pull-messages")[1] != b"not here\n"  # Flower's own answer
    assert not listening(inner)  # the SuperLink itself is out of reach, on loopback too
    wait_for("the ServerApp starts", lambda: server_app(inner))
    assert "--token" not in server_app(inner)
    with server.devices():
        code = server.process.wait(timeout=LIMIT_S)
    assert code == 0, server.told
    result = paota.load(server.folder / "run")
    assert set(result.devices["device"].tolist()) == {0, 1}, server.told
    wait_for("no process is left", lambda: not processes_naming(str(keys)), 30.0)
    wait_for("no temporary file is left", lambda: not list(server.temporary.iterdir()), 30.0)


def test_a_model_larger_than_a_request_may_be_reaches_the_server_and_the_devices(tmp_path: Path) -> None:
    """Flower sends it in pieces: 3.4 million parameters, 13 MB."""
    large = EXPERIMENT.replace("rounds = 3", "rounds = 1").replace("period_s = 4.0", "period_s = 60.0")
    large = large.replace('name = "paota"\npayload = "update"', 'name = "local-sgd"')
    with (
        listening_server(tmp_path, large + '[model]\nname = "mlp"\nhidden = [1800, 1800]\n') as server,
        server.devices(),
    ):
        assert server.process.wait(timeout=LIMIT_S) == 0, server.told
    (only,) = paota.load(tmp_path / "run").trajectories
    assert only.model.nbytes > 2 * 5 * 2**20
    assert set(only.devices["device"].tolist()) == {0, 1}


def test_a_device_whose_data_cannot_be_read_leaves_the_others_to_finish(server: Server) -> None:
    (server.folder / "bad.npz").write_text("garbage\n")
    with server.devices(["bad.npz", None]) as devices:
        assert server.process.wait(timeout=LIMIT_S) == 0, server.told
        assert [device.poll() for device in devices] == [None, None]
    result = paota.load(server.folder / "run")
    assert set(result.devices["device"].tolist()) == {1}, server.told
    (incident,) = result.info["deployment"]["algorithms"]["paota"]["incidents"]
    assert (incident["device"], incident["count"] > 1) == (0, True), server.told
    assert "bad.npz" in incident["detail"]
    assert "bad.npz" in server.told


def test_a_second_deployment_on_its_port_or_in_its_folder_ends_with_a_sentence(tmp_path: Path) -> None:
    with listening_server(tmp_path, EXPERIMENT.replace("rounds = 3", "rounds = 300")) as server, server.devices():
        run = server.folder / "run"
        wait_for("it has begun", lambda: list(run.glob("checkpoint-*/round-*.npz")))
        address = f"127.0.0.1:{server.port}"
        listen = ["--listen", address, "--keys", str(server.keys)]
        for words, sentence in (
            ([str(tmp_path / "e.toml"), *listen], f"cannot listen on {address}: Address already in use"),
            (["--resume", str(run), *listen], f"another process is at work in '{run}': wait for it, or stop it"),
            (["--resume", str(run)], f"another process is at work in '{run}': wait for it, or stop it"),
        ):
            second = start(tmp_path, "second", server.temporary, "deploy", *words)
            assert second.wait(timeout=LIMIT_S) == 2
            assert (tmp_path / "second.log").read_text() == f"paota: {sentence}\n"
        assert server.process.poll() is None  # the first continues


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_signal_leaves_an_orphan(server: Server, number: signal.Signals) -> None:
    superlink_port(server.keys)
    os.kill(server.process.pid, number)
    server.process.wait(timeout=30)
    wait_for("no process is left", lambda: not processes_naming(str(server.keys)), 30.0)
    wait_for("the gateway's folder is gone", lambda: not list(server.temporary.glob("paota-gateway-*")), 30.0)
