"""Networks as we compute them: the learner that a run would take for them trains and judges.

Arguments: model, and `ours` or `vmap` (all devices side by side in plain JAX).
"""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import models_work as work
import numpy as np
from jax.flatten_util import ravel_pytree
from protocol import Pacer

from paota.base.settings import as_tree, defaults
from paota.models.base import Model, cross_entropy
from paota.models.cnn import Cnn, FedAvgCnn, LeNet5
from paota.models.mlp import Mlp
from paota.models.resnet import ResNet
from paota.training.learner import TrainingInputs, choose
from paota.training.settings import Training

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
model, shape = MODELS[name], work.MODELS[name]
x, y = work.data(shape, work.TRAINING, 0)
x_test, y_test = work.data(shape, work.TEST, 1)
labels, labels_test = jnp.asarray(y, jnp.int32), jnp.asarray(y_test, jnp.int32)
weights, unravel = ravel_pytree(model.init(jax.random.key(0), shape, work.CLASSES))
PLAIN = as_tree(defaults(Training))
learner, words = choose(model, x, work.CLASSES, PLAIN)


@jax.jit
def our_round(weights: jax.Array, samples: jax.Array, x: Any, y: jax.Array, x_test: Any, y_test: jax.Array) -> Any:
    """Every device starts from the one global model; the average is judged."""
    everybody = jnp.zeros(work.DEVICES, jnp.int32)
    orders = TrainingInputs(everybody, everybody == 0, samples, None, jnp.float32(work.LEARNING_RATE))
    models = learner.train(PLAIN, orders, weights[None], x, y).local_model
    weights = jnp.full(work.DEVICES, 1 / work.DEVICES) @ models  # as the engine superposes
    judged = learner.evaluate(weights, (x_test, y_test, jnp.full(work.TEST, 1 / work.TEST)), 0, work.TEST)
    return weights, judged.score


def local_training(weights: jax.Array, samples: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """M steps of one device on the samples [M, B]."""

    def step(params: Any, batch: jax.Array) -> tuple[Any, None]:
        gradient = jax.grad(lambda p: cross_entropy(model.apply(p, x[batch]), y[batch]).mean())(params)
        return jax.tree.map(lambda w, g: w - work.LEARNING_RATE * g, params, gradient), None

    return ravel_pytree(jax.lax.scan(step, unravel(weights), samples)[0])[0]


@jax.jit
def plain_round(weights: jax.Array, samples: jax.Array, x: Any, y: jax.Array, x_test: Any, y_test: jax.Array) -> Any:
    """The straightforward implementation."""
    weights = jax.vmap(local_training, in_axes=(None, 0, None, None))(weights, samples, x, y).mean(axis=0)
    return weights, (model.apply(unravel(weights), x_test).argmax(axis=-1) == y_test).mean()


a_round = our_round if how == "ours" else plain_round
x, x_test = (jax.tree.map(jnp.asarray, learner.encode(a) if how == "ours" else a) for a in (x, x_test))
draw = np.random.default_rng(0)
pacer.ready("jax", how=words if how == "ours" else how)
while True:
    samples = jnp.asarray(work.batches(draw), jnp.int32)
    weights, accuracy = a_round(weights, samples, x, labels, x_test, labels_test)
    pacer.round_done(float(accuracy))
