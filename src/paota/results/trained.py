"""From a result back to what it was made of: the shards of the devices, the trained models, and what they predict.

Shards and models are not kept twice: the settings and the seed give the former again, the run folder holds the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.errors import UserError
from ..base.rng import Purpose, host_rng
from ..data.dataset import Dataset
from ..data.load import load_data
from ..data.partition import deal
from ..data.shards import Shards
from ..experiment.experiment import Experiment, as_experiment

if TYPE_CHECKING:
    from .result import Result, Trajectory

BATCH = 1024  # samples that are looked at together


def experiment_of(result: Result) -> Experiment:
    """The experiment of a result, or the sentence that says why it is known as data only."""
    return as_experiment(result.experiment)


def dataset_of(result: Result) -> Dataset:
    """The data set of the run, loaded again."""
    experiment = experiment_of(result)
    return load_data(experiment.data, base=experiment.base)


def shards_of(result: Result) -> Mapping[int, Shards]:
    """Who held which training samples, by seed."""
    experiment, dataset = experiment_of(result), dataset_of(result)
    data = experiment.data
    return {
        seed: deal(data.partition, dataset, devices=data.devices, rng=host_rng(seed, Purpose.PARTITION))
        for seed in result.seeds
    }


def model_of(result: Result, trajectory: Trajectory) -> Any:
    """The last global model in the form that the user's own model has; see `Result.model`."""
    model, params = _fitted(experiment_of(result), dataset_of(result), trajectory)
    return model.trained(params) if hasattr(model, "trained") else params


def predictions_of(result: Result, trajectory: Trajectory, x: ArrayLike) -> NDArray[Any]:
    """What the last global model says of samples; see `Result.predict`."""
    import jax

    from ..models.check import needs_classes
    from ..training.learner import as_float

    dataset = dataset_of(result)
    samples = np.asarray(x)
    samples = samples if samples.dtype == np.uint8 else samples.astype(np.float32)
    if samples.shape[1:] != tuple(dataset.input_shape) or not len(samples):
        wanted = ", ".join(map(str, ("n", *dataset.input_shape)))
        raise UserError(f"predict: samples must have the shape [{wanted}], not {list(samples.shape)}")
    model, params = _fitted(experiment_of(result), dataset, trajectory)
    blocks = [samples[i : i + BATCH] for i in range(0, len(samples), BATCH)]
    if hasattr(model, "outputs"):  # computed by PyTorch
        outputs = [model.outputs(params, block, dataset.scaling) for block in blocks]
    else:
        outputs = [
            np.asarray(model.apply(params, as_float(jax.numpy.asarray(block), dataset.scaling))) for block in blocks
        ]
    whole = np.concatenate(outputs)
    return whole.argmax(axis=-1) if needs_classes(model) else whole


def _fitted(experiment: Experiment, dataset: Dataset, trajectory: Trajectory) -> tuple[Any, Any]:
    """(the model for the samples at hand, its parameters at the end of a trajectory as the pytree that it uses)."""
    import jax
    from jax.flatten_util import ravel_pytree

    from ..models.custom import fitted

    shape, classes = tuple(dataset.input_shape), dataset.num_classes
    model = fitted(experiment.model, shape, classes)
    initial = model.init(jax.random.key(0), shape, classes)
    return model, ravel_pytree(initial)[1](jax.numpy.asarray(trajectory.model))
