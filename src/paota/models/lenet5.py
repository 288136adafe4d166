"""LeNet-5 (LeCun et al., 1998) as it is used today, with ReLU and max-pooling: 61,706 weights on MNIST."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from ..base.errors import UserError
from .base import Params
from .layers import activated, convolution, convolution_init, dense, dense_init, image_shape

SIDE = 32  # pixels of the images that it was made for; smaller ones get a border of 2


@dataclass(frozen=True, kw_only=True)
class LeNet5:
    """5x5 convolutions with 6 and 16 outputs, each with ReLU and 2x2 max-pooling, then 120 and 84 hidden units."""

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        height, width, channels = image_shape(input_shape, "lenet5")
        sides = [((n if n < SIDE else n - 4) // 2 - 4) // 2 for n in (height, width)]
        if min(sides) < 1:
            raise UserError(f"model 'lenet5' needs images of at least 12x12 pixels, not {height}x{width}")
        keys = jax.random.split(key, 5)
        return {
            "conv0": convolution_init(keys[0], 5, channels, 6),
            "conv1": convolution_init(keys[1], 5, 6, 16),
            "dense0": dense_init(keys[2], sides[0] * sides[1] * 16, 120),
            "dense1": dense_init(keys[3], 120, 84),
            "out": dense_init(keys[4], 84, num_classes),
        }

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        x = x.reshape(len(x), *image_shape(x.shape[1:], "lenet5"))
        border = [(2, 2) if n < SIDE else (0, 0) for n in x.shape[1:3]]
        for layer, padding in ((params["conv0"], border), (params["conv1"], "VALID")):
            x = activated(convolution(layer["kernel"], x, padding=padding), layer["bias"], pooled=True)
        x = x.reshape(len(x), -1)
        for name in ("dense0", "dense1"):
            x = jax.nn.relu(dense(params[name], x))
        return dense(params["out"], x)
