"""Models of the user's own: every kind learns, and means the same as ours."""

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.nets import CLASSES, FEATURES, accuracy, apply, equinox_net, init, linen_net, nnx_net, table, torch_net

import paota
from paota.models.base import FunctionModel
from paota.models.custom import as_model, fitted
from paota.models.mlp import Softmax


class Plain:
    init, apply = staticmethod(init), staticmethod(apply)


KINDS = {
    "pair": lambda: (init, apply),
    "object": Plain,
    "class": lambda: Plain,
    "our class": lambda: Softmax,
    "functions": lambda: FunctionModel(init=init, apply=apply),
    "equinox": lambda: equinox_net(jax.random.key(1)),
    "equinox by key": lambda: (equinox_net(jax.random.key(1)), equinox_net)[1],
    "flax linen": linen_net,
    "flax nnx": nnx_net,
    "torch": torch_net,
    "torch builder": lambda: (torch_net(), torch_net)[1],
}


def outputs_of(kind, trained, x):
    """Return outputs for samples [B, 8, 8], by the user's own library and by the model of the result."""
    if kind.startswith("torch"):
        torch = pytest.importorskip("torch", reason="needs PyTorch")
        with torch.no_grad():
            return trained(torch.from_numpy(x)).numpy()
    if kind.startswith("equinox"):
        return jax.vmap(trained)(x)
    if kind == "flax linen":
        return linen_net().apply({"params": trained}, x)
    if kind == "flax nnx":
        return trained(x)
    return Softmax().apply(trained, x) if kind == "our class" else apply(trained, x)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_and_comes_back(kind):
    model = KINDS[kind]()
    result = paota.run(table(model))
    seen = result.array("local-sgd", "test_accuracy")[0]
    assert seen[-1] > seen[0] + 0.2
    x, y = result.dataset.x_test, result.dataset.y_test
    predicted = result.predict(x)
    np.testing.assert_allclose((predicted == y).mean(), seen[-1], atol=2 / len(y))  # a tie or two may fall otherwise
    floats = x.astype(np.float32) / 255
    again = np.argmax(outputs_of(kind, result.model("local-sgd"), floats), axis=-1)
    assert (again == predicted).mean() > 0.99
    np.testing.assert_array_equal(accuracy({"name": model})[0], seen)  # the long form, and the same bits again


def test_two_functions_are_our_softmax():
    ours = paota.run(table("softmax", training={"momentum": 0.5, "optimiser": "momentum"}))
    theirs = paota.run(table((init, apply), training={"momentum": 0.5, "optimiser": "momentum"}))
    a, b = (result.trajectories[0].model for result in (ours, theirs))
    bias, weight = a[:CLASSES], a[CLASSES:].reshape(CLASSES, FEATURES)
    assert np.abs(bias).max() > 0  # which theirs has not: only the first step of the weights is alike
    assert np.corrcoef(weight.T.ravel(), b)[0, 1] > 0.99


WAYS = {
    "plain": {},
    "momentum": {"optimiser": "momentum", "momentum": 0.8},
    "nesterov": {"optimiser": "momentum", "nesterov": True},
    "adam": {"optimiser": "adam", "learning_rate": 0.01},
    "everything": {"weight_decay": 0.1, "max_gradient_norm": 0.3, "proximal": 0.5, "schedule": "cosine"},
    "uneven steps": {"least_steps": 2},
    "epochs": {"epochs": 2},
    "seen otherwise": {"augment": "crop-flip"},
}


IN_CI = ("plain", "everything", "epochs")  # the others differ in one line each


@pytest.mark.parametrize("way", [way if way in IN_CI else pytest.param(way, marks=pytest.mark.slow) for way in WAYS])
def test_torch_trains_as_jax_does(way):
    """The same network from the same weights, on the same draws: equal up to rounding."""
    pytest.importorskip("torch", reason="needs PyTorch").manual_seed(1)
    net = torch_net()
    weight, bias = (p.detach().numpy() for p in net[-1].parameters())

    def same_start(key, input_shape, num_classes):
        return [jnp.asarray(weight), jnp.asarray(bias)]

    def same_net(params, x):
        return x.reshape(len(x), -1) @ params[0].T + params[1]

    data = {**table(net)["data"], **({"normalise": "channel"} if way == "seen otherwise" else {})}
    torch, ours = (
        paota.run(table(model, training=WAYS[way], data=data), seeds=2) for model in (net, (same_start, same_net))
    )
    for a, b in zip(torch.trajectories, ours.trajectories, strict=True):
        np.testing.assert_allclose(
            a.model, b.model, atol=3e-4 if way == "adam" else 2e-5
        )  # it divides by tiny gradients
        np.testing.assert_allclose(a.metrics["test_loss"], b.metrics["test_loss"], rtol=1e-4)
        np.testing.assert_allclose(a.metrics["train_loss"], b.metrics["train_loss"], rtol=1e-4)
    np.testing.assert_array_equal(net[-1].weight.detach().numpy(), weight)  # the user's module is left alone


@pytest.mark.parametrize("kind", ["equinox by key", "flax linen", "torch builder"])
def test_a_builder_begins_anew_with_every_seed(kind):
    first = accuracy(KINDS[kind](), seeds=2, rounds=1)[:, 0]
    assert first[0] != first[1]
    np.testing.assert_array_equal(accuracy(KINDS[kind](), seeds=2, rounds=1)[:, 0], first)


