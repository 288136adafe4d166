"""Losses and scores of the user's own, of whole numbers and of real ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.nets import FEATURES, accuracy, apply, equinox_net, init, table

import paota
from paota import UserError
from paota.models.base import FunctionModel
from paota.models.custom import as_model


def test_regression():
    """Labels as numbers: the output is one number a sample, and the score is what the model says it is."""

    def squares(outputs, y):
        return (outputs[:, 0] - y) ** 2

    def near(outputs, y):
        return (jnp.abs(outputs[:, 0] - y) < 2.5).astype(jnp.float32)

    model = FunctionModel(
        init=lambda key, shape, classes: jnp.zeros((int(np.prod(shape)), 1)),
        apply=apply, loss=squares, score=near, score_name="within 2.5",
    )  # fmt: skip
    result = paota.run(table(model, training={"learning_rate": 0.02}))
    loss = result.array("local-sgd", "test_loss")[0]
    assert loss[0] == pytest.approx(np.mean(np.arange(10) ** 2), rel=0.1)  # zero for labels 0..9: the mean of y^2
    assert loss[-1] < loss[0] / 2
    assert result.info["score"] == "within 2.5"


def test_a_loss_for_a_ready_made_module():
    def smoothed(outputs, y):
        return -jax.nn.log_softmax(outputs).mean(-1) * 0.1 - 0.9 * jax.nn.log_softmax(outputs)[jnp.arange(len(y)), y]

    model = as_model(equinox_net(jax.random.key(1)), loss=smoothed)
    result = paota.run(table(model))
    assert result.info["score"] == "accuracy"
    assert result.array("local-sgd", "test_accuracy")[0, -1] > 0.3
    plain = accuracy(equinox_net(jax.random.key(1)))
    assert not np.array_equal(plain, result.array("local-sgd", "test_accuracy"))


def test_a_loss_in_torch():
    torch = pytest.importorskip("torch", reason="needs PyTorch")

    class Regression(torch.nn.Linear):
        score_name = "negative error"

        def forward(self, x):
            return super().forward(x.flatten(1))

        def loss(self, outputs, y):
            return (outputs[:, 0] - y) ** 2

        def score(self, outputs, y):
            return -(outputs[:, 0] - y).abs()

    result = paota.run(table(Regression(FEATURES, 1), training={"learning_rate": 0.02}))
    loss = result.array("local-sgd", "test_loss")[0]
    assert loss[-1] < loss[0] / 2
    assert result.info["score"] == "negative error"


def test_a_class_takes_a_loss_and_a_score():
    torch = pytest.importorskip("torch", reason="needs PyTorch")

    class Net(torch.nn.Linear):
        def __init__(self):
            super().__init__(FEATURES, 10)

        def forward(self, x):
            return super().forward(x.flatten(1))

    def doubled(outputs, y):
        return 2 * torch.nn.functional.cross_entropy(outputs, y, reduction="none")

    given = {"loss": doubled, "score": lambda outputs, y: -doubled(outputs, y), "score_name": "minus the loss"}
    one, other = (paota.run(table(as_model(thing, **given), rounds=1)) for thing in (Net, lambda: Net()))
    assert one.info["score"] == "minus the loss"
    for column in ("test_loss", "test_accuracy"):
        np.testing.assert_array_equal(one.array("local-sgd", column), other.array("local-sgd", column))


def load_plane():
    """y = 3 x_0 - 2 x_1 + 0.5, 200 samples to learn from."""
    x = np.random.default_rng(0).normal(size=(300, 2))
    y = x @ [3.0, -2.0] + 0.5
    return paota.Dataset.from_arrays(
        name="plane", x_train=x[:200], y_train=y[:200, None], x_test=x[200:], y_test=y[200:], targets=True
    )


@pytest.fixture
def plane():
    paota.register("dataset", "plane", load_plane)
    return {"dataset": "plane", "devices": 5, "partition": "iid"}


@pytest.mark.parametrize("kind", ["functions", "torch"])
def test_regression_learns_targets_that_are_no_whole_numbers(kind, plane):
    if kind == "torch":
        torch = pytest.importorskip("torch", reason="needs PyTorch")
        net = torch.nn.Linear(2, 1)
    else:
        net = (lambda key, shape, classes: jnp.zeros((3, 1)), lambda w, x: x @ w[:2] + w[2])
    model = as_model(
        net,
        loss=lambda outputs, y: (outputs[:, 0] - y) ** 2,
        score=lambda outputs, y: abs(outputs[:, 0] - y) < 0.1,
        score_name="within 0.1",
    )
    assert accuracy(model, data=plane)[0, -1] == pytest.approx(1)


def test_targets_need_a_loss_and_a_partition_without_classes(plane):
    with pytest.raises(UserError, match="needs its own loss and score"):
        paota.run(table({"name": "mlp"}, data=plane))
    model = as_model((init, apply), loss=lambda o, y: (o[:, 0] - y) ** 2, score=lambda o, y: o[:, 0] < y)
    with pytest.raises(UserError, match="plane has targets instead: choose 'iid'"):
        paota.run(table(model, data={**plane, "partition": "dirichlet"}))
    with pytest.raises(UserError, match="y_train holds NaN or infinite targets"):
        paota.Dataset.from_arrays(
            name="bad", x_train=[[0.0]], y_train=[np.inf], x_test=[[0.0]], y_test=[0], targets=True
        )
