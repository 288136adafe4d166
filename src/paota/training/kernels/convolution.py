"""Convolutions of images, and what follows them, by the CPU kernel in `convolution.cc`; names of axes are as there."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from . import build


@dataclass(frozen=True)
class Axis:
    """How outputs of one spatial axis meet inputs: output p meets input i under tap q where
    p * stride + q * dilation = i * spread + before. Either spread is 1, or stride and dilation are."""

    stride: int = 1
    dilation: int = 1
    spread: int = 1
    before: int = 0


def available() -> bool:
    """Whether the kernel can be used here; the first call may compile it."""
    try:
        _register()
    except build.CannotBuild:
        return False
    return True


def convolve(x: jax.Array, kernel: jax.Array, axes: tuple[Axis, Axis], output: tuple[int, int]) -> jax.Array:
    """y [B, *output, O] of images x [B, H, W, C] and a kernel [*taps, C, O], all float32."""
    result = jax.ShapeDtypeStruct((x.shape[0], *output, kernel.shape[3]), jnp.float32)
    return jax.ffi.ffi_call("paota_convolve", result)(x, kernel, window=_window(axes))


def correlate(x: jax.Array, dy: jax.Array, axes: tuple[Axis, Axis], taps: tuple[int, int]) -> jax.Array:
    """The gradient [*taps, C, O] of a convolution's kernel, from its input x [B, H, W, C] and dy [B, *output, O].

    The spread of both axes is 1.
    """
    result = jax.ShapeDtypeStruct((*taps, x.shape[3], dy.shape[3]), jnp.float32)
    return jax.ffi.ffi_call("paota_correlate", result)(x, dy, window=_window(axes))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def activate(
    x: jax.Array, scale: jax.Array, bias: jax.Array, shortcut: jax.Array | None, groups: int, pooled: bool
) -> jax.Array:
    """ReLU of x [B, H, W, C] after GroupNorm with `groups` groups (0: none, and `scale` is not used), `bias` [C] and a
    `shortcut` [B, H, W, C] or None; then, if `pooled`, the largest of each 2x2 window. All float32.

    Reverse-mode gradients only.
    """
    return _activate(x, scale, bias, shortcut, groups, pooled)[0]


def _activate(x: Any, scale: Any, bias: Any, shortcut: Any, groups: int, pooled: bool) -> Any:
    batch, height, width, channels = x.shape
    outputs = (batch, height // 2, width // 2, channels) if pooled else x.shape
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (outputs, (batch, max(groups, 1), 2))]
    call = jax.ffi.ffi_call("paota_activate", results, vmap_method="sequential")
    added = shortcut is not None
    return call(x, scale, bias, shortcut if added else bias, groups=np.int32(groups), pooled=pooled, added=added)


def _activate_forward(x: Any, scale: Any, bias: Any, shortcut: Any, groups: int, pooled: bool) -> Any:
    y, moments = _activate(x, scale, bias, shortcut, groups, pooled)
    return y, (x, scale, bias, shortcut, moments)


def _activate_backward(groups: int, pooled: bool, kept: Any, dy: jax.Array) -> Any:
    x, scale, bias, shortcut, moments = kept
    added = shortcut is not None
    shapes = (x.shape, x.shape if added else (1,), (len(x), 2, x.shape[3]))
    results = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    call = jax.ffi.ffi_call("paota_activate_gradient", results, vmap_method="sequential")
    arguments = (x, scale, bias, shortcut if added else bias, moments, dy)
    dx, dshortcut, sums = call(*arguments, groups=np.int32(groups), pooled=pooled, added=added)
    dscale, dbias = sums.sum(axis=0)
    return dx, dscale, dbias, dshortcut if added else None


activate.defvjp(_activate_forward, _activate_backward)


def _window(axes: tuple[Axis, Axis]) -> NDArray[np.int32]:
    return np.array([(a.stride, a.dilation, a.spread, a.before) for a in axes], np.int32).ravel()


@functools.cache
def _register() -> None:
    """Make the kernel known to JAX, once a process."""
    library = build.library("convolution")
    for name, handler in (
        ("paota_convolve", library.PaotaConvolve),
        ("paota_correlate", library.PaotaCorrelate),
        ("paota_activate", library.PaotaActivate),
        ("paota_activate_gradient", library.PaotaActivateGradient),
    ):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
