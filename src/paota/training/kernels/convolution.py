"""Convolutions of images, and activation and pooling, by the CPU kernel in `convolution.cc`.

Axes have the names of that file: B samples, H rows, W columns, C channels, O outputs.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from . import build

TARGETS = (
    ("paota_convolve", "PaotaConvolve"),
    ("paota_correlate", "PaotaCorrelate"),
    ("paota_activate", "PaotaActivate"),
    ("paota_activate_gradient", "PaotaActivateGradient"),
)
Residuals = tuple[jax.Array, jax.Array, jax.Array, jax.Array | None, jax.Array]  # what the gradient needs


@dataclass(frozen=True)
class Axis:
    """The geometry of one spatial axis: output p meets input i under tap q where
    p * stride + q * dilation = i * spread + before. Either spread is 1, or stride and dilation are."""

    stride: int = 1
    dilation: int = 1
    spread: int = 1
    before: int = 0


def available() -> bool:
    """Return True if the kernel can be used here; the first call may compile it."""
    try:
        build.register("convolution", TARGETS)
    except build.CannotBuild:
        return False
    return True


def convolve(
    x: Float[Array, "B H W C"], kernel: Float[Array, "h w C O"], axes: tuple[Axis, Axis], output: tuple[int, int]
) -> Float[Array, "B H2 W2 O"]:
    """Return the convolution of images, with (H2, W2) = `output`, all float32."""
    result = jax.ShapeDtypeStruct((x.shape[0], *output, kernel.shape[3]), jnp.float32)
    return jax.ffi.ffi_call("paota_convolve", result)(x, kernel, window=_window(axes))


def correlate(
    x: Float[Array, "B H W C"], dy: Float[Array, "B H2 W2 O"], axes: tuple[Axis, Axis], taps: tuple[int, int]
) -> Float[Array, "h w C O"]:
    """Return the gradient of a convolution's kernel, with (h, w) = `taps`. The spread of both axes is 1."""
    result = jax.ShapeDtypeStruct((*taps, x.shape[3], dy.shape[3]), jnp.float32)
    return jax.ffi.ffi_call("paota_correlate", result)(x, dy, window=_window(axes))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def activate(
    x: Float[Array, "B H W C"], scale: Float[Array, " C"], bias: Float[Array, " C"],
    shortcut: Float[Array, "B H W C"] | None, groups: int, pooled: bool,
) -> Float[Array, "B H2 W2 C"]:  # fmt: skip
    """Return ReLU of `x` after GroupNorm, bias and shortcut, all float32. It has reverse-mode gradients only.

    Args:
        x: images.
        scale: of each channel, for GroupNorm; not used without groups.
        bias: of each channel.
        shortcut: added before the ReLU, or None.
        groups: groups of the GroupNorm; 0: no normalisation.
        pooled: return the largest number of each 2x2 window.
    """
    return _activate(x, scale, bias, shortcut, groups, pooled)[0]


def _activate(
    x: jax.Array, scale: jax.Array, bias: jax.Array, shortcut: jax.Array | None, groups: int, pooled: bool
) -> tuple[jax.Array, jax.Array]:
    batch, height, width, channels = x.shape
    outputs = (batch, height // 2, width // 2, channels) if pooled else x.shape
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (outputs, (batch, max(groups, 1), 2))]
    call = jax.ffi.ffi_call("paota_activate", results, vmap_method="sequential")
    added = shortcut is not None
    y, moments = call(x, scale, bias, shortcut if added else bias, groups=np.int32(groups), pooled=pooled, added=added)
    return y, moments


def _activate_forward(
    x: jax.Array, scale: jax.Array, bias: jax.Array, shortcut: jax.Array | None, groups: int, pooled: bool
) -> tuple[jax.Array, Residuals]:
    y, moments = _activate(x, scale, bias, shortcut, groups, pooled)
    return y, (x, scale, bias, shortcut, moments)


def _activate_backward(
    groups: int, pooled: bool, residuals: Residuals, dy: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array | None]:
    x, scale, bias, shortcut, moments = residuals
    added = shortcut is not None
    shapes = (x.shape, x.shape if added else (1,), (len(x), 2, x.shape[3]))
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    call = jax.ffi.ffi_call("paota_activate_gradient", results, vmap_method="sequential")
    arguments = (x, scale, bias, shortcut if added else bias, moments, dy)
    dx, dshortcut, sums = call(*arguments, groups=np.int32(groups), pooled=pooled, added=added)
    dscale, dbias = sums.sum(axis=0)
    return dx, dscale, dbias, dshortcut if added else None


activate.defvjp(_activate_forward, _activate_backward)


def _window(axes: tuple[Axis, Axis]) -> Int32[np.ndarray, " 8"]:
    return np.array([(a.stride, a.dilation, a.spread, a.before) for a in axes], np.int32).ravel()
