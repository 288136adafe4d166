"""Convolutional networks without shortcuts: a small one, that of the FedAvg paper, and LeNet-5."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.errors import UserError
from ..base.settings import setting
from .base import Params, he_normal
from .layers import Padding, activated, convolution, convolution_init, dense, dense_init, image_shape

LENET5_SIDE = 32  # pixels of the images that LeNet-5 was made for; smaller images get a border of 2


@dataclass(frozen=True, kw_only=True)
class Cnn:
    """3x3 convolutions with `channels` outputs, each with ReLU and 2x2 max-pooling, then `dense` hidden units.

    With `groups`, a GroupNorm with this many groups of channels comes before each of these ReLUs.
    """

    channels: tuple[int, ...] = setting((8, 16), low=1, doc="Outputs of each convolution.")
    dense: int = setting(32, low=1, doc="Hidden units.")
    groups: int | None = setting(None, low=1, doc="Groups of the GroupNorm before each ReLU; absent: no normalisation.")

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

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = x.reshape(len(x), *image_shape(x.shape[1:], "cnn"))
        for i in range(len(self.channels)):
            x = convolution(params[f"conv{i}"], x)
            bias, scale = params[f"conv{i}_bias"], params.get(f"conv{i}_scale")
            x = activated(x, bias, scale, groups=self.groups, pooled=True)
        x = x.reshape(len(x), -1)
        x = jax.nn.relu(x @ params["dense"].T + params["dense_bias"])
        return x @ params["out"].T + params["out_bias"]


@dataclass(frozen=True, kw_only=True)
class FedAvgCnn:
    """Two 5x5 convolutions with 32 and 64 outputs, each with ReLU and 2x2 max-pooling, then `dense` hidden units.

    The network of the FedAvg paper (McMahan et al., 2017): 1,663,370 weights on MNIST.
    """

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

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        images = x.reshape(len(x), *image_shape(x.shape[1:], "fedavg-cnn"))
        return _apply(params, images, ("SAME", "SAME"), ("dense",))


@dataclass(frozen=True, kw_only=True)
class LeNet5:
    """5x5 convolutions with 6 and 16 outputs, each with ReLU and 2x2 max-pooling, then 120 and 84 hidden units.

    LeNet-5 (LeCun et al., 1998) as it is used today, with ReLU and max-pooling: 61,706 weights on MNIST.
    """

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        height, width, channels = image_shape(input_shape, "lenet5")
        sides = [((n if n < LENET5_SIDE else n - 4) // 2 - 4) // 2 for n in (height, width)]
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

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        images = x.reshape(len(x), *image_shape(x.shape[1:], "lenet5"))
        border = [(2, 2) if n < LENET5_SIDE else (0, 0) for n in images.shape[1:3]]
        return _apply(params, images, (border, "VALID"), ("dense0", "dense1"))


def _apply(
    params: Params, x: Float[Array, "B H W D"], paddings: tuple[Padding, Padding], hidden: tuple[str, ...]
) -> Float[Array, "B C"]:
    """Apply two convolutions with pooling, then the dense layers `hidden` and `out`."""
    for layer, padding in zip((params["conv0"], params["conv1"]), paddings, strict=True):
        x = activated(convolution(layer["kernel"], x, padding=padding), layer["bias"], pooled=True)
    x = x.reshape(len(x), -1)
    for name in hidden:
        x = jax.nn.relu(dense(params[name], x))
    return dense(params["out"], x)
