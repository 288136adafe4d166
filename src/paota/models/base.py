"""The model protocol: a pair of pure functions, and the loss and score by which a model is trained and evaluated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

Params: TypeAlias = PyTree  # of float arrays
SampleMetric = Callable[[jax.Array, jax.Array], jax.Array]  # (outputs [B, ...], labels [B]) -> one number a sample [B]


class Model(Protocol):
    """`init` makes the parameters, `apply` maps them and a batch of inputs [B, *input_shape] to logits [B, classes].

    A model may have its own `loss(outputs, y)` and `score(outputs, y)`, both [B], and a `score_name`. They replace
    cross-entropy and accuracy in training and evaluation, and outputs may then have any shape.
    """

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params: ...

    def apply(self, params: Params, x: jax.Array) -> jax.Array: ...

    def __hash__(self) -> int: ...  # two models that compute the same share one compiled program


@dataclass(frozen=True, kw_only=True, eq=False)
class WithMetrics:
    """A model that may have its own loss and score, as `Model` describes them.

    Args:
        loss: maps outputs and labels to a loss per sample, [B].
        score: maps outputs and labels to a score per sample, [B].
        score_name: name of the score.
    """

    loss: SampleMetric | None = None
    score: SampleMetric | None = None
    score_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class FunctionModel(WithMetrics):
    """Your own model from functions, as `Model` has them: `paota.run({"model": FunctionModel(init=..., apply=...)})`.

    A run folder remembers it as "functions", without the code. A registered class has a name that files can use, and
    so has a function in a file ("my_module:build").

    Args:
        init: makes the parameters from a key, the input shape and the number of classes.
        apply: maps parameters and inputs [B, ...] to logits [B, classes].
    """

    init: Callable[[jax.Array, tuple[int, ...], int], Params] | None = None
    apply: Callable[[Params, jax.Array], jax.Array] | None = None
    written_name = "functions"


def parameter_shapes(model: Model, input_shape: tuple[int, ...], num_classes: int) -> Params:
    """Return the shapes and types of the model's parameters, as a pytree, without computing anything."""
    return jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape, num_classes))


def count_parameters(model: Model, input_shape: tuple[int, ...], num_classes: int) -> int:
    """Return d, the number of the model's parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(parameter_shapes(model, input_shape, num_classes)))


def loss_of(model: Model) -> SampleMetric:
    """Return what training minimises: the model's own `loss`, else cross-entropy."""
    return getattr(model, "loss", None) or cross_entropy


def score_of(model: Model) -> SampleMetric:
    """Return the score whose mean is the column `test_accuracy`: the model's own `score`, else `correct`."""
    return getattr(model, "score", None) or correct


def score_name_of(model: Model) -> str:
    """Return the name of the score: "accuracy" unless the model has its own score."""
    return getattr(model, "score_name", None) or ("score" if getattr(model, "score", None) else "accuracy")


def he_normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
    """Draw weights of this shape by He initialisation, the usual one for ReLU."""
    return jax.random.normal(key, shape) * jnp.sqrt(2.0 / fan_in)


def cross_entropy(logits: Float[Array, "B C"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
    """Return l(w; x, y) of each sample."""
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]


def correct(logits: Float[Array, "B C"], labels: Int[Array, " B"]) -> Float[Array, " B"]:
    """Return 1 for each sample whose label has the largest logit, else 0."""
    return (jnp.argmax(logits, axis=-1) == labels).astype(logits.dtype)


def is_torch(model: Model) -> bool:
    """Return True if PyTorch computes the model, not JAX."""
    return getattr(model, "written_name", "") == "torch"
