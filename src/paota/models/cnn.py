"""A small convolutional network: 3x3 convolutions with 2x2 pooling, then one hidden layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..errors import UserError
from ..settings import setting
from .base import Params, he_normal


@dataclass(frozen=True, kw_only=True)
class Cnn:
    channels: tuple[int, ...] = setting((8, 16), low=1)
    dense: int = setting(32, low=1)

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        height, width, depth = _image_shape(input_shape)
        params: dict[str, jax.Array] = {}
        for i, out in enumerate(self.channels):
            params[f"conv{i}"] = he_normal(jax.random.fold_in(key, i), (3, 3, depth, out), 9 * depth)
            params[f"conv{i}_bias"] = jnp.zeros(out)
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
        x = x.reshape(len(x), *_image_shape(x.shape[1:]))
        for i in range(len(self.channels)):
            x = jax.lax.conv_general_dilated(
                x, params[f"conv{i}"], window_strides=(1, 1), padding="SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + params[f"conv{i}_bias"])
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(len(x), -1)
        x = jax.nn.relu(x @ params["dense"].T + params["dense_bias"])
        return x @ params["out"].T + params["out_bias"]


def _image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(height, width, channels); a flat input is taken as a square grey image."""
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return shape[0], shape[1], 1
    side = math.isqrt(shape[0]) if len(shape) == 1 else 0
    if side * side != math.prod(shape):
        raise UserError(f"model 'cnn' needs images, but the data set's samples have shape {tuple(shape)}")
    return side, side, 1
