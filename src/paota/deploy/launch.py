"""A deployment from this machine: write the Flower app, start the processes, run, show the log, stop everything."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from ..base.errors import UserError, printable
from ..base.files import read_json, to_toml
from ..base.registry import DATASETS
from ..experiment.experiment import Experiment
from .gateway import relay
from .processes import PROGRAMS, LocalFederation, toml_word
from .settings import Deployment

MAX_LOCAL_DEVICES = 32  # each is two processes at rest and a third while it trains
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LEVEL = re.compile(r"^(INFO|WARNING|ERROR)\s*:\s*")


def write_app(folder: Path, experiment: Experiment, run_config: Mapping[str, object]) -> None:
    """Write a complete Flower app for `experiment` into `folder`. `run_config` replaces defaults of `Deployment`."""
    table = experiment.to_dict()
    dataset = str(table["data"]["dataset"])
    if dataset not in DATASETS:  # a path, relative to the experiment file
        table["data"]["dataset"] = str((experiment.base / dataset).resolve())
    (folder / "deployment").mkdir(parents=True)
    (folder / "experiment.toml").write_text(to_toml(table), encoding="utf-8")
    (folder / "deployment" / "__init__.py").write_text("")
    for name in ("server_app.py", "client_app.py"):
        (folder / "deployment" / name).write_text((PROGRAMS / f"{name}.in").read_text(encoding="utf-8"))
    every_setting = {key.replace("_", "-"): value for key, value in dataclasses.asdict(Deployment()).items()}
    config = {**every_setting, **run_config}  # `flwr run --run-config` changes only settings in the file
    lines = "".join(f"{key} = {toml_word(value)}\n" for key, value in config.items())
    project = (PROGRAMS / "pyproject.toml.in").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(project + lines, encoding="utf-8")


def check_size(devices: int) -> None:
    """Raise a `UserError` for more devices than one machine can run."""
    if devices > MAX_LOCAL_DEVICES:
        raise UserError(
            f"data.devices = {devices} means {devices} SuperNodes on this machine, and at most {MAX_LOCAL_DEVICES} are "
            "started: lower it, or start the SuperNodes on machines of their own (docs/flower.md)"
        )


def run_here(
    app: Path, work: Path, *, devices: int, run_config: Mapping[str, object], secure: bool = True,
    show: Callable[[str], None] = print, keys: Path | None = None, gateway_socket: str | None = None,
    warm: bool = True,
) -> None:  # fmt: skip
    """Start a SuperLink and SuperNodes, run `app` on them, and stop them all.

    Args:
        app: the folder of the Flower app.
        work: a folder that keeps the logs.
        devices: K.
        run_config: settings of the app to change.
        secure, keys, warm: as for `LocalFederation`.
        show: prints a line.
        gateway_socket: the socket file of a gateway for devices on other machines; None: all devices are here.
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
        run = federation.run_app(app, config)
        assert run.stdout is not None
        for raw in run.stdout:  # only shown, never interpreted: it contains texts of devices
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
