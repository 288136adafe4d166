"""What a model is: a pair of pure functions. And what it is judged by: cross-entropy and accuracy, or its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

Params = Any  # any pytree of arrays
Judge = Callable[[jax.Array, jax.Array], jax.Array]  # (outputs [B, ...], labels [B]) -> a number for each sample [B]


class Model(Protocol):
    """`init` makes the parameters, `apply` maps them and a batch of inputs [B, *input_shape] to logits [B, classes].

    A model may bring `loss(outputs, y)` and `score(outputs, y)`, both [B], and `score_name`, a word for what the score
    is: they take the place of cross-entropy and accuracy in training and judging, and outputs may then have any shape.
    """

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params: ...

    def apply(self, params: Params, x: jax.Array) -> jax.Array: ...

    def __hash__(self) -> int: ...  # two models that compute the same share one compiled program


@dataclass(frozen=True, kw_only=True)
class FunctionModel:
    """Your own model from functions, as `Model` has them: `paota.run({"model": FunctionModel(init=..., apply=...)})`.

    A run folder remembers it as "functions", without the code; a class that is registered has a name that files can
    use, and so has a function in a file ("my_module:build").
    """

    init: Callable[[jax.Array, tuple[int, ...], int], Params] | None = None
    apply: Callable[[Params, jax.Array], jax.Array] | None = None
    loss: Judge | None = None
    score: Judge | None = None
    score_name: str | None = None
    written_name = "functions"


def loss_of(model: Model) -> Judge:
    """What training makes small: the model's own `loss`, else cross-entropy."""
    return getattr(model, "loss", None) or cross_entropy


def score_of(model: Model) -> Judge:
    """What stands in the column `test_accuracy`: the mean of the model's own `score`, else of `correct`."""
    return getattr(model, "score", None) or correct


def score_name_of(model: Model) -> str:
    """A word for the score; "accuracy" unless the model brings one of its own."""
    return getattr(model, "score_name", None) or ("score" if getattr(model, "score", None) else "accuracy")


def he_normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
    """He initialisation, the usual one for ReLU."""
    return jax.random.normal(key, shape) * jnp.sqrt(2.0 / fan_in)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """l(w; x, y) of each sample, [B]."""
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]


def correct(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """1 where the largest logit is the label's, else 0, [B]."""
    return (jnp.argmax(logits, axis=-1) == labels).astype(logits.dtype)


def is_torch(model: Model) -> bool:
    """Whether PyTorch computes the model, not JAX."""
    return getattr(model, "written_name", "") == "torch"
