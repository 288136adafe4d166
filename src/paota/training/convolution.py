"""Convolutions and max-pooling that are fast on CPUs, in anybody's model.

XLA brings a convolution into the form that its fast code wants only outside of loops; the gradients of a convolution
inside a `scan` run some twenty times slower. `install` tells JAX how to lower three operations on CPUs instead: every
model gains, whether it is written in Flax, Equinox or plain JAX, with whatever `jit`, `vmap`, `grad` or `scan` around
it, because lowering comes after all of them. On other hardware nothing changes.

A convolution of float32 images goes to the kernel of `kernels/convolution.cc`, or without a C++ compiler to XLA's own
convolution, written in the form that it wants. Results agree with XLA's to rounding. What the kernel does not know
(other ranks and types, depthwise kernels) is lowered as before.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import mlir

from .kernels import convolution as kernel

CANONICAL = ("NHWC", "HWIO", "NHWC")
LARGEST_WINDOW = 16  # places; larger ones stay one operation of XLA's
FEWEST_OUTPUTS = 4  # of a group: below, as in a depthwise convolution, taking groups apart costs more than it gains


@functools.cache
def install() -> None:
    """From now on, and until this process ends, JAX lowers convolutions and max-pooling our way on CPUs.

    Programs that have been compiled before stay as they are.
    """
    if not hasattr(mlir, "_platform_specific_lowerings") or not hasattr(mlir, "_lowerings"):
        return  # a JAX that keeps its rules elsewhere: everything works, as slowly as XLA does it
    for primitive, rule in (
        (lax.conv_general_dilated_p, _convolution_rule),
        (lax.reduce_window_max_p, _pooling_rule),
        (lax.select_and_scatter_add_p, _pooling_gradient_rule),
    ):
        before = (mlir._platform_specific_lowerings["cpu"].get(primitive) or mlir._lowerings[primitive]).rule
        mlir.register_lowering(primitive, functools.partial(_unless_plain, rule, before), platform="cpu")


_plain = contextvars.ContextVar("plain", default=False)


@contextlib.contextmanager
def as_jax_lowers() -> Iterator[None]:
    """Inside, operations are lowered as JAX itself does it: its cost analysis cannot look into kernels."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def _unless_plain(rule: Callable[..., Any], before: Callable[..., Any], *arguments: Any, **parameters: Any) -> Any:
    return before(*arguments, **parameters) if _plain.get() else rule(before, *arguments, **parameters)


@dataclass(frozen=True)
class Convolution:
    """What `lax.conv_general_dilated` is asked for, as its primitive says it."""

    window_strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    dimension_numbers: lax.ConvDimensionNumbers
    feature_group_count: int
    batch_group_count: int

    @property
    def groups(self) -> int:
        return self.feature_group_count * self.batch_group_count


def _convolution_rule(before: Callable[..., Any], context: Any, lhs: Any, rhs: Any, **parameters: Any) -> Any:
    """The lowering of a convolution on CPUs; `before` is the one that JAX came with."""
    images, taps = context.avals_in
    (result,) = context.avals_out
    asked = Convolution(**{name: parameters[name] for name in Convolution.__dataclass_fields__})
    if not _is_ours(asked, images, taps, result):
        return before(context, lhs, rhs, **parameters)
    if asked.groups > 1:
        compute = functools.partial(_by_groups, asked)
    elif kernel.available() and _kernel_knows(asked):
        compute = functools.partial(_by_kernel, asked, _spatial(result.shape, asked.dimension_numbers.out_spec))
    elif asked.dimension_numbers != lax.conv_dimension_numbers(images.shape, taps.shape, CANONICAL):
        compute = functools.partial(_by_xla, asked, parameters["precision"])
    else:
        return before(context, lhs, rhs, **parameters)
    return mlir.lower_fun(compute, multiple_results=False)(context, lhs, rhs)


def _is_ours(asked: Convolution, images: Any, taps: Any, result: Any) -> bool:
    """Images in float32, and groups (of a convolution, or of a `vmap` over its kernel) that are worth taking apart."""
    arrays = (images, taps, result)
    return (
        all(
            a.dtype == jnp.float32 and a.ndim == 4 and all(isinstance(n, int) and n > 0 for n in a.shape)
            for a in arrays
        )
        and taps.shape[asked.dimension_numbers.rhs_spec[0]] >= FEWEST_OUTPUTS * asked.groups * (asked.groups > 1)
        and all(isinstance(n, int) for pair in asked.padding for n in pair)
    )


def _kernel_knows(asked: Convolution) -> bool:
    steps = zip(asked.lhs_dilation, asked.window_strides, asked.rhs_dilation, strict=True)
    return all(spread == 1 or (stride, dilation) == (1, 1) for spread, stride, dilation in steps)


