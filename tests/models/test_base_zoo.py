"""Every network by name: its size, counted by hand, and that it learns."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota.base.errors import UserError
from paota.base.registry import MODELS
from paota.models.base import cross_entropy
from paota.models.cnn import Cnn, FedAvgCnn, LeNet5
from paota.models.layers import activated_by, group_norm
from paota.models.mlp import Mlp, Softmax
from paota.models.resnet import ResNet
from paota.training import convolution
from paota.training.kernels import convolution as kernel

GREY, COLOUR = (28, 28), (32, 32, 3)
RESNET_FIRST = 9 * 3 * 16 + 2 * 16
RESNET_OUT = 64 * 10 + 10


def resnet_stage(before: int, channels: int, blocks: int) -> int:
    """Two kernels a block, with scale and bias each; the first kernel sees the channels of the stage before."""
    return 9 * before * channels + (2 * blocks - 1) * 9 * channels**2 + 2 * blocks * 2 * channels


SIZES = [
    (Softmax(), GREY, 784 * 10 + 10),
    (Mlp(), GREY, 8070),
    (Cnn(channels=(32, 64), dense=128), GREY, (9 * 32 + 32) + (9 * 32 * 64 + 64) + (7 * 7 * 64 * 128 + 128) + 1290),
    (Cnn(channels=(32, 64), dense=128), COLOUR, (27 * 32 + 32) + (9 * 32 * 64 + 64) + (8 * 8 * 64 * 128 + 128) + 1290),
    (Cnn(groups=8), GREY, (9 * 8 + 2 * 8) + (9 * 8 * 16 + 2 * 16) + (7 * 7 * 16 * 32 + 32) + 330),  # a scale each
    (FedAvgCnn(), GREY, 1_663_370),  # as the paper says
    (FedAvgCnn(), COLOUR, (75 * 32 + 32) + (25 * 32 * 64 + 64) + (8 * 8 * 64 * 512 + 512) + 5130),
    (LeNet5(), GREY, 61_706),  # the usual number
    (LeNet5(), COLOUR, (75 * 6 + 6) + (150 * 16 + 16) + (400 * 120 + 120) + (120 * 84 + 84) + 850),
    (ResNet(), COLOUR, RESNET_FIRST + sum(resnet_stage(*s, 1) for s in ((16, 16), (16, 32), (32, 64))) + RESNET_OUT),
    (
        ResNet(depth=20),
        COLOUR,
        RESNET_FIRST + sum(resnet_stage(*s, 3) for s in ((16, 16), (16, 32), (32, 64))) + RESNET_OUT,
    ),
    (ResNet(depth=20), COLOUR, 269_722),  # He et al., Table 6: 0.27 million
]


@pytest.mark.parametrize(("model", "shape", "size"), SIZES)
def test_size(model, shape, size):
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), shape, 10))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == size
    logits = jax.eval_shape(model.apply, params, jax.ShapeDtypeStruct((3, *shape), jnp.float32))
    assert logits.shape == (3, 10)


LEARNERS = [
    (Softmax(), (12, 12), 0.1),
    (Mlp(), (12, 12), 0.1),
    (Cnn(), (12, 12), 0.1),
    (Cnn(groups=4), (12, 12), 0.1),
    (FedAvgCnn(dense=32), (12, 12, 3), 0.05),
    (LeNet5(), (16, 16), 0.05),
    (ResNet(), (12, 12, 3), 0.1),
    (ResNet(depth=20, width=8, groups=4), (8, 8, 3), 0.1),
]


@pytest.mark.parametrize(("model", "shape", "learning_rate"), LEARNERS)
def test_it_learns(model, shape, learning_rate):
    """Which corner is bright? From noise to nearly always right in 60 steps, on images never seen; by the kernels, as in
    a run."""
    convolution.install()
    x, y = corners(shape, 60 * 32 + 200)

    def step(params, batch):
        loss = lambda p: cross_entropy(model.apply(p, batch[0]), batch[1]).mean()  # noqa: E731
        return jax.tree.map(lambda w, g: w - learning_rate * g, params, jax.grad(loss)(params)), None

    @jax.jit
    def trained(params):
        batches = (x[:-200].reshape(60, 32, *shape), y[:-200].reshape(60, 32))
        return jax.lax.scan(step, params, batches)[0]

    accuracy = jax.jit(lambda params: (model.apply(params, x[-200:]).argmax(axis=-1) == y[-200:]).mean())
    start = model.init(jax.random.key(1), shape, 4)
    with activated_by(kernel.activate) if kernel.available() else contextlib.nullcontext():
        assert accuracy(start) < 0.6
        assert accuracy(trained(start)) > 0.95


def corners(shape: tuple[int, ...], samples: int) -> tuple[jax.Array, jax.Array]:
    draw = np.random.default_rng(0)
    label = draw.integers(0, 4, samples)
    half = shape[0] // 2
    x = draw.standard_normal((samples, *shape)) * 0.5
    for sample, (down, right) in enumerate(zip(label // 2, label % 2, strict=True)):
        x[sample, down * half : (down + 1) * half, right * half : (right + 1) * half] += 1
    return jnp.asarray(x, jnp.float32), jnp.asarray(label)


def test_group_norm_is_the_textbook_formula():
    x = np.random.default_rng(1).standard_normal((3, 4, 5, 6)) * 3 + 2
    params = {"scale": np.arange(1.0, 7.0), "bias": np.arange(6.0)}
    groups = x.reshape(3, 4, 5, 2, 3)
    mean, variance = groups.mean(axis=(1, 2, 4), keepdims=True), groups.var(axis=(1, 2, 4), keepdims=True)
    right = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * params["scale"] + params["bias"]
    np.testing.assert_allclose(group_norm(params, jnp.asarray(x, jnp.float32), 2), right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ResNet(depth=10), "6 n"),
        (lambda: ResNet(width=12), "multiple of model.groups"),
        (lambda: LeNet5().init(jax.random.key(0), (8, 8), 10), "at least 12x12"),
        (lambda: FedAvgCnn().init(jax.random.key(0), (3, 3), 10), "at least 4x4"),
        (lambda: FedAvgCnn().init(jax.random.key(0), (37,), 10), "'fedavg-cnn' needs images"),
    ],
)
def test_mistakes_get_a_sentence(make, sentence):
    with pytest.raises(UserError, match=sentence):
        make()


def test_all_have_names():
    for name, model in (("lenet5", LeNet5), ("fedavg-cnn", FedAvgCnn), ("resnet", ResNet), ("cnn", Cnn)):
        assert MODELS[name] is model
