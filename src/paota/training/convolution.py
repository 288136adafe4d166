"""Fast convolutions and max-pooling on CPUs, in every JAX model.

XLA brings a convolution into its fast form only outside of loops; the gradients of a convolution inside a `scan` run
some twenty times slower. `install` replaces the lowering of three operations on CPUs. Every model becomes faster, in
Flax, Equinox or plain JAX, under `jit`, `vmap`, `grad` and `scan`, because lowering comes after all of these. On other
hardware nothing changes.

A convolution of float32 images goes to the kernel of `kernels/convolution.cc`. Without a C++ compiler it goes to XLA's
own convolution, in its fast form. Results agree with XLA's to rounding. Operations outside the kernel's scope (other
ranks and types, depthwise kernels) are lowered as before.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.interpreters import mlir

from .kernels import convolution as kernel

Context: TypeAlias = Any  # mlir.LoweringRuleContext, whose avals JAX types as values without a shape
Values: TypeAlias = Any  # values of MLIR, or what a lowering returns: JAX does not name their type
Rule: TypeAlias = Callable[..., Values]
Dimensions: TypeAlias = tuple[str, str, str] | lax.ConvDimensionNumbers

CANONICAL = ("NHWC", "HWIO", "NHWC")
LARGEST_WINDOW = 16  # places; larger windows remain one XLA operation
FEWEST_OUTPUTS = 4  # of a group; below, as in a depthwise convolution, splitting groups costs more than it gains


@functools.cache
def install() -> None:
    """Replace JAX's lowering of convolutions and max-pooling on CPUs, for the rest of this process.

    Programs that are already compiled stay as they are.
    """
    if not hasattr(mlir, "_platform_specific_lowerings") or not hasattr(mlir, "_lowerings"):
        return  # this JAX keeps its rules elsewhere: everything works, at XLA's speed
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
    """Use JAX's own lowering inside the context: its cost analysis cannot look into kernels."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)


def _unless_plain(rule: Rule, before: Rule, *arguments: Any, **parameters: Any) -> Values:
    return before(*arguments, **parameters) if _plain.get() else rule(before, *arguments, **parameters)


@dataclass(frozen=True)
class Convolution:
    """The parameters of `lax.conv_general_dilated`, named as its primitive names them."""

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


def _convolution_rule(before: Rule, context: Context, lhs: Values, rhs: Values, **parameters: Any) -> Values:
    """Lower a convolution on CPUs; `before` is JAX's own rule."""
    images, taps = context.avals_in
    (result,) = context.avals_out
    conv = Convolution(**{name: parameters[name] for name in Convolution.__dataclass_fields__})
    if not _is_ours(conv, images, taps, result):
        return before(context, lhs, rhs, **parameters)
    if conv.groups > 1:
        compute = functools.partial(_by_groups, conv)
    elif kernel.available() and _kernel_knows(conv):
        compute = functools.partial(_by_kernel, conv, _spatial(result.shape, conv.dimension_numbers.out_spec))
    elif conv.dimension_numbers != lax.conv_dimension_numbers(images.shape, taps.shape, CANONICAL):
        compute = functools.partial(_by_xla, conv, parameters["precision"])
    else:
        return before(context, lhs, rhs, **parameters)
    return mlir.lower_fun(compute, multiple_results=False)(context, lhs, rhs)


def _is_ours(conv: Convolution, *arrays: jax.core.ShapedArray) -> bool:
    """Return True for float32 images, and groups (also those of a `vmap` over the kernel) that are worth splitting."""
    return (
        all(
            a.dtype == jnp.float32 and a.ndim == 4 and all(isinstance(n, int) and n > 0 for n in a.shape)
            for a in arrays
        )
        and arrays[1].shape[conv.dimension_numbers.rhs_spec[0]] >= FEWEST_OUTPUTS * conv.groups * (conv.groups > 1)
        and all(isinstance(n, int) for pair in conv.padding for n in pair)
    )


def _kernel_knows(conv: Convolution) -> bool:
    steps = zip(conv.lhs_dilation, conv.window_strides, conv.rhs_dilation, strict=True)
    return all(spread == 1 or (stride, dilation) == (1, 1) for spread, stride, dilation in steps)


