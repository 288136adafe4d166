"""Softmax regression: convex, so that theory and practice can be compared."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from .base import Params


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Softmax regression: one dense layer, a convex problem."""

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        return {"bias": jnp.zeros(num_classes), "weight": jnp.zeros((num_classes, math.prod(input_shape)))}

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        return x.reshape(len(x), -1) @ params["weight"].T + params["bias"]
