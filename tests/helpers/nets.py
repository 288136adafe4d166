"""Small networks of every library for the synthetic data set, and an experiment to put them in."""

import jax.numpy as jnp
import numpy as np
import pytest

import paota

FEATURES, CLASSES = 64, 10  # of the synthetic data set: [8, 8] bytes


def table(model, **more):
    return {
        "rounds": 12,
        "model": model,
        "data": {"dataset": "synthetic", "devices": 8, "sizes": [60]},
        "algorithms": [{"name": "local-sgd", "participants": 8}],
        **more,
    }


def accuracy(model, *, seeds=1, **more):
    """[seeds, rounds + 1]."""
    return paota.run(table(model, **more), seeds=seeds).array("local-sgd", "test_accuracy")


def init(key, input_shape, num_classes):
    return jnp.zeros((int(np.prod(input_shape)), num_classes))


def apply(weights, x):
    return x.reshape(len(x), -1) @ weights


def equinox_net(key):
    eqx = pytest.importorskip("equinox", reason="needs equinox")
    return eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(FEATURES, CLASSES, key=key)])


def linen_net(*layers):
    nn = pytest.importorskip("flax.linen", reason="needs flax")
    return nn.Sequential([lambda x: x.reshape(len(x), -1), *layers, nn.Dense(CLASSES)])


def nnx_net(*layers):
    nnx = pytest.importorskip("flax.nnx", reason="needs flax")
    return nnx.Sequential(lambda x: x.reshape(len(x), -1), *layers, nnx.Linear(FEATURES, CLASSES, rngs=nnx.Rngs(0)))


def torch_net(*layers):
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    return torch.nn.Sequential(torch.nn.Flatten(), *layers, torch.nn.Linear(FEATURES, CLASSES))
