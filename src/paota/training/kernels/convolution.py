"""Convolutions of images by the CPU kernel in `convolution.cc`; names of axes are as there."""

from __future__ import annotations

import functools
from dataclasses import dataclass

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


def _window(axes: tuple[Axis, Axis]) -> NDArray[np.int32]:
    return np.array([(a.stride, a.dilation, a.spread, a.before) for a in axes], np.int32).ravel()


@functools.cache
def _register() -> None:
    """Make the kernel known to JAX, once a process."""
    library = build.library("convolution")
    jax.ffi.register_ffi_target("paota_convolve", jax.ffi.pycapsule(library.PaotaConvolve), platform="cpu")
    jax.ffi.register_ffi_target("paota_correlate", jax.ffi.pycapsule(library.PaotaCorrelate), platform="cpu")
