"""Layers of networks for images. Images are [B, height, width, channels]."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.errors import UserError
from .base import Params, he_normal

Padding = str | Sequence[tuple[int, int]]


def image_shape(shape: tuple[int, ...], model: str) -> tuple[int, int, int]:
    """Return (height, width, channels) of a sample of `shape`; a flat sample is read as a square grey image."""
    if len(shape) == 3:
        return shape[0], shape[1], shape[2]
    if len(shape) == 2:
        return shape[0], shape[1], 1
    side = math.isqrt(shape[0]) if len(shape) == 1 else 0
    if side * side != math.prod(shape):
        raise UserError(f"model '{model}' needs images, but the data set's samples have shape {tuple(shape)}")
    return side, side, 1


def convolution_init(key: jax.Array, size: int, channels: int, outputs: int) -> Params:
    """Draw a kernel [size, size, channels, outputs] and its bias."""
    kernel = he_normal(key, (size, size, channels, outputs), size * size * channels)
    return {"bias": jnp.zeros(outputs), "kernel": kernel}


def convolution(
    kernel: Float[Array, "h w C O"], x: Float[Array, "B H W C"], *, stride: int = 1, padding: Padding = "SAME"
) -> Float[Array, "B H2 W2 O"]:
    """Convolve the images `x`.

    `padding` is "SAME", "VALID" or ((top, bottom), (left, right)).
    """
    dimensions = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, dimension_numbers=dimensions)


def dense_init(key: jax.Array, inputs: int, outputs: int) -> Params:
    """Draw a weight [outputs, inputs] and its bias."""
    return {"bias": jnp.zeros(outputs), "weight": he_normal(key, (outputs, inputs), inputs)}


def dense(params: Params, x: Float[Array, "B I"]) -> Float[Array, "B O"]:
    """Apply a dense layer."""
    return x @ params["weight"].T + params["bias"]


_kernel: ContextVar[Callable[..., jax.Array] | None] = ContextVar("kernel of `activated`", default=None)


@contextmanager
def activated_by(kernel: Callable[..., jax.Array]) -> Iterator[None]:
    """Trace `activated` as a call of this kernel, which has reverse-mode gradients only, inside the context."""
    token = _kernel.set(kernel)
    try:
        yield
    finally:
        _kernel.reset(token)


def activated(
    x: Float[Array, "B H W C"],
    bias: Float[Array, " C"],
    scale: Float[Array, " C"] | None = None,
    *,
    groups: int | None = None,
    shortcut: Float[Array, "B H W C"] | None = None,
    pooled: bool = False,
) -> Float[Array, "B H2 W2 C"]:
    """Apply what follows a convolution: bias or GroupNorm, shortcut, ReLU and pooling.

    Args:
        x: outputs of the convolution.
        bias: of each channel.
        scale: of each channel; for GroupNorm only.
        groups: groups of channels of the GroupNorm; None: no normalisation.
        shortcut: added before the ReLU.
        pooled: apply 2x2 max-pooling last.
    """
    kernel = _kernel.get()
    if kernel is not None and x.dtype == jnp.float32 and not (pooled and shortcut is not None):
        return kernel(x, bias if scale is None else scale, bias, shortcut, groups or 0, pooled)
    x = x + bias if groups is None else group_norm({"scale": scale, "bias": bias}, x, groups)
    x = jax.nn.relu(x if shortcut is None else shortcut + x)
    return max_pool(x) if pooled else x


def max_pool(x: jax.Array) -> jax.Array:
    """Return the largest number of each 2x2 window; an odd row or column at the end is left out."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def group_norm(params: Params, x: jax.Array, groups: int, epsilon: float = 1e-5) -> jax.Array:
    """Normalise `x` [B, H, W, C] to mean 0 and variance 1 in each sample and group of channels, then scale and shift it.

    Both moments come from sums over each channel, so that `x` is read twice and no array of its size is kept.
    """
    batch, height, width, channels = x.shape
    count = height * width * (channels // groups)

    def over_group(of_channel: jax.Array) -> jax.Array:
        mean = of_channel.reshape(batch, groups, -1).sum(axis=-1, keepdims=True) / count
        return jnp.broadcast_to(mean, (batch, groups, channels // groups)).reshape(batch, channels)

    mean = over_group(x.sum(axis=(1, 2)))
    variance = jnp.maximum(over_group(jnp.square(x).sum(axis=(1, 2))) - jnp.square(mean), 0.0)
    scale = params["scale"] * jax.lax.rsqrt(variance + epsilon)
    shift = params["bias"] - mean * scale
    return x * scale[:, None, None] + shift[:, None, None]
