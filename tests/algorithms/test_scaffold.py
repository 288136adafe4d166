"""SCAFFOLD by hand, in a run, and with settings that it cannot work with."""

import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota.algorithms.scaffold import Scaffold

SMALL = {
    "rounds": 8,
    "model": {"name": "softmax"},
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [60], "classes_per_device": 2},
}


def test_by_hand():
    """M eta = 1/2, c = (1, 0), c_0 = (0, 2), K = 2: c_0 <- (0, 2) - (1, 0) - 2 (-1, 0) = (1, 2); c moves by half the mean."""
    rule = Scaffold(local_steps=5, learning_rate=0.1)
    served = paota.aggregate_by_hand(
        rule, [[-1.0, 0.0]], memory=[[0.0, 2.0]], state=jnp.array([1.0, 0.0]), num_devices=2
    )
    np.testing.assert_allclose(served.model, [-1.0, 0.0])
    np.testing.assert_allclose(served.memory, [[1.0, 2.0]])
    np.testing.assert_allclose(served.state, [1 + (-1 + 2) / 2, 0.0])
    np.testing.assert_allclose(rule.gradient_shift(jnp.array([0.0, 2.0]), jnp.array([1.0, 0.0])), [1, -2])


def test_steps_and_rate_are_those_of_the_training():
    experiment = paota.Experiment.from_dict(
        {"algorithms": [{"name": "scaffold"}], "training": {"local_steps": 7, "learning_rate": 0.2}}
    )
    (entry,) = experiment.algorithms
    made = entry.algorithm.for_training(entry.training)
    assert (made.local_steps, made.learning_rate) == (7, 0.2)


def test_it_learns():
    """The first round is that of Local SGD; from the second round on, the shift changes the model."""
    first = {**SMALL, "rounds": 1, "algorithms": [{"name": "scaffold"}, {"name": "local-sgd"}]}
    scaffold, plain = paota.run(first).trajectories
    np.testing.assert_allclose(scaffold.model, plain.model, rtol=1e-4, atol=1e-6)
    later, other = paota.run({**first, "rounds": 8}).trajectories
    assert np.abs(later.model - other.model).max() > 1e-3
    assert later.metrics["test_accuracy"][-1] > 0.3


@pytest.mark.parametrize(
    ("training", "what"),
    [({"optimiser": "adam"}, "training.optimiser = 'adam'"), ({"epochs": 2, "local_steps": None}, "training.epochs")],
)
def test_other_trainings_are_refused_before_the_run(training, what):
    rule = {"name": "scaffold", "training": {key: value for key, value in training.items() if value is not None}}
    with pytest.raises(paota.UserError, match=f"scaffold needs plain SGD with one learning rate, .* with {what}"):
        paota.run({**SMALL, "algorithms": [rule]})
