"""Convolutions and max-pooling as they are lowered on CPUs, against XLA's own in double precision, gradients too."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from paota.training import convolution
from paota.training.kernels import convolution as kernel

pytestmark = pytest.mark.bare

LAYOUTS = [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("CWNH", "WIOH", "HNCW")]
SHAPES = [  # images, height, width, channels, kernel's height and width, outputs
    (3, 8, 9, 5, 3, 3, 7),
    (1, 14, 14, 1, 5, 5, 32),
    (9, 6, 30, 3, 1, 1, 33),
    (2, 3, 3, 17, 3, 2, 48),
    (2, 2, 2, 4, 3, 3, 20),
    (5, 16, 16, 16, 3, 3, 16),
]
WINDOWS = [  # strides, padding, dilation of the images, dilation of the kernel
    ((1, 1), "SAME", (1, 1), (1, 1)),
    ((2, 2), "SAME", (1, 1), (1, 1)),
    ((3, 1), ((2, 1), (0, 3)), (1, 1), (1, 1)),
    ((1, 1), ((-1, 2), (3, 0)), (1, 1), (1, 1)),
    ((1, 2), ((4, 4), (4, 4)), (1, 1), (2, 3)),
    ((1, 1), ((2, 2), (2, 2)), (2, 3), (1, 1)),
    ((2, 2), ((3, 3), (3, 3)), (2, 2), (2, 1)),
]
POOLS = [  # shape, window, strides, padding
    ((3, 8, 6, 5), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    ((2, 5, 3, 7, 9), (1, 1, 1, 2, 3), (1, 1, 1, 2, 3), "VALID"),
    ((2, 7, 7, 4), (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
    ((4, 9), (2, 3), (2, 3), "VALID"),
    ((2, 12, 12), (1, 6, 6), (1, 6, 6), "VALID"),
]

needs_kernel = pytest.mark.skipif(not kernel.available(), reason="no kernel can be built here")


@pytest.fixture(autouse=True)
def _installed() -> None:
    convolution.install()


def normal(number: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


def value_and_gradients(function, *arrays):
    """y, and for each array the gradient of a sum of y whose weights differ from place to place."""
    y, pull = jax.vjp(function, *arrays)
    return y, *pull(jnp.asarray(normal(9, *y.shape), y.dtype))


def check(function, *arrays, terms: int = 1, rounding: float = 2e-6, lowered_by: str | None = None) -> None:
    """Compiled in float32 and inside a loop, where XLA's is slow, against XLA's in float64, which is never rewritten."""

    @jax.jit
    def ours(*arrays):
        return lax.scan(lambda _, a: (None, value_and_gradients(function, *a)), None, [a[None] for a in arrays])[1]

    single = [jnp.asarray(a, jnp.float32) for a in arrays]
    if lowered_by is not None:
        assert lowered_by in ours.lower(*single).as_text()
    with jax.enable_x64(True):
        right = jax.jit(functools.partial(value_and_gradients, function))(
            *(jnp.asarray(a, jnp.float64) for a in arrays)
        )
    for a, b in zip(ours(*single), right, strict=True):
        np.testing.assert_allclose(a[0], b, rtol=10 * rounding, atol=rounding * np.sqrt(terms))


def convolve(window, layout=LAYOUTS[0], groups=1):
    return lambda x, k: lax.conv_general_dilated(
        x, k, *window, dimension_numbers=layout, feature_group_count=groups, precision=lax.Precision.HIGHEST
    )


def operands(shape, layout=LAYOUTS[0], groups=1):
    images, height, width, channels, rows, columns, outputs = shape
    x, k = normal(1, images, height, width, channels), normal(2, rows, columns, channels // groups, outputs)
    lhs, rhs, _ = layout
    return (
        x.transpose(["NHWC".index(axis) for axis in lhs]),
        k.transpose(["HWIO".index(axis) for axis in rhs]),
    )


def terms_of(shape) -> int:
    images, height, width, channels, rows, columns, outputs = shape
    return max(rows * columns * max(channels, outputs), images * height * width)


@needs_kernel
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_convolves_whatever_the_window(shape, window):
    check(convolve(window), *operands(shape), terms=terms_of(shape))


@needs_kernel
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[3]])
@pytest.mark.parametrize(("shape", "rounding"), [((3, 7, 10, 16, 5, 5, 48), 2e-5), ((9, 5, 9, 32, 3, 3, 16), 2e-6)])
def test_whole_vectors_of_channels_go_by_winograd(shape, rounding, window):
    """Few multiplications, images that end inside a tile, and small errors all the same; eight points cost some more."""
    check(convolve(window), *operands(shape), terms=terms_of(shape), rounding=rounding)


@needs_kernel
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[2]])
def test_layouts_are_transposed(layout, window):
    x, k = operands(SHAPES[0], layout)
    check(convolve(window, layout), x, k, terms=terms_of(SHAPES[0]), lowered_by="paota_correlate")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", WINDOWS)
def test_without_a_compiler_xla_convolves_in_the_form_it_wants(monkeypatch, layout, window):
    monkeypatch.setattr(kernel, "available", lambda: False)
    check(
        convolve(window, layout),
        *operands(SHAPES[0], layout),
        terms=terms_of(SHAPES[0]),
        lowered_by="optimization_barrier",
    )


@pytest.mark.parametrize("groups", [2, 8])
def test_groups(groups):
    shape = (3, 8, 9, 8, 3, 3, 16)
    check(convolve(WINDOWS[1], groups=groups), *operands(shape, groups=groups), terms=terms_of(shape))


@needs_kernel
def test_side_by_side_as_one_by_one():
    """Devices with kernels of their own under `vmap`: the same bits as one after the other."""
    x, k = normal(1, 5, 4, 10, 10, 3), normal(2, 5, 3, 3, 3, 32)
    one = functools.partial(value_and_gradients, convolve(WINDOWS[1]))
    together = jax.jit(jax.vmap(one))(x, k)
    alone = [jax.jit(one)(*pair) for pair in zip(x, k, strict=True)]
    for a, *b in zip(together, *alone, strict=True):
        np.testing.assert_array_equal(a, np.stack(b))


@needs_kernel
def test_an_image_does_not_depend_on_its_company():
    function = jax.jit(convolve(WINDOWS[0]))
    for shape in ((40, 12, 12, 6, 3, 3, 40), (40, 6, 6, 16, 3, 3, 32)):
        x, k = operands(shape)
        np.testing.assert_array_equal(function(x, k)[7:9], function(x[7:9], k))


def test_other_ranks_and_types_are_left_alone():
    x, k = jnp.ones((2, 8, 3)), jnp.ones((3, 3, 16))
    text = jax.jit(lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")))
    assert "paota" not in text.lower(x, k).as_text()
    x, k = (jnp.asarray(a, jnp.bfloat16) for a in operands(SHAPES[0]))
    assert "paota" not in jax.jit(convolve(WINDOWS[0])).lower(x, k).as_text()


def test_second_derivatives_and_forward_mode():
    x, k = (jnp.asarray(a) for a in operands((2, 5, 5, 2, 3, 3, 8)))
    loss = lambda k: jnp.sum(jnp.sin(convolve(WINDOWS[0])(x, k)))  # noqa: E731
    ahead, behind = jax.jit(jax.jacfwd(jax.grad(loss)))(k), jax.jit(jax.jacrev(jax.grad(loss)))(k)
    np.testing.assert_allclose(ahead, behind, rtol=1e-4, atol=1e-4)


@needs_kernel
def test_an_equinox_model_gains_without_knowing():
    eqx = pytest.importorskip("equinox")
    layer = eqx.nn.Conv2d(3, 8, 3, key=jax.random.key(0))

    def loss(layer, x):
        return jnp.sum(jax.vmap(layer)(x) ** 2)

    text = jax.jit(jax.grad(loss)).lower(layer, jnp.ones((4, 3, 9, 9))).as_text()
    assert "paota_convolve" in text
    assert "paota_correlate" in text
    assert "stablehlo.convolution" not in text


@pytest.mark.parametrize(("shape", "window", "strides", "padding"), POOLS)
def test_pooling(shape, window, strides, padding):
    x = normal(3, *shape).round(1)  # ties, which the first of a window wins
    check(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, strides, padding), x)


def test_pooling_by_the_smallest_is_left_alone():
    check(lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 2), (1, 2), "VALID"), normal(4, 3, 8))


@needs_kernel
def test_same_bits_with_one_thread_and_with_many():
    program = """
import hashlib, jax, sys
sys.path.insert(0, sys.argv[1])
from test_convolution import *
convolution.install()
y = [*jax.jit(functools.partial(value_and_gradients, convolve(WINDOWS[1])))(*operands((37, 12, 12, 6, 3, 3, 40))),
     *jax.jit(functools.partial(value_and_gradients, convolve(WINDOWS[0])))(*operands((37, 6, 6, 16, 3, 3, 32)))]
print(hashlib.sha256(b"".join(np.asarray(a).tobytes() for a in y)).hexdigest())
"""
    here = os.path.dirname(__file__)  # noqa: PTH120

    def run(threads: int) -> str:
        environment = {**os.environ, "NPROC": str(threads)}
        return subprocess.run(
            [sys.executable, "-c", program, here], env=environment, check=True, capture_output=True, text=True
        ).stdout

    assert run(1) == run(4)
