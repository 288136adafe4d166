"""An experiment on this machine as a real deployment: write the app, start a federation, run, show, stop everything."""

from __future__ import annotations

import dataclasses
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..base.errors import UserError, printable
from ..base.files import read_json, to_toml
from ..base.registry import DATASETS
from ..experiment.experiment import Experiment
from .federation import LocalFederation, toml_word
from .relay import relay
from .settings import Deployment

MAX_LOCAL_DEVICES = 32  # each is two processes at rest and a third while it trains
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LEVEL = re.compile(r"^(INFO|WARNING|ERROR)\s*:\s*")

SERVER = """\
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from paota.deploy import serve

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    serve(grid, context, Path(__file__).parent.parent)
"""
CLIENT = """\
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from paota.deploy import answer_hello, answer_order, prepare_jax, train_with_jax

FOLDER = Path(__file__).parent.parent
app = ClientApp()


@app.query()
def hello(message: Message, context: Context) -> Message:
    return answer_hello(message, context, prepare_jax(context, FOLDER))


@app.train()
def train(message: Message, context: Context) -> Message:
    return answer_order(message, context, train_with_jax(context, FOLDER))
"""
PROJECT = """\
[project]
name = "paota-deployment"
version = "1.0.0"
description = "A paota experiment on Flower"
license = "MIT"
dependencies = ["paota[flower]"]

[tool.flwr.app]
publisher = "paota"

[tool.flwr.app.components]
serverapp = "deployment.server_app:app"
clientapp = "deployment.client_app:app"

[tool.flwr.app.config]
"""


def write_app(folder: Path, experiment: Experiment, run_config: Mapping[str, Any]) -> None:
    """A complete Flower app for `experiment`: `flwr run` takes it as it is."""
    table = experiment.to_dict()
    dataset = str(table["data"]["dataset"])
    if dataset not in DATASETS:  # a path: the app lives elsewhere
        table["data"]["dataset"] = str((experiment.base / dataset).resolve())
    (folder / "deployment").mkdir(parents=True)
    (folder / "experiment.toml").write_text(to_toml(table), encoding="utf-8")
    (folder / "deployment" / "__init__.py").write_text("")
    (folder / "deployment" / "server_app.py").write_text(SERVER)
    (folder / "deployment" / "client_app.py").write_text(CLIENT)
    every_setting = {key.replace("_", "-"): value for key, value in dataclasses.asdict(Deployment()).items()}
    config = {**every_setting, **run_config}  # `flwr run --run-config` can only change what stands here
    lines = "".join(f"{key} = {toml_word(value)}\n" for key, value in config.items())
    (folder / "pyproject.toml").write_text(PROJECT + lines, encoding="utf-8")


def check_size(devices: int) -> None:
    if devices > MAX_LOCAL_DEVICES:
        raise UserError(
            f"data.devices = {devices} means {devices} SuperNodes on this machine, and at most {MAX_LOCAL_DEVICES} are "
            "started: lower it, or start the SuperNodes on machines of their own (docs/flower.md)"
        )


def run_here(
    app: Path, work: Path, *, devices: int, run_config: Mapping[str, Any], secure: bool = True,
    show: Callable[[str], None] = print, keys: Path | None = None, gateway_socket: str | None = None,
    warm: bool = True,
) -> None:  # fmt: skip
    """Start SuperLink and `devices` SuperNodes, run `app` on them, stop them all. `work` keeps their logs.

    With `gateway_socket` no SuperNode is started here: devices elsewhere come in through the gateway behind it. With
    `warm=False` client processes start as slowly as Flower starts them.
    """
    if gateway_socket is None:
        check_size(devices)
        show(
            f"starting a SuperLink and {devices} SuperNodes on loopback"
            + (", with TLS and node keys" if secure else "")
        )
    here = gateway_socket is None
    with LocalFederation(work, devices, secure=secure, keys=keys, nodes=here, warm=warm) as federation:
        if gateway_socket is not None:
            relay(gateway_socket, federation.port)
            show(
                f"waiting for {devices} devices; each: paota device THIS-MACHINE:PORT --keys DIR --device K --devices {devices}"
            )
        config = {**run_config, "nodes": ",".join(map(str, federation.node_ids))}
        run = federation.run_app(app, config, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert run.stdout is not None
        for raw in run.stdout:  # for the user to read: what devices say is among it, so nothing is concluded from it
            line = printable(LEVEL.sub("", COLOUR.sub("", raw.decode(errors="replace")).strip()))
            if line:
                show(line)
            if federation.outcome.exists():
                break
    if not federation.outcome.exists():
        raise UserError(f"the deployment ended without a result (logs: {work})")
    outcome = read_json(federation.outcome)
    if "error" in outcome:
        raise UserError(f"the deployment failed: {outcome['error']} (logs: {work})")
