"""The device's half: say which device it is, train when asked, answer. Bring your own training or use the JAX one."""

from __future__ import annotations

import functools
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from ..base.errors import UserError
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..training.settings import Training
from .settings import Deployment
from .trainer import TRAINER, ask

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LocalTask:
    """One local training: what the server's order says.

    The last three numbers are all there is to plain SGD; `training_of` has every setting of `[training]`.
    """

    label: str  # of the algorithm that is being run
    device: int
    version: int
    training: int  # how many trainings the device had begun before this one
    latency_s: float  # real seconds that this training must take at least; 0: as fast as it goes
    model: Mapping[str, NDArray[Any]]  # the global model, parameter by parameter
    local_steps: int
    batch_size: int
    learning_rate: float  # of this version
    shift: Mapping[str, NDArray[Any]] | None = None  # to be added to every gradient, if at all


@dataclass(frozen=True, kw_only=True)
class LocalResult:
    """The result of one local training."""

    model: Mapping[str, NDArray[Any]]  # same names and shapes as in the task
    num_examples: int
    loss: float


def answer_hello(message: Message, context: Context, prepare: Callable[[], None] = lambda: None) -> Message:
    """To be registered with `@app.query()`: which device is this node? It is ready when `prepare` is done."""
    prepare()
    told: Any = {"partition-id": partition_id(context), "num-partitions": int(context.node_config["num-partitions"])}
    return Message(RecordDict({"device": ConfigRecord(told)}), reply_to=message)


def answer_order(message: Message, context: Context, train: Callable[[LocalTask], LocalResult]) -> Message:
    """To be registered with `@app.train()`: train, wait if the device shall look slow, answer."""
    began = time.monotonic()
    task = read_task(message)
    if task.device != partition_id(context):
        raise ValueError(f"an order for device {task.device} reached device {partition_id(context)}")
    trained = train(task)
    time.sleep(max(0.0, task.latency_s - (time.monotonic() - began)))
    arrays = ArrayRecord({name: Array(np.ascontiguousarray(a)) for name, a in trained.model.items()})
    metrics: Any = {
        "version": task.version, "training": task.training,
        "num-examples": trained.num_examples, "loss": float(trained.loss),
    }  # fmt: skip
    content: Any = {"model": arrays, "metrics": MetricRecord(metrics)}
    return Message(RecordDict(content), reply_to=message)


def read_task(message: Message) -> LocalTask:
    words: Any = message.content.config_records["order"]
    return LocalTask(
        label=str(words["label"]),
        device=int(words["device"]),
        version=int(words["version"]),
        training=int(words["training"]),
        local_steps=int(words["local-steps"]),
        batch_size=int(words["batch-size"]),
        learning_rate=float(words["learning-rate"]),
        latency_s=float(words["latency-s"]),
        model=_arrays(message, "model") or {},
        shift=_arrays(message, "shift"),
    )


def _arrays(message: Message, name: str) -> dict[str, NDArray[Any]] | None:
    records = message.content.array_records
    return {key: array.numpy() for key, array in records[name].items()} if name in records else None


def partition_id(context: Context) -> int:
    """The device's number k, as Flower users give it: --node-config "partition-id=0 num-partitions=10"."""
    missing = {"partition-id", "num-partitions"} - set(context.node_config)
    if missing:
        raise UserError(
            f'--node-config must give {" and ".join(sorted(missing))}, e.g. "partition-id=0 num-partitions=10"'
        )
    return int(context.node_config["partition-id"])


def device_data(context: Context, folder: Path) -> Any:
    """The `Shard` of this device: its part of the experiment's data, or the file named as `data` in its node-config."""
    from .training import shard_of

    own = context.node_config.get("data")
    experiment = Deployment.from_run_config(context.run_config).load(folder)
    return shard_of(experiment, partition_id(context), None if own is None else str(own))


def training_of(task: LocalTask, context: Context, folder: Path) -> Training:
    """All of `[training]` that the order is about, from the experiment in the app's `folder`."""
    return _entry(Deployment.from_run_config(context.run_config).load(folder), task.label).training


def train_with_jax(context: Context, folder: Path) -> Callable[[LocalTask], LocalResult]:
    """The simulator's local training of the experiment in the app's `folder`, on this device's data."""

    def train(task: LocalTask) -> LocalResult:
        words = _words(context, folder, task.label, task.device)
        address = os.environ.get(TRAINER)
        if address:
            try:
                order = {**words, "version": task.version, "training": task.training}
                told, trained = ask(address, order, task.model, task.shift)
                return LocalResult(model=trained, num_examples=told["num_examples"], loss=told["loss"])
            except OSError as error:
                logger.warning("the trainer does not answer (%s): training in this process", error)
        trainer = trainer_of(**words)
        local, loss = trainer.train(task.model, task.version, task.training, task.shift)
        return LocalResult(model=trainer.layout.split(local), num_examples=trainer.num_samples, loss=loss)

    return train


def prepare_jax(context: Context, folder: Path) -> Callable[[], None]:
    """For `answer_hello`: the trainer of this machine, if there is one, compiles what the experiment will need.

    A failure is only logged. The device takes part, and its trainings tell the server what is wrong with it.
    """

    def prepare() -> None:
        address = os.environ.get(TRAINER)
        if not address:
            return
        for entry in Deployment.from_run_config(context.run_config).load(folder).algorithms:
            words = _words(context, folder, entry.label, partition_id(context))
            try:
                ask(address, words | {"prepare": True}, {})
            except (OSError, RuntimeError) as error:
                logger.warning("preparing %s: %s", entry.label, error)

    return prepare


def _words(context: Context, folder: Path, label: str, device: int) -> dict[str, Any]:
    """Which `LocalTrainer` is meant: the arguments of `trainer_of`."""
    return {
        "run_config": json.dumps(dict(context.run_config), sort_keys=True), "folder": str(folder), "label": label,
        "device": device, "own_data": str(context.node_config.get("data", "")),
    }  # fmt: skip


@functools.lru_cache(maxsize=64)  # one process may serve many devices: a trainer, or Flower's simulation runtime
def trainer_of(run_config: str, folder: str, label: str, device: int, own_data: str) -> Any:
    """The `LocalTrainer` of one device: `run_config` as JSON, `own_data` the path of its own data or empty."""
    from .training import LocalTrainer, shard_of

    experiment = Deployment.from_run_config(json.loads(run_config)).load(Path(folder))
    return LocalTrainer(experiment, _entry(experiment, label), device, shard_of(experiment, device, own_data or None))


def _entry(experiment: Experiment, label: str) -> AlgorithmConfig:
    by_label = {entry.label: entry for entry in experiment.algorithms}
    if label not in by_label:
        raise UserError(f"the device's experiment file has no algorithm '{label}': is it the server's?")
    return by_label[label]