def _by_groups(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Compute every group as a separate convolution."""
    lhs_spec, rhs_spec, out_spec = conv.dimension_numbers
    shared = lhs_spec[0] if conv.batch_group_count > 1 else lhs_spec[1]
    parts = [
        _ask(conv, images, taps, conv.dimension_numbers)
        for images, taps in zip(
            jnp.split(lhs, conv.groups, axis=shared), jnp.split(rhs, conv.groups, axis=rhs_spec[0]), strict=True
        )
    ]
    return jnp.concatenate(parts, axis=out_spec[1])


def _by_kernel(conv: Convolution, output: tuple[int, int], lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Call the kernel. A convolution with fewer outputs than taps is the gradient of a kernel: its taps are dy."""
    lhs_spec, rhs_spec, out_spec = conv.dimension_numbers
    taps = _spatial(rhs.shape, rhs_spec)
    steps = list(zip(conv.window_strides, conv.rhs_dilation, conv.lhs_dilation, conv.padding, strict=True))
    if math.prod(output) < math.prod(taps) and conv.lhs_dilation == (1, 1):
        rows, columns = (kernel.Axis(stride=d, dilation=s, before=pad) for s, d, _, (pad, _) in steps)
        x = lhs.transpose(lhs_spec[1], *lhs_spec[2:], lhs_spec[0])
        dy = rhs.transpose(rhs_spec[1], *rhs_spec[2:], rhs_spec[0])
        result = kernel.correlate(x, dy, (rows, columns), output)  # [*output, batch, features]
        return _place(result, (out_spec[2], out_spec[3], out_spec[0], out_spec[1]))
    rows, columns = (kernel.Axis(stride=s, dilation=d, spread=spread, before=pad) for s, d, spread, (pad, _) in steps)
    result = kernel.convolve(*_canonical(conv, lhs, rhs), (rows, columns), output)
    return _place(result, (out_spec[0], *out_spec[2:], out_spec[1]))


def _by_xla(conv: Convolution, precision: lax.PrecisionLike, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Call XLA's own convolution; the barrier prevents XLA from undoing the transpositions."""
    out_spec = conv.dimension_numbers.out_spec
    images, taps = lax.optimization_barrier(_canonical(conv, lhs, rhs))
    return _place(_ask(conv, images, taps, CANONICAL, precision), (out_spec[0], *out_spec[2:], out_spec[1]))


def _ask(
    conv: Convolution, images: jax.Array, taps: jax.Array, dimensions: Dimensions, precision: lax.PrecisionLike = None
) -> jax.Array:
    """Return the convolution without groups."""
    return lax.conv_general_dilated(
        images,
        taps,
        conv.window_strides,
        conv.padding,
        conv.lhs_dilation,
        conv.rhs_dilation,
        dimensions,
        precision=precision,
    )


def _canonical(conv: Convolution, lhs: jax.Array, rhs: jax.Array) -> tuple[jax.Array, jax.Array]:
    lhs_spec, rhs_spec, _ = conv.dimension_numbers
    return lhs.transpose(lhs_spec[0], *lhs_spec[2:], lhs_spec[1]), rhs.transpose(
        *rhs_spec[2:], rhs_spec[1], rhs_spec[0]
    )


def _spatial(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, int]:
    return shape[spec[2]], shape[spec[3]]


def _place(x: jax.Array, where: tuple[int, ...]) -> jax.Array:
    """Move axis i of `x` to axis `where[i]`."""
    return jnp.moveaxis(x, range(x.ndim), where)


def _pooling_rule(before: Rule, context: Context, x: Values, **parameters: Any) -> Values:
    """Lower max-pooling on CPUs to a few maxima, which XLA fuses with the operation before."""
    dilated = any(n != 1 for n in (*parameters["base_dilation"], *parameters["window_dilation"]))
    if dilated or not _side_by_side(context, parameters):
        return before(context, x, **parameters)
    compute = functools.partial(_pooling, parameters["window_dimensions"], context.avals_out[0].shape)
    return mlir.lower_fun(compute, multiple_results=False)(context, x)


def _pooling_gradient_rule(before: Rule, context: Context, dy: Values, x: Values, **parameters: Any) -> Values:
    """Lower the gradient of max-pooling on CPUs; XLA's version visits one number at a time."""
    if parameters["select_prim"] is not lax.ge_p or not _side_by_side(context, parameters):
        return before(context, dy, x, **parameters)
    compute = functools.partial(_pooling_gradient, parameters["window_dimensions"])
    return mlir.lower_fun(compute, multiple_results=False)(context, dy, x)


def _side_by_side(context: Context, parameters: dict[str, Any]) -> bool:
    """Return True for small windows that neither overlap nor leave the array."""
    window, strides, padding = (parameters[name] for name in ("window_dimensions", "window_strides", "padding"))
    static = all(isinstance(n, int) for array in context.avals_in for n in array.shape)
    return static and window == strides and math.prod(window) <= LARGEST_WINDOW and not any(map(any, padding))


def _windows(window: tuple[int, ...], x: jax.Array, outputs: tuple[int, ...]) -> list[jax.Array]:
    """Return, for each place in a window, the numbers [*outputs] of all windows of `x` at that place."""
    inside = x[tuple(slice(n * size) for n, size in zip(outputs, window, strict=True))]
    # Every axis becomes two: the window, and the place in it.
    split = inside.reshape([n for pair in zip(outputs, window, strict=True) for n in pair])
    return [split[tuple(i for p in place for i in (slice(None), p))] for place in np.ndindex(*window)]


def _pooling(window: tuple[int, ...], outputs: tuple[int, ...], x: jax.Array) -> jax.Array:
    return functools.reduce(jnp.maximum, _windows(window, x, outputs))


def _pooling_gradient(window: tuple[int, ...], dy: jax.Array, x: jax.Array) -> jax.Array:
    """Add dy to the first of the largest numbers in each window of `x`."""
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
