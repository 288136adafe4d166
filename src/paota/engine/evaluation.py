"""Evaluation of a model on the test data, and on the training data of all devices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from ..training.learner import SampleEvaluation, Samples
from . import sharding
from .structures import DeviceData, LearningProblem


class ModelEvaluation(NamedTuple):
    """Accuracy and losses of one model."""

    test_accuracy: Float[Array, ""]
    test_loss: Float[Array, ""]
    train_loss: Float[Array, ""]  # F(w), Eq. sys_FL_task; NaN if the loss of the mini-batches replaces it
    score_by_label: Float[Array, " C"]  # sum of the score over the test samples of each label

    @classmethod
    def unknown(cls, num_classes: int) -> ModelEvaluation:
        """Placeholder for a round without evaluation."""
        return cls(*(jnp.full((), jnp.nan),) * 3, jnp.full(num_classes, jnp.nan))


def evaluate(problem: LearningProblem, model: Float[Array, " d"], data: DeviceData) -> ModelEvaluation:
    """Evaluate `model` on the test data and, with `train_loss = "objective"`, on the training data of all devices."""

    def over(x: Samples, y: Shaped[Array, " N"], weight: Float[Array, " N"]) -> SampleEvaluation:
        return sharding.evaluate(problem.mesh, problem.learner, model, (x, y, weight))

    test = over(data.x_test, data.y_test, jnp.full(len(data.y_test), 1.0 / len(data.y_test)))
    objective = jnp.full((), jnp.nan)
    if problem.train_loss == "objective":
        objective = over(data.x_train, data.y_train, data.sample_weight).loss
    return ModelEvaluation(test.score, test.loss, objective, test.score_by_label)


def evaluate_model(problem: LearningProblem, model: Float[Array, " d"], data: DeviceData) -> ModelEvaluation:
    """Evaluate `model`, in a compiled program."""
    return _compiled(problem)(*sharding.replicate(problem.mesh, (model, data)))


@functools.lru_cache(maxsize=64)
def _compiled(problem: LearningProblem) -> Callable[..., ModelEvaluation]:
    return jax.jit(functools.partial(evaluate, problem), out_shardings=sharding.everywhere(problem.mesh))