def _by_groups(asked: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Each group as a convolution of its own."""
    lhs_spec, rhs_spec, out_spec = asked.dimension_numbers
    shared = lhs_spec[0] if asked.batch_group_count > 1 else lhs_spec[1]
    parts = [
        _ask(asked, images, taps, asked.dimension_numbers)
        for images, taps in zip(
            jnp.split(lhs, asked.groups, axis=shared), jnp.split(rhs, asked.groups, axis=rhs_spec[0]), strict=True
        )
    ]
    return jnp.concatenate(parts, axis=out_spec[1])


def _by_kernel(asked: Convolution, output: tuple[int, int], lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """With fewer outputs than taps it is the gradient of a kernel: what JAX calls taps are the images of dy."""
    lhs_spec, rhs_spec, out_spec = asked.dimension_numbers
    taps = _spatial(rhs.shape, rhs_spec)
    steps = list(zip(asked.window_strides, asked.rhs_dilation, asked.lhs_dilation, asked.padding, strict=True))
    if math.prod(output) < math.prod(taps) and asked.lhs_dilation == (1, 1):
        rows, columns = (kernel.Axis(stride=d, dilation=s, before=pad) for s, d, _, (pad, _) in steps)
        x = lhs.transpose(lhs_spec[1], *lhs_spec[2:], lhs_spec[0])
        dy = rhs.transpose(rhs_spec[1], *rhs_spec[2:], rhs_spec[0])
        result = kernel.correlate(x, dy, (rows, columns), output)  # [*output, batch, features]
        return _place(result, (out_spec[2], out_spec[3], out_spec[0], out_spec[1]))
    rows, columns = (kernel.Axis(stride=s, dilation=d, spread=spread, before=pad) for s, d, spread, (pad, _) in steps)
    result = kernel.convolve(*_canonical(asked, lhs, rhs), (rows, columns), output)
    return _place(result, (out_spec[0], *out_spec[2:], out_spec[1]))


def _by_xla(asked: Convolution, precision: Any, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """XLA's own convolution; the barrier keeps the transpositions from being undone again."""
    out_spec = asked.dimension_numbers.out_spec
    images, taps = lax.optimization_barrier(_canonical(asked, lhs, rhs))
    return _place(_ask(asked, images, taps, CANONICAL, precision), (out_spec[0], *out_spec[2:], out_spec[1]))


def _ask(asked: Convolution, images: jax.Array, taps: jax.Array, dimensions: Any, precision: Any = None) -> jax.Array:
    """The convolution that was asked for, without groups."""
    return lax.conv_general_dilated(
        images,
        taps,
        asked.window_strides,
        asked.padding,
        asked.lhs_dilation,
        asked.rhs_dilation,
        dimensions,
        precision=precision,
    )


def _canonical(asked: Convolution, lhs: jax.Array, rhs: jax.Array) -> tuple[jax.Array, jax.Array]:
    lhs_spec, rhs_spec, _ = asked.dimension_numbers
    return lhs.transpose(lhs_spec[0], *lhs_spec[2:], lhs_spec[1]), rhs.transpose(
        *rhs_spec[2:], rhs_spec[1], rhs_spec[0]
    )


def _spatial(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, int]:
    return shape[spec[2]], shape[spec[3]]


def _place(x: jax.Array, where: tuple[int, ...]) -> jax.Array:
    """Axis i of `x` becomes axis `where[i]`."""
    return jnp.moveaxis(x, range(x.ndim), where)


def _pooling_rule(before: Callable[..., Any], context: Any, x: Any, **parameters: Any) -> Any:
    """The lowering of max-pooling on CPUs: a few maxima, which XLA computes together with what comes before."""
    dilated = any(n != 1 for n in (*parameters["base_dilation"], *parameters["window_dilation"]))
    if dilated or not _side_by_side(context, parameters):
        return before(context, x, **parameters)
    compute = functools.partial(_pooling, parameters["window_dimensions"], context.avals_out[0].shape)
    return mlir.lower_fun(compute, multiple_results=False)(context, x)


def _pooling_gradient_rule(before: Callable[..., Any], context: Any, dy: Any, x: Any, **parameters: Any) -> Any:
    """The lowering of max-pooling's gradient on CPUs; XLA's walks through the windows one number at a time."""
    if parameters["select_prim"] is not lax.ge_p or not _side_by_side(context, parameters):
        return before(context, dy, x, **parameters)
    compute = functools.partial(_pooling_gradient, parameters["window_dimensions"])
    return mlir.lower_fun(compute, multiple_results=False)(context, dy, x)


def _side_by_side(context: Any, parameters: dict[str, Any]) -> bool:
    """Windows that neither overlap nor leave the array, few places in each."""
    window, strides, padding = (parameters[name] for name in ("window_dimensions", "window_strides", "padding"))
    static = all(isinstance(n, int) for array in context.avals_in for n in array.shape)
    return static and window == strides and math.prod(window) <= LARGEST_WINDOW and not any(map(any, padding))


def _windows(window: tuple[int, ...], x: jax.Array, outputs: tuple[int, ...]) -> list[jax.Array]:
    """For each place in a window the numbers [*outputs] that all windows of `x` have there."""
    inside = x[tuple(slice(n * size) for n, size in zip(outputs, window, strict=True))]
    # Every axis becomes two: which window, and the place in it.
    split = inside.reshape([n for pair in zip(outputs, window, strict=True) for n in pair])
    return [split[tuple(i for p in place for i in (slice(None), p))] for place in np.ndindex(*window)]


def _pooling(window: tuple[int, ...], outputs: tuple[int, ...], x: jax.Array) -> jax.Array:
    return functools.reduce(jnp.maximum, _windows(window, x, outputs))


def _pooling_gradient(window: tuple[int, ...], dy: jax.Array, x: jax.Array) -> jax.Array:
    """dy goes to the first of the largest numbers in each window of `x`."""
    best, *others = _windows(window, x, dy.shape)
    winner = jnp.zeros(dy.shape, jnp.int32)
    for number, candidate in enumerate(others, start=1):
        stays = best >= candidate
        best, winner = jnp.where(stays, best, candidate), jnp.where(stays, winner, number)
    places = tuple(range(1, 2 * dy.ndim, 2))
    here = np.arange(math.prod(window), dtype=np.int32).reshape([n for size in window for n in (1, size)])
    dx = jnp.where(jnp.expand_dims(winner, places) == here, jnp.expand_dims(dy, places), 0)
    dx = dx.reshape([n * size for n, size in zip(dy.shape, window, strict=True)])
    return jnp.pad(dx, [(0, n - m) for n, m in zip(x.shape, dx.shape, strict=True)])
