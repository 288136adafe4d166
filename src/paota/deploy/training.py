"""Local training on one device with JAX: the simulator's own, on this device's data only."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from ..base.settings import as_tree
from ..data.dataset import Dataset, Scaling
from ..data.load import load_data, load_dataset
from ..data.partition import deal
from ..experiment.experiment import AlgorithmConfig, Experiment
from ..models.base import parameter_shapes
from ..models.custom import fitted, jax_model
from ..training.batches import draw_augmentation, draw_batches
from ..training.learner import GenericLearner, TrainingInputs
from ..training.settings import Training
from .transport import Arrays, Layout


class Shard(NamedTuple):
    """The data of one device."""

    x: Shaped[np.ndarray, "n ..."]
    y: Int[np.ndarray, " n"]
    input_shape: tuple[int, ...]
    num_classes: int
    scaling: Scaling | None


def shard_of(experiment: Experiment, device: int, own_data: str | None = None) -> Shard:
    """Return device k's part of the experiment's data set, as in the simulator, or the whole data file of the device."""
    if own_data:
        if experiment.data.normalise != "none":
            raise UserError(
                f"data.normalise = '{experiment.data.normalise}' needs the samples of all devices, which a device with "
                f"its own data ({own_data}) does not have: normalise the file itself"
            )
        dataset = load_dataset(own_data, base=Path())
        return _shard(dataset, slice(None))
    dataset = load_data(experiment.data, base=experiment.base)
    rng = host_rng(experiment.seed, Purpose.PARTITION)
    shards = deal(experiment.data.partition, dataset, devices=experiment.data.devices, rng=rng)
    return _shard(dataset, shards.of(device))


def _shard(dataset: Dataset, samples: slice | Int[np.ndarray, " n"]) -> Shard:
    x, y = dataset.x_train[samples], dataset.y_train[samples]
    return Shard(x, y, tuple(dataset.input_shape), dataset.num_classes, dataset.scaling)


class LocalTrainer:
    """Local training (Eq. local_update) on one device's shard, as `[training]` says.

    Nothing is computed outside the one compiled function, because Flower may start a process for every training. Samples
    are padded to few lengths, so devices that share a process, or a compilation cache, share a compilation.
    """

    def __init__(self, experiment: Experiment, entry: AlgorithmConfig, device: int, shard: Shard) -> None:
        self.shifted = entry.algorithm.shifts_gradients
        self.device, self.num_samples, self.seed = device, len(shard.y), experiment.seed
        model = jax_model(fitted(experiment.model, shard.input_shape, shard.num_classes), "paota deploy")
        self.learner = GenericLearner(model, shard.input_shape, shard.num_classes, shard.scaling)
        self.training = jax.tree.map(np.float32, as_tree(entry.training))
        self.layout = Layout.of(parameter_shapes(model, shard.input_shape, shard.num_classes))
        padding = (1 << (len(shard.y) - 1).bit_length()) - len(shard.y)
        x = np.pad(shard.x, [(0, padding)] + [(0, 0)] * (shard.x.ndim - 1))
        self._samples = x, np.pad(shard.y, (0, padding))

    def prepare(self) -> None:
        """Compile before the first training."""
        nothing = np.zeros(self.layout.size, np.float32)
        self(nothing, 0, 0, nothing if self.shifted else None)

    def train(
        self, start: Arrays, version: int, training: int, shift: Arrays | None = None
    ) -> tuple[Float[np.ndarray, " d"], float]:
        """Do the same as `__call__`, from named arrays."""
        return self(self.layout.join(start), version, training, None if shift is None else self.layout.join(shift))

    def __call__(
        self, start: Float[np.ndarray, " d"], version: int, training: int, shift: Float[np.ndarray, " d"] | None = None
    ) -> tuple[Float[np.ndarray, " d"], float]:
        """Do one local training.

        Args:
            start: the global model.
            version: its number.
            training: local trainings that the device has begun before.
            shift: a vector to add to every gradient.

        Returns:
            w_k, and the mean loss of its mini-batches.
        """
        address = np.uint32(self.seed), np.int32(self.device), np.int32(training), np.int32(self.num_samples)
        local, loss = _train(self.learner, self.training, self._samples, start, shift, (np.int32(version), *address))
        return np.asarray(local), float(loss)


@functools.partial(jax.jit, static_argnums=0)
def _train(
    learner: GenericLearner, training: Training, samples: tuple[Shaped[Array, "n ..."], Int[Array, " n"]],
    start: Float[Array, " d"], shift: Float[Array, " d"] | None, address: PyTree,
) -> tuple[Float[Array, " d"], Float[Array, ""]]:  # fmt: skip
    """Make the simulator's draws and steps for one device."""
    (x, y), (version, seed, device, number, num_samples) = samples, address
    here = jnp.zeros(1, jnp.int32)
    sample, steps = draw_batches(
        training, jax.random.key(seed), device[None], number[None], num_samples[None], most_samples=len(y)
    )
    augmentation = draw_augmentation(training, jax.random.key(seed), device[None], number[None], *sample.shape[1:])
    rate = jnp.asarray(training.rate(version[None]), start.dtype)
    orders = TrainingInputs(here, here == 0, sample, steps, rate, augmentation, None if shift is None else shift[None])
    trained = learner.train(training, orders, start[None], x, y)
    return trained.local_model[0], trained.loss[0]
