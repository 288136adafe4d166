"""The convolutional network of the FedAvg paper (McMahan et al., 2017): 1,663,370 weights on MNIST."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from ..base.errors import UserError
from ..base.settings import setting
from .base import Params
from .layers import activated, convolution, convolution_init, dense, dense_init, image_shape


@dataclass(frozen=True, kw_only=True)
class FedAvgCnn:
    """Two 5x5 convolutions with 32 and 64 outputs, each with ReLU and 2x2 max-pooling, then `dense` hidden units."""

    dense: int = setting(512, low=1, doc="Hidden units.")

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        height, width, channels = image_shape(input_shape, "fedavg-cnn")
        if min(height, width) < 4:
            raise UserError(f"model 'fedavg-cnn' needs images of at least 4x4 pixels, not {height}x{width}")
        keys = jax.random.split(key, 4)
        return {
            "conv0": convolution_init(keys[0], 5, channels, 32),
            "conv1": convolution_init(keys[1], 5, 32, 64),
            "dense": dense_init(keys[2], (height // 4) * (width // 4) * 64, self.dense),
            "out": dense_init(keys[3], self.dense, num_classes),
        }

    def apply(self, params: Params, x: jax.Array) -> jax.Array:
        x = x.reshape(len(x), *image_shape(x.shape[1:], "fedavg-cnn"))
        for layer in (params["conv0"], params["conv1"]):
            x = activated(convolution(layer["kernel"], x), layer["bias"], pooled=True)
        x = jax.nn.relu(dense(params["dense"], x.reshape(len(x), -1)))
        return dense(params["out"], x)
