"""Dense networks: the paper's multi-layer perceptron, 784-10-10-10 by default (d = 8070), and softmax regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.settings import setting
from .base import Params, he_normal


@dataclass(frozen=True, kw_only=True)
class Mlp:
    """Dense layers with ReLU between them: 784-10-10-10 on MNIST, the paper's network."""

    hidden: tuple[int, ...] = setting(
        (10, 10), low=1, doc="Width of each hidden layer.", aliases=("layers", "hidden_layers", "width")
    )

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        widths = (math.prod(input_shape), *self.hidden, num_classes)
        layers = []
        for i, (fan_in, fan_out) in enumerate(pairwise(widths)):
            # [out, in]: CPU kernels want the long axis last when many small networks train side by side.
            weight = he_normal(jax.random.fold_in(key, i), (fan_out, fan_in), fan_in)
            layers.append({"bias": jnp.zeros(fan_out), "weight": weight})
        return layers

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = x.reshape(len(x), -1)
        for i, layer in enumerate(params):
            x = x @ layer["weight"].T + layer["bias"]
            if i < len(params) - 1:
                x = jax.nn.relu(x)
        return x


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Softmax regression: one dense layer, a convex problem."""

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        return {"bias": jnp.zeros(num_classes), "weight": jnp.zeros((num_classes, math.prod(input_shape)))}

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        return x.reshape(len(x), -1) @ params["weight"].T + params["bias"]
