"""How good a model is: on the test data, and on all that the devices hold."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..training.learner import SampleEvaluation
from . import sharding
from .structures import DeviceData, LearningProblem


class ModelEvaluation(NamedTuple):
    """How good one model is."""

    test_accuracy: Float[Array, ""]
    test_loss: Float[Array, ""]
    train_loss: Float[Array, ""]  # F(w), Eq. sys_FL_task; NaN where the mini-batches' loss stands for it
    score_by_label: Float[Array, " C"]  # sum of the score over the test samples of each label

    @classmethod
    def unknown(cls, num_classes: int) -> ModelEvaluation:
        """Placeholder for a round without evaluation."""
        return cls(*(jnp.full((), jnp.nan),) * 3, jnp.full(num_classes, jnp.nan))


def evaluate(problem: LearningProblem, model: Float[Array, " d"], data: DeviceData) -> ModelEvaluation:
    """`model` on the test data and, with `train_loss = "objective"`, on all that the devices hold."""

    def over(x: Any, y: jax.Array, weight: jax.Array) -> SampleEvaluation:
        return sharding.evaluate(problem.mesh, problem.learner, model, (x, y, weight))

    test = over(data.x_test, data.y_test, jnp.full(len(data.y_test), 1.0 / len(data.y_test)))
    objective = jnp.full((), jnp.nan)
    if problem.train_loss == "objective":
        objective = over(data.x_train, data.y_train, data.sample_weight).loss
    return ModelEvaluation(test.score, test.loss, objective, test.score_by_label)


def evaluate_model(problem: LearningProblem, model: Float[Array, " d"], data: DeviceData) -> ModelEvaluation:
    """`evaluate`, compiled."""
    return _compiled(problem)(*sharding.replicate(problem.mesh, (model, data)))


@functools.lru_cache(maxsize=64)
def _compiled(problem: LearningProblem) -> Any:
    return jax.jit(functools.partial(evaluate, problem), out_shardings=sharding.everywhere(problem.mesh))
