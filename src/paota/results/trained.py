"""Trained models: rebuild the model of a run around its stored weights, and predict with it.

A run folder stores the weights alone. The settings give the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..base.errors import UserError
from ..data.dataset import Dataset
from ..experiment.experiment import Experiment

if TYPE_CHECKING:
    from jaxtyping import Float, PyTree, Shaped

    from ..models.base import Model

BATCH = 1024  # samples in one evaluation of the model


def trained_model(experiment: Experiment, dataset: Dataset, weights: Float[np.ndarray, " d"]) -> object:
    """Return the model in the form that its author wrote it; see `Result.model`."""
    model, params = _fitted(experiment, dataset, weights)
    return model.trained(params) if hasattr(model, "trained") else params


def predictions(
    experiment: Experiment, dataset: Dataset, weights: Float[np.ndarray, " d"], x: ArrayLike
) -> Shaped[np.ndarray, "n ..."]:
    """Return the classes or outputs for samples; see `Result.predict`."""
    import jax  # start-up time

    from ..models.check import needs_classes  # start-up time
    from ..training.learner import as_float  # start-up time

    samples = np.asarray(x)
    samples = samples if samples.dtype == np.uint8 else samples.astype(np.float32)
    if samples.shape[1:] != tuple(dataset.input_shape) or not len(samples):
        wanted = ", ".join(map(str, ("n", *dataset.input_shape)))
        raise UserError(f"predict: samples must have the shape [{wanted}], not {list(samples.shape)}")
    model, params = _fitted(experiment, dataset, weights)
    blocks = [samples[i : i + BATCH] for i in range(0, len(samples), BATCH)]
    if hasattr(model, "outputs"):  # computed by PyTorch
        outputs = [model.outputs(params, block, dataset.scaling) for block in blocks]
    else:
        outputs = [
            np.asarray(model.apply(params, as_float(jax.numpy.asarray(block), dataset.scaling))) for block in blocks
        ]
    joined = np.concatenate(outputs)
    return joined.argmax(axis=-1) if needs_classes(model) else joined


def _fitted(experiment: Experiment, dataset: Dataset, weights: Float[np.ndarray, " d"]) -> tuple[Model, PyTree]:
    """Return the model for the shape of the samples, and the weights as its pytree of parameters."""
    import jax  # start-up time
    from jax.flatten_util import ravel_pytree  # start-up time

    from ..models.check import check_model  # start-up time
    from ..models.custom import fitted  # start-up time

    shape, classes = tuple(dataset.input_shape), dataset.num_classes
    model = fitted(experiment.model, shape, classes)
    check_model(model, shape, classes, experiment.seed)
    initial, unravel = ravel_pytree(model.init(jax.random.key(0), shape, classes))
    if initial.size != len(weights):
        raise UserError(
            f"the model has {initial.size} parameters, and the run's has {len(weights)}: give the same model"
        )
    return model, unravel(jax.numpy.asarray(weights))
