"""Local training on one device with JAX: the simulator's own, on nothing but this device's data."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from .. import engine, settings
from ..air.settings import Air
from ..data.dataset import Dataset
from ..data.load import load_dataset
from ..experiment import Experiment
from ..power.settings import Power
from ..registry import ALGORITHMS
from ..rng import Purpose, host_rng
from ..training.settings import Training
from .layout import Layout


class Shard(NamedTuple):
    """What one device holds."""

    x: NDArray[Any]
    y: NDArray[np.int32]
    input_shape: tuple[int, ...]
    num_classes: int


def shard_of(experiment: Experiment, device: int, own_data: str | None = None) -> Shard:
    """Device k's part of the experiment's data set, the same as in the simulator; or all of its own data file."""
    if own_data:
        dataset = load_dataset(own_data, base=Path())
        return _shard(dataset, slice(None))
    dataset = load_dataset(experiment.data.dataset, base=experiment.base)
    rng = host_rng(experiment.seed, Purpose.PARTITION)
    shards = experiment.data.partition(dataset.y_train, devices=experiment.data.devices, rng=rng)
    return _shard(dataset, shards.of(device))


def _shard(dataset: Dataset, samples: Any) -> Shard:
    x, y = dataset.x_train[samples], dataset.y_train[samples]
    return Shard(x, y, tuple(dataset.input_shape), dataset.num_classes)


class LocalTrainer:
    """M steps of mini-batch SGD (Eq. local_update) on one device's shard.

    Flower starts a process for every training, so nothing is computed here outside the one compiled function.
    """

    def __init__(self, experiment: Experiment, training: Training, device: int, shard: Shard) -> None:
        self.device, self.num_samples, self.seed = device, len(shard.y), experiment.seed
        # The engine wants a whole rule; local training uses nothing of it but `training`.
        rule = engine.Rule(
            algorithm=settings.defaults(ALGORITHMS["local-sgd"]), training=training, air=settings.defaults(Air),
            power=settings.defaults(Power),
        )  # fmt: skip
        shape = engine.Shape(
            input_shape=shard.input_shape, num_classes=shard.num_classes, max_ready=1, versions=2, events=1,
            train_loss="batches",
        )  # fmt: skip
        self.program = engine.program_for(rule, experiment.model, shape)
        self.layout = Layout.of(
            jax.eval_shape(lambda: experiment.model.init(jax.random.key(0), shard.input_shape, shard.num_classes))
        )
        self._numbers = {name: np.float32(value) for name, value in settings.floats(rule).items()}
        self._fleet = _fleet(shard, devices=max(experiment.data.devices, device + 1))

    def __call__(self, start: NDArray[Any], training: int) -> tuple[NDArray[np.float32], float]:
        """(w_k, mean loss of its mini-batches) after the device's `training`-th local training (0-based)."""
        address = np.uint32(self.seed), np.int32(self.device), np.int32(training)
        local, loss = _compiled(self.program)(self._numbers, self._fleet, start, *address)
        return np.asarray(local), float(loss)


@functools.lru_cache(maxsize=8)
def _compiled(program: engine.Program) -> Any:
    def train(numbers: Any, fleet: Any, start: Any, seed: Any, device: Any, training: Any) -> Any:
        rule = settings.replace_floats(program.template, numbers)
        unused = dict.fromkeys(engine.Rows._fields, None)  # training asks a row only for the device and its count
        row = engine.Rows(**unused)._replace(device=device[None], training=training[None])  # type: ignore[arg-type]
        local, loss = program._train(rule.training, jax.random.key(seed), fleet, start[None], row)
        return local[0], loss[0]

    return jax.jit(train)


def _fleet(shard: Shard, *, devices: int) -> engine.Fleet:
    """The engine's view of a world in which every device holds this one's samples.

    The engine looks a device up by its number, which also keys its mini-batches, so the number must stay what it is.
    Samples are padded to few lengths: devices that share a process, or a compilation cache, share a compilation.
    """
    n = len(shard.y)
    length = 1 << (n - 1).bit_length()
    x = np.pad(shard.x, [(0, length - n)] + [(0, 0)] * (shard.x.ndim - 1))
    y = np.pad(shard.y, (0, length - n))
    columns: dict[str, Any] = {
        "x_train": x, "y_train": y, "x_test": x[:1], "y_test": y[:1],
        "shard_indices": np.arange(length, dtype=np.int32),
        "shard_offsets": np.zeros(devices, np.int32),
        "shard_sizes": np.full(devices, n, np.int32),
        "sample_weight": np.zeros(length, np.float32),
    }  # fmt: skip
    return engine.Fleet(**columns)
