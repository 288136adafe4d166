"""A changed variable of the user's own code is seen by the next run."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.nets import FEATURES, apply, init, table

import paota
from paota import engine
from paota.models.base import FunctionModel

pytestmark = pytest.mark.usefixtures("clean_registries")

SCALE, WIDTH, OPTIONS = 1.0, 4, {"factor": [1.0]}


@dataclass(frozen=True, kw_only=True)
class Scaled(paota.SynchronousAlgorithm):
    """Local SGD with a weight from a global variable."""

    payload = "update"
    over_the_air = False

    def amplitudes(self, event, uplink, power):
        return paota.weights(SCALE * paota.normalise(event.ready.astype(float)), event)


@dataclass(frozen=True, kw_only=True)
class Still:
    """A channel whose gain is a global variable."""

    def draw(self, key):
        return jnp.asarray(SCALE, complex)


def own_loss(outputs, y):
    return OPTIONS["factor"][0] * -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=-1)[:, 0]


def build(input_shape, num_classes):
    width = WIDTH
    return (
        lambda key, *_: [jnp.ones((FEATURES, width)) / 100, jnp.zeros((width, num_classes))],
        lambda w, x: x.reshape(len(x), -1) @ w[0] @ w[1],
    )


def own_algorithm():
    return table((init, apply), rounds=2, algorithms=[{"name": "scaled"}])


def own_channel():
    air = {"fading": "still", "n0_dbm_per_hz": -60}
    return table((init, apply), rounds=2, algorithms=[{"name": "paota"}], air=air)


MODEL = FunctionModel(init=init, apply=apply, loss=own_loss)
CASES = {
    "algorithm": (own_algorithm, ("SCALE", 0.5)),
    "channel": (own_channel, ("SCALE", 0.1)),
    "loss": (lambda: table(MODEL, rounds=2), ("OPTIONS", {"factor": [3.0]})),
    "builder": (lambda: table(build, rounds=2), ("WIDTH", 8)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_changed_variable_is_seen(case, monkeypatch):
    paota.register("algorithm", "scaled", Scaled)
    paota.register("channel", "still", Still)
    make, (name, value) = CASES[case]
    one = paota.run(make()).trajectories[0].model
    known = engine.known_programs()
    same = paota.run(make()).trajectories[0].model
    assert engine.known_programs() == known  # nothing is compiled again without a change
    monkeypatch.setitem(globals(), name, value)
    other = paota.run(make()).trajectories[0].model
    np.testing.assert_array_equal(one, same)
    assert one.shape != other.shape or not np.array_equal(one, other)