def test_seeds_that_begin_at_once_begin_as_if_alone():
    """PyTorch has one generator for the whole process, and seeds are begun in threads."""

    def slowly():
        time.sleep(0.1)  # long enough for the other to have chosen its seed
        return torch_net()

    pytest.importorskip("torch", reason="needs PyTorch")
    model = fitted(as_model(slowly), (8, 8), CLASSES)
    keys = [jax.random.key(0), jax.random.key(1)]
    alone = [np.asarray(model.init(key, (8, 8), CLASSES)) for key in keys]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda key: np.asarray(model.init(key, (8, 8), CLASSES)), keys))
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("kind", ["equinox", "flax nnx", "torch"])
def test_an_instance_is_the_first_model_of_every_seed(kind):
    first = accuracy(KINDS[kind](), seeds=2, rounds=1)[:, 0]
    assert first[0] == first[1]


def test_images_are_cropped_on_the_host_as_in_jax():
    from paota.training.batches import crop_and_flip
    from paota.training.torch_learner import cropped

    rng = np.random.default_rng(0)
    draws = rng.integers(0, [9, 9, 2], (20, 3))
    for shape in ((6, 5), (6, 5, 3)):
        images = rng.integers(1, 256, (20, *shape), dtype=np.uint8)
        np.testing.assert_array_equal(cropped(images, draws), crop_and_flip(jnp.asarray(images), jnp.asarray(draws)))


def test_scaffold_trains_torch_as_it_trains_jax():
    """A rule that shifts gradients: the same network from the same weights, on the same draws."""
    net = torch_net()
    start = [jnp.asarray(p.detach().numpy()) for p in net[-1].parameters()]
    same = (lambda *shapes: start, lambda w, x: x.reshape(len(x), -1) @ w[0].T + w[1])
    rule = [{"name": "scaffold", "participants": 4}]
    torch, ours = (paota.run(table(model, algorithms=rule)).trajectories[0] for model in (net, same))
    np.testing.assert_allclose(torch.model, ours.model, atol=2e-5)


def test_images_arrive_as_each_library_wants_them():
    paota_shape, seen = (4, 6, 3), []
    x = np.zeros((2, *paota_shape), np.float32)

    def spy(x):
        seen.append(x.shape)
        return jnp.zeros(CLASSES) + x.sum() if x.ndim == 3 else jnp.zeros((len(x), CLASSES))

    eqx = pytest.importorskip("equinox", reason="needs equinox")
    as_model(eqx.nn.Lambda(spy)).apply(as_model(eqx.nn.Lambda(spy)).init(None, paota_shape, CLASSES), x)
    assert seen == [(3, 4, 6)]
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(48, CLASSES))
    assert as_model(net).try_out(paota_shape, CLASSES).outputs == (2, CLASSES)
    grey = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * 2 * 4, CLASSES))
    assert as_model(grey).try_out((4, 6), CLASSES).outputs == (2, CLASSES)


# A model by its place in a file

CODE = """
import numpy as np, jax.numpy as jnp

def build(input_shape, num_classes):
    size = int(np.prod(input_shape))
    return (lambda key, *_: jnp.zeros((size, num_classes))), (lambda w, x: x.reshape(len(x), -1) @ w)
"""
TOML = """
rounds = 4
[model]
name = "MODULE:build"
[data]
dataset = "synthetic"
devices = 8
sizes = [60]
[[algorithms]]
name = "local-sgd"
participants = 8
"""


def test_a_model_beside_the_experiment_file(tmp_path):
    (tmp_path / "beside.py").write_text(CODE)
    (tmp_path / "mine.toml").write_text(TOML.replace("MODULE", "beside"))
    result = paota.run(tmp_path / "mine.toml")
    np.testing.assert_array_equal(result.array("local-sgd", "test_accuracy"), accuracy((init, apply), rounds=4))
    written = result.experiment.to_dict()["model"]
    assert written == {"name": f"{tmp_path / 'beside.py'}:build"}  # so that a run folder can be resumed anywhere
    (tmp_path / "beside.py").unlink()
    assert paota.Experiment.from_dict({"model": written}).to_dict()["model"] == written  # reading needs no code


def test_a_model_on_the_path(tmp_path, monkeypatch):
    (tmp_path / "on_the_path.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    result = paota.run(table("on_the_path:build", rounds=4))
    assert result.experiment.to_dict()["model"] == {"name": "on_the_path:build"}
    sys.modules.pop("on_the_path")


def test_a_model_of_python_survives_an_override():
    experiment = paota.Experiment.from_dict(table((init, apply))).override({"rounds": 3})
    assert (
        accuracy((init, apply), rounds=3).tolist() == paota.run(experiment).array("local-sgd", "test_accuracy").tolist()
    )


def test_torch_models_run_under_every_algorithm_side_by_side():
    """Units run in threads of their own; no bit depends on the company."""
    names = ("paota", "local-sgd", "cotaf", "fedbuff")
    algorithms = [{"name": name} for name in names]
    net = torch_net()
    together = paota.run(table(net, rounds=4, algorithms=algorithms), seeds=2)
    alone = paota.run(table(net, rounds=4, algorithms=algorithms[:1]), seeds=1)
    assert together.array("paota", "test_loss")[0].tolist() == alone.array("paota", "test_loss")[0].tolist()


def test_the_page_runs_as_it_stands():
    for library in ("equinox", "flax", "torch"):
        pytest.importorskip(library, reason=f"the page shows {library}")
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) == 7
    exec("\n".join(blocks), {"__name__": "page"})
