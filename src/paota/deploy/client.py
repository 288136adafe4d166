"""The ClientApp of a device: report which device it is, train when asked, answer. Training is JAX's or your own."""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict

from ..base.errors import UserError
from ..base.types import Json, Table
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..training.settings import Training
from .device_processes import TRAINER, ask
from .settings import Deployment
from .transport import Arrays

if TYPE_CHECKING:
    from .training import LocalTrainer, Shard

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LocalTask:
    """One local training as the server orders it.

    The last three numbers define plain SGD; `training_of` returns every setting of `[training]`.
    """

    label: str  # of the algorithm that is being run
    device: int
    version: int
    training: int  # local trainings that the device had begun before
    latency_s: float  # real seconds that this training must take at least; 0: no minimum
    model: Arrays  # the global model, parameter by parameter
    local_steps: int
    batch_size: int
    learning_rate: float  # of this version
    shift: Arrays | None = None  # to be added to every gradient


@dataclass(frozen=True, kw_only=True)
class LocalResult:
    """The result of one local training."""

    model: Arrays  # same names and shapes as in the task
    num_examples: int
    loss: float


def answer_hello(message: Message, context: Context, prepare: Callable[[], None] = lambda: None) -> Message:
    """Answer which device this node is, after `prepare`. Call it from the function under `@app.query()`."""
    prepare()
    device: Table = {
        "partition-id": partition_id(context),
        "num-partitions": int(context.node_config["num-partitions"]),
    }
    return Message(RecordDict({"device": ConfigRecord(device)}), reply_to=message)


def answer_order(message: Message, context: Context, train: Callable[[LocalTask], LocalResult]) -> Message:
    """Train, wait for an emulated latency, and answer. Call it from the function under `@app.train()`."""
    began = time.monotonic()
    task = read_task(message)
    if task.device != partition_id(context):
        raise ValueError(f"an order for device {task.device} reached device {partition_id(context)}")
    trained = train(task)
    time.sleep(max(0.0, task.latency_s - (time.monotonic() - began)))
    arrays = ArrayRecord({name: Array(np.ascontiguousarray(a)) for name, a in trained.model.items()})
    metrics = MetricRecord(
        {
            "version": task.version, "training": task.training,
            "num-examples": trained.num_examples, "loss": float(trained.loss),
        }
    )  # fmt: skip
    return Message(RecordDict({"model": arrays, "metrics": metrics}), reply_to=message)


def read_task(message: Message) -> LocalTask:
    """Return the task in the server's message."""
    order: Mapping[str, Json] = message.content.config_records["order"]
    return LocalTask(
        label=str(order["label"]), device=int(order["device"]), version=int(order["version"]),
        training=int(order["training"]), local_steps=int(order["local-steps"]), batch_size=int(order["batch-size"]),
        learning_rate=float(order["learning-rate"]), latency_s=float(order["latency-s"]),
        model=_arrays(message, "model") or {}, shift=_arrays(message, "shift"),
    )  # fmt: skip


def _arrays(message: Message, name: str) -> Arrays | None:
    records = message.content.array_records
    return {key: array.numpy() for key, array in records[name].items()} if name in records else None


def partition_id(context: Context) -> int:
    """Return the device's number k from Flower's --node-config "partition-id=0 num-partitions=10"."""
    missing = {"partition-id", "num-partitions"} - set(context.node_config)
    if missing:
        raise UserError(
            f'--node-config must give {" and ".join(sorted(missing))}, e.g. "partition-id=0 num-partitions=10"'
        )
    return int(context.node_config["partition-id"])


def device_data(context: Context, folder: Path) -> Shard:
    """Return this device's data: its part of the experiment's data set, or the file `data` of its node-config."""
    from .training import shard_of  # start-up time: it imports JAX

    own = context.node_config.get("data")
    experiment = Deployment.from_run_config(context.run_config).load(folder)
    return shard_of(experiment, partition_id(context), None if own is None else str(own))


def training_of(task: LocalTask, context: Context, folder: Path) -> Training:
    """Return the settings `[training]` of the task's algorithm, from the experiment in the app's `folder`."""
    return _entry(Deployment.from_run_config(context.run_config).load(folder), task.label).training


def train_with_jax(context: Context, folder: Path) -> Callable[[LocalTask], LocalResult]:
    """Return the simulator's local training of the experiment in the app's `folder`, on this device's data."""

    def train(task: LocalTask) -> LocalResult:
        key = _trainer_key(context, folder, task.label, task.device)
        address = os.environ.get(TRAINER)
        if address:
            try:
                order = {**key, "version": task.version, "training": task.training}
                reply, trained = ask(address, order, task.model, task.shift)
                return LocalResult(model=trained, num_examples=reply["num_examples"], loss=reply["loss"])
            except OSError as error:
                logger.warning("the trainer does not answer (%s): training in this process", error)
        trainer = trainer_of(**key)
        local, loss = trainer.train(task.model, task.version, task.training, task.shift)
        return LocalResult(model=trainer.layout.split(local), num_examples=trainer.num_samples, loss=loss)

    return train


def prepare_jax(context: Context, folder: Path) -> Callable[[], None]:
    """Return a `prepare` for `answer_hello`: this machine's trainer, if any, compiles what the experiment needs.

    A failure is logged only. The device takes part, and its trainings report what is wrong.
    """

    def prepare() -> None:
        address = os.environ.get(TRAINER)
        if not address:
            return
        for entry in Deployment.from_run_config(context.run_config).load(folder).algorithms:
            try:
                ask(address, {**_trainer_key(context, folder, entry.label, partition_id(context)), "prepare": True}, {})
            except (OSError, RuntimeError) as error:
                logger.warning("preparing %s: %s", entry.label, error)

    return prepare


class TrainerKey(TypedDict):
    """The arguments of `trainer_of`."""

    run_config: str  # as JSON
    folder: str  # of the app
    label: str  # of the algorithm
    device: int
    own_data: str  # the path of the device's own data, or empty


def _trainer_key(context: Context, folder: Path, label: str, device: int) -> TrainerKey:
    return {
        "run_config": json.dumps(dict(context.run_config), sort_keys=True), "folder": str(folder), "label": label,
        "device": device, "own_data": str(context.node_config.get("data", "")),
    }  # fmt: skip


@functools.lru_cache(maxsize=64)  # one process may serve many devices: a trainer, or Flower's simulation runtime
def trainer_of(run_config: str, folder: str, label: str, device: int, own_data: str) -> LocalTrainer:
    """Return the trainer of one device. `TrainerKey` explains the arguments."""
    from .training import LocalTrainer, shard_of  # start-up time: it imports JAX

    experiment = Deployment.from_run_config(json.loads(run_config)).load(Path(folder))
    return LocalTrainer(experiment, _entry(experiment, label), device, shard_of(experiment, device, own_data or None))


def _entry(experiment: Experiment, label: str) -> AlgorithmConfig:
    by_label = {entry.label: entry for entry in experiment.algorithms}
    if label not in by_label:
        raise UserError(f"the device's experiment file has no algorithm '{label}': is it the server's?")
    return by_label[label]
