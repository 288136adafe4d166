"""The residual networks for small images (He et al., 2016, section 4.2), with GroupNorm in place of BatchNorm.

BatchNorm keeps running averages, which devices with different data do not share; GroupNorm has none. As in the
paper, shortcuts have no weights: ResNet-20 has 269,722 weights on CIFAR-10, ResNet-8 has 75,290.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.errors import UserError
from ..base.settings import setting
from .base import Params, he_normal
from .layers import activated, convolution, dense, dense_init, image_shape

STAGES = 3


@dataclass(frozen=True, kw_only=True)
class ResNet:
    """A 3x3 convolution, 3 stages of n blocks of two 3x3 convolutions each, and a dense layer: `depth` = 6 n + 2.

    The first stage has `width` channels; every further one has twice as many, on images of half the side. Every
    convolution is followed by GroupNorm with `groups` groups.
    """

    depth: int = setting(8, low=8, doc="Layers with weights: 8, 14, 20, ...", aliases=("layers",))
    width: int = setting(16, low=1, doc="Channels of the first stage.")
    groups: int = setting(8, low=1, doc="Groups per GroupNorm.")

    def __post_init__(self) -> None:
        if (self.depth - 2) % (2 * STAGES):
            raise UserError(f"model.depth must be 6 n + 2 (8, 14, 20, ...), not {self.depth}")
        if self.width % self.groups:
            raise UserError(f"model.width ({self.width}) must be a multiple of model.groups ({self.groups})")

    def init(self, key: jax.Array, input_shape: tuple[int, ...], num_classes: int) -> Params:
        channels = image_shape(input_shape, "resnet")[2]
        keys = iter(jax.random.split(key, self.depth))
        first = _normed_init(next(keys), channels, self.width)
        channels, blocks = self.width, []
        for outputs, _ in self._blocks():
            blocks.append([_normed_init(next(keys), channels, outputs), _normed_init(next(keys), outputs, outputs)])
            channels = outputs
        return {"blocks": blocks, "first": first, "out": dense_init(next(keys), channels, num_classes)}

    def apply(self, params: Params, x: Float[Array, "B ..."]) -> Float[Array, "B C"]:
        x = x.reshape(len(x), *image_shape(x.shape[1:], "resnet"))
        x = self._activated(params["first"], x)
        for (one, two), (outputs, stride) in zip(params["blocks"], self._blocks(), strict=True):
            x = self._activated(two, self._activated(one, x, stride), shortcut=_shortcut(x, outputs, stride))
        return dense(params["out"], x.mean(axis=(1, 2)))

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Yield (channels, stride) of each block."""
        for stage in range(STAGES):
            for block in range((self.depth - 2) // (2 * STAGES)):
                yield self.width * 2**stage, 2 if stage and not block else 1

    def _activated(self, params: Params, x: jax.Array, stride: int = 1, shortcut: jax.Array | None = None) -> jax.Array:
        x = convolution(params["kernel"], x, stride=stride, padding=((1, 1), (1, 1)))
        return activated(x, params["bias"], params["scale"], groups=self.groups, shortcut=shortcut)


def _normed_init(key: jax.Array, channels: int, outputs: int) -> Params:
    kernel = he_normal(key, (3, 3, channels, outputs), 9 * channels)
    return {"bias": jnp.zeros(outputs), "kernel": kernel, "scale": jnp.ones(outputs)}


def _shortcut(x: jax.Array, outputs: int, stride: int) -> jax.Array:
    """Return option A of the paper: every `stride`-th pixel, and zeros for new channels."""
    if stride == 1 and outputs == x.shape[-1]:
        return x
    return jnp.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (0, outputs - x.shape[-1])))
