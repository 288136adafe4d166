"""What a model is: a pair of pure functions. And what it is judged by: cross-entropy and accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

Params = Any  # any pytree of arrays


class Model(Protocol):
    """`init` makes the parameters, `apply` maps them and a batch of inputs [B, *input_shape] to logits [B, classes]."""

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params: ...

    def apply(self, params: Params, x: jax.Array) -> jax.Array: ...

    def __hash__(self) -> int: ...  # two models that compute the same share one compiled program


@dataclass(frozen=True, kw_only=True)
class FunctionModel:
    """Your own model from two functions, e.g. those of an Equinox or Flax module.

    Given in Python: `paota.run({"model": {"name": FunctionModel(init=..., apply=...)}})`. A run folder remembers it as
    "functions", without the code; register a class of your own to have a name that files can use.
    """

    init: Callable[[jax.Array, tuple[int, ...], int], Params] | None = None
    apply: Callable[[Params, jax.Array], jax.Array] | None = None


def he_normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
    """He initialisation, the usual one for ReLU."""
    return jax.random.normal(key, shape) * jnp.sqrt(2.0 / fan_in)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """l(w; x, y) of each sample, [B]."""
    return jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]
