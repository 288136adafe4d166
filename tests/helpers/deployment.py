"""A deployment in memory: the real server, client and messages on a `MemoryGrid`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

import paota
from helpers.memory_grid import JumpingClock, MemoryGrid
from paota.base.files import to_toml
from paota.deploy.client import answer_hello, answer_order, train_with_jax
from paota.deploy.server_app import serve
from paota.timing.latency import Latencies


def client(folder: Path) -> ClientApp:
    app = ClientApp()

    @app.query()
    def hello(message: Message, context: Context) -> Message:
        return answer_hello(message, context)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return answer_order(message, context, train_with_jax(context, folder))

    return app


def make_grid(folder: Path, table: dict[str, Any], kind: type[MemoryGrid] = MemoryGrid, **config: Any) -> MemoryGrid:
    """A grid without nodes; latencies are those that the simulator draws for the same experiment."""
    (folder / "experiment.toml").write_text(to_toml(table))
    run_config = {"experiment": "experiment.toml", "out": str(folder / "run"), "poll-s": 0.25, **config}
    experiment = paota.Experiment.from_dict(table)
    latencies = Latencies(experiment.timing.latency, devices=experiment.data.devices, seed=experiment.seed)
    scale = float(run_config.get("time-scale", 1.0))

    def latency_s(device: int, training: int) -> float:
        return float(latencies(np.array([device]), np.array([training]))[0]) * scale

    return kind(client(folder), JumpingClock(), run_config, latency_s)


def run(grid: MemoryGrid, folder: Path, callbacks: Sequence[paota.Callback] = ()) -> paota.Result:
    context = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config=grid.run_config)
    return serve(grid, context, folder, clock=grid.clock, callbacks=callbacks)


def deploy(
    folder: Path, table: dict[str, Any], prepare: Callable[[MemoryGrid], None] = lambda grid: None, **config: Any
) -> tuple[paota.Result, MemoryGrid]:
    """All devices connected from the start; `prepare` may script what goes wrong."""
    grid = make_grid(folder, table, **config)
    devices = paota.Experiment.from_dict(table).data.devices
    for k in range(devices):
        grid.connect(k, devices)
    prepare(grid)
    return run(grid, folder), grid
