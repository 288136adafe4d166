"""GroupNorm, bias, shortcut, ReLU and pooling in one go: the kernel beside the plain operations, gradients too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota.models.layers import activated, activated_by
from paota.training.kernels import convolution

pytestmark = pytest.mark.skipif(not convolution.available(), reason="no C++ compiler")

CASES = [  # shape, groups, pooled, with a shortcut
    ((3, 8, 8, 16), None, True, False),
    ((3, 7, 9, 6), None, True, False),  # odd sides, channels that fill no vector
    ((2, 5, 6, 32), None, False, True),
    ((2, 8, 6, 24), 8, True, False),
    ((3, 5, 7, 6), 3, True, False),
    ((2, 6, 6, 16), 4, False, True),
    ((2, 1, 1, 8), 2, False, False),
]


def operands(shape: tuple[int, ...], shortcut: bool):
    draw = np.random.default_rng(0)
    x, past = (draw.standard_normal(shape).astype(np.float32) + 0.3 for _ in range(2))
    scale, bias = (draw.standard_normal(shape[-1]).astype(np.float32) for _ in range(2))
    return x, bias, scale, past if shortcut else None


def values_and_gradients(case, by_kernel: bool, arguments):
    _, groups, pooled, _ = case

    def loss(x, bias, scale, shortcut):
        y = activated(x, bias, scale, groups=groups, shortcut=shortcut, pooled=pooled)
        return jnp.sum(jnp.sin(3 * y) * (1 + jnp.arange(y.size).reshape(y.shape) / y.size)), y

    call = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3), has_aux=True))
    if not by_kernel:
        return call(*arguments)
    with activated_by(convolution.activate):
        assert "paota_activate_gradient" in call.lower(*arguments).as_text()
        return call(*arguments)


@pytest.mark.parametrize("case", CASES)
def test_as_the_plain_operations(case):
    arguments = operands(case[0], case[3])
    ours, theirs = (values_and_gradients(case, by_kernel, arguments) for by_kernel in (True, False))
    for mine, plain in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=2e-5, atol=3e-5)


def test_ties_go_to_the_first_of_a_window_and_nothing_passes_a_closed_relu():
    x = jnp.array([[1.0, 1.0], [1.0, 0.5]]).reshape(1, 2, 2, 1)
    with activated_by(convolution.activate):
        gradient = jax.grad(lambda x, bias: activated(x, bias, pooled=True).sum())
        np.testing.assert_array_equal(gradient(x, jnp.zeros(1)).ravel(), [1, 0, 0, 0])
        np.testing.assert_array_equal(gradient(x, jnp.full(1, -1.0)).ravel(), [0, 0, 0, 0])


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("groups", [None, 1])
def test_nan_stays_nan(place, groups):
    x = np.zeros((1, 2, 2, 1), np.float32)
    x.flat[place] = np.nan
    with activated_by(convolution.activate):
        assert np.isnan(activated(jnp.asarray(x), jnp.zeros(1), jnp.ones(1), groups=groups, pooled=True)).all()


def test_an_image_does_not_depend_on_its_company():
    x, bias, scale, _ = operands((9, 6, 6, 16), False)
    with activated_by(convolution.activate):
        all_, some = (activated(part, bias, scale, groups=4, pooled=True) for part in (x, x[4:6]))
    np.testing.assert_array_equal(all_[4:6], some)
