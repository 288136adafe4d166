"""A small convolutional network: 3x3 convolutions with 2x2 pooling, then one hidden layer."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..base.errors import UserError
from ..base.settings import setting
from .base import Params, he_normal
from .layers import activated, convolution, image_shape


@dataclass(frozen=True, kw_only=True)
class Cnn:
    """3x3 convolutions with `channels` outputs, each with ReLU and 2x2 max-pooling, then `dense` hidden units.

    With `groups`, GroupNorm with so many groups of channels comes before each of these ReLUs.
    """

    channels: tuple[int, ...] = setting((8, 16), low=1, doc="Outputs of each convolution.")
    dense: int = setting(32, low=1, doc="Hidden units.")
    groups: int | None = setting(None, low=1, doc="Of a GroupNorm before each ReLU; absent: no normalisation.")

    def __post_init__(self) -> None:
        if self.groups is not None and any(n % self.groups for n in self.channels):
            raise UserError(f"model.channels {list(self.channels)} must be multiples of model.groups ({self.groups})")

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        height, width, depth = image_shape(input_shape, "cnn")
        params: dict[str, jax.Array] = {}
        for i, out in enumerate(self.channels):
            params[f"conv{i}"] = he_normal(jax.random.fold_in(key, i), (3, 3, depth, out), 9 * depth)
            params[f"conv{i}_bias"] = jnp.zeros(out)
            if self.groups is not None:
                params[f"conv{i}_scale"] = jnp.ones(out)
            depth, height, width = out, height // 2, width // 2
        if height * width == 0:
            raise UserError(f"model.channels: {len(self.channels)} poolings are too many for images of {input_shape}")
        flat = height * width * depth
        params["dense"] = he_normal(jax.random.fold_in(key, 100), (self.dense, flat), flat)
        params["dense_bias"] = jnp.zeros(self.dense)
        params["out"] = he_normal(jax.random.fold_in(key, 101), (num_classes, self.dense), self.dense)
        params["out_bias"] = jnp.zeros(num_classes)
        return params

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        x = x.reshape(len(x), *image_shape(x.shape[1:], "cnn"))
        for i in range(len(self.channels)):
            x = convolution(params[f"conv{i}"], x)
            bias, scale = params[f"conv{i}_bias"], params.get(f"conv{i}_scale")
            x = activated(x, bias, scale, groups=self.groups, pooled=True)
        x = x.reshape(len(x), -1)
        x = jax.nn.relu(x @ params["dense"].T + params["dense_bias"])
        return x @ params["out"].T + params["out_bias"]
