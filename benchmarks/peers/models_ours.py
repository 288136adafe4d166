"""Networks as we compute them: every device by itself, with the convolutions of `paota.training.convolution`.

Arguments: model, and `ours` or `vmap` (all devices side by side in plain JAX).
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import models_work as work
import numpy as np
from protocol import Pacer

from paota.models.base import Model, cross_entropy
from paota.models.cnn import Cnn
from paota.models.fedavg_cnn import FedAvgCnn
from paota.models.lenet5 import LeNet5
from paota.models.mlp import Mlp
from paota.models.resnet import ResNet
from paota.training import convolution

JUDGED_AT_ONCE = 40  # small enough for the cache

MODELS: dict[str, Model] = {
    "cnn-grey": Cnn(channels=(32, 64), dense=128),
    "cnn-colour": Cnn(channels=(32, 64), dense=128),
    "fedavg-cnn": FedAvgCnn(),
    "lenet5": LeNet5(),
    "resnet8": ResNet(),
    "resnet20": ResNet(depth=20),
    "mlp": Mlp(hidden=(200, 200)),
}

pacer = Pacer()
name, how = sys.argv[1], sys.argv[2]
if how == "ours":
    convolution.install()
model, shape = MODELS[name], work.MODELS[name]
x, y = (jnp.asarray(a) for a in work.data(shape, work.TRAINING, 0))
x_test, y_test = (jnp.asarray(a) for a in work.data(shape, work.TEST, 1))


def local_training(params: Any, samples: jax.Array, x: jax.Array, y: jax.Array) -> Any:
    """M steps of one device on the samples [M, B]."""

    def step(params: Any, batch: jax.Array) -> tuple[Any, None]:
        gradient = jax.grad(lambda p: cross_entropy(model.apply(p, x[batch]), y[batch]).mean())(params)
        return jax.tree.map(lambda w, g: w - work.LEARNING_RATE * g, params, gradient), None

    return jax.lax.scan(step, params, samples)[0]


def one_by_one(params: Any, samples: jax.Array, x: jax.Array, y: jax.Array) -> Any:
    def add(total: Any, of_device: jax.Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, local_training(params, of_device, x, y)), None

    total, _ = jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), samples)
    return jax.tree.map(lambda sum_: sum_ / work.DEVICES, total)


def side_by_side(params: Any, samples: jax.Array, x: jax.Array, y: jax.Array) -> Any:
    trained = jax.vmap(local_training, in_axes=(None, 0, None, None))(params, samples, x, y)
    return jax.tree.map(lambda a: a.mean(axis=0), trained)


def judge(params: Any, x: jax.Array, y: jax.Array, at_once: int) -> jax.Array:
    def right(block: tuple[jax.Array, jax.Array]) -> jax.Array:
        return jnp.sum(model.apply(params, block[0]).argmax(axis=-1) == block[1])

    blocks = (x.reshape(-1, at_once, *x.shape[1:]), y.reshape(-1, at_once))
    return jax.lax.map(right, blocks).sum() / len(y)


@jax.jit
def a_round(params: Any, samples: jax.Array, x: jax.Array, y: jax.Array, x_test: jax.Array, y_test: jax.Array) -> Any:
    params = (one_by_one if how == "ours" else side_by_side)(params, samples, x, y)
    return params, judge(params, x_test, y_test, JUDGED_AT_ONCE if how == "ours" else work.TEST)


served, draw = model.init(jax.random.key(0), shape, work.CLASSES), np.random.default_rng(0)
pacer.ready("jax", how=how)
while True:
    served, accuracy = a_round(served, jnp.asarray(work.batches(draw)), x, y, x_test, y_test)
    pacer.round_done(float(accuracy))
