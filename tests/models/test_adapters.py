"""Models of the user's own: every kind learns, means the same as ours, and wrong ones get one sentence."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota import UserError
from paota.models.base import FunctionModel
from paota.models.own import as_model, fitted
from paota.models.softmax import Softmax

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
    """Of samples [B, 8, 8], by the user's own library and the model as it came back."""
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


@pytest.mark.parametrize("kind", ["equinox", "flax nnx", "torch"])
def test_an_instance_is_the_first_model_of_every_seed(kind):
    first = accuracy(KINDS[kind](), seeds=2, rounds=1)[:, 0]
    assert first[0] == first[1]


def test_images_are_cropped_on_the_host_as_in_jax():
    from paota.training.augmentation import crop_and_flip
    from paota.training.torch_learner import cropped

    rng = np.random.default_rng(0)
    draws = rng.integers(0, [9, 9, 2], (20, 3))
    for shape in ((6, 5), (6, 5, 3)):
        images = rng.integers(1, 256, (20, *shape), dtype=np.uint8)
        np.testing.assert_array_equal(cropped(images, draws), crop_and_flip(jnp.asarray(images), jnp.asarray(draws)))


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


# A loss of one's own


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


# One sentence for each mistake


def eqx_module(make):
    return make(pytest.importorskip("equinox", reason="needs equinox"))


def torch_layer(name, *arguments, **options):
    return torch_net(getattr(pytest.importorskip("torch", reason="needs PyTorch").nn, name)(*arguments, **options))


def nnx_layer(name, *arguments):
    nnx = pytest.importorskip("flax.nnx", reason="needs flax")
    return nnx_net(getattr(nnx, name)(*arguments, rngs=nnx.Rngs(0)))


def linen_layer(name, **options):
    return linen_net(getattr(pytest.importorskip("flax.linen", reason="needs flax"), name)(**options))


WRONG = {
    "shape": (lambda: (init, lambda w, x: apply(w, x)[:, :3]), r"output has shape \(2, 3\).*\[B, classes\] = \(2, 10\)"),
    "shape, torch": (lambda: torch_layer("Linear", FEATURES, FEATURES)[:2], r"output has shape \(2, 64\)"),
    "nan": (lambda: (lambda *a: init(*a) * jnp.nan, apply), "init puts NaN or infinite"),
    "integers": (lambda: (lambda *a: {"w": jnp.zeros(3), "n": jnp.arange(3)}, apply), r"\['n'\] is int32.*only floats"),
    "integers, equinox": (lambda: eqx_module(lambda e: e.nn.Lambda(jnp.arange(3).__add__)), "no parameters"),
    "no parameters": (lambda: (lambda *a: {}, apply), "no parameters to learn"),
    "init fails": (lambda: (lambda key, shape, classes: 1 / 0, apply), "its init fails.*ZeroDivisionError"),
    "apply fails": (lambda: (init, lambda w, x: x @ w), r"it fails on samples of shape \(8, 8\)"),
    "loss": (lambda: FunctionModel(init=init, apply=apply, loss=lambda o, y: o.mean()), r"its loss has shape \(\).*each sample"),
    "score": (
        lambda: FunctionModel(init=init, apply=lambda w, x: apply(w, x)[:, 0], loss=lambda o, y: (o - y) ** 2),
        "brings a loss and a score of its own",
    ),
    "kind": (lambda: 3.5, "float cannot be made a model"),
    "builder": (lambda: lambda width: (init, apply), "asks for 'width'"),
    "BatchNorm, equinox": (
        lambda: eqx_module(lambda e: e.nn.Sequential([e.nn.BatchNorm(8, "batch", mode="batch")])), "use GroupNorm",
    ),
    "Dropout, equinox": (lambda: eqx_module(lambda e: e.nn.Sequential([e.nn.Dropout(0.5)])), "Dropout.*leave it out"),
    "BatchNorm, linen": (lambda: linen_layer("BatchNorm", use_running_average=False), "use GroupNorm"),
    "Dropout, linen": (lambda: linen_layer("Dropout", rate=0.5, deterministic=False), "Dropout.*leave it out"),
    "BatchNorm, nnx": (lambda: nnx_layer("BatchNorm", FEATURES), "use GroupNorm"),
    "Dropout, nnx": (lambda: nnx_layer("Dropout", 0.5), "Dropout.*leave it out"),
    "BatchNorm, torch": (lambda: torch_layer("BatchNorm1d", FEATURES), "BatchNorm1d.*use GroupNorm"),
    "Dropout, torch": (lambda: torch_layer("Dropout", 0.5), "Dropout.*leave it out"),
    "lazy, torch": (lambda: torch_layer("LazyLinear", FEATURES), "LazyLinear has no parameters yet"),
    "float64, torch": (lambda: torch_net().double(), "torch.float64"),
    "from a file": (lambda: "torch", "was given in Python"),
    "no module": (lambda: "not_there_at_all:build", "needs not_there_at_all, which is not installed"),
    "no attribute": (lambda: "math:build", "no 'build' in math"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.filterwarnings("ignore:Lazy modules:UserWarning")
def test_mistakes_get_one_sentence(mistake):
    make, sentence = WRONG[mistake]
    model = make()
    with pytest.raises(UserError) as refused:
        paota.run(table(model))
    assert re.search(sentence, str(refused.value)), str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_torch(tmp_path, monkeypatch):
    (tmp_path / "needs_torch.py").write_text("import torch\n\ndef build(): ...\n")
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(UserError, match=r"needs torch, which is not installed: pip install 'paota\[torch\]'"):
        fitted(as_model_by_name(tmp_path, "needs_torch:build"), (8, 8), 10)


def as_model_by_name(folder, name):
    return paota.Experiment.from_dict({"model": {"name": name}}, base=folder).model


def test_an_optimiser_that_torch_does_not_know():
    from dataclasses import dataclass

    @dataclass(frozen=True, kw_only=True)
    class Own:
        def transformation(self):
            raise AssertionError("not for PyTorch")

    paota.register("optimiser", "test-own", Own)
    with pytest.raises(UserError, match="'test-own' is not known to PyTorch models"):
        paota.run(table(torch_net(), training={"optimiser": "test-own"}))


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
    with pytest.raises(UserError, match="must bring a loss and a score"):
        paota.run(table({"name": "mlp"}, data=plane))
    model = as_model((init, apply), loss=lambda o, y: (o[:, 0] - y) ** 2, score=lambda o, y: o[:, 0] < y)
    with pytest.raises(UserError, match="plane has targets instead: choose 'iid'"):
        paota.run(table(model, data={**plane, "partition": "dirichlet"}))
    with pytest.raises(UserError, match="y_train holds NaN or infinite targets"):
        paota.Dataset.from_arrays(
            name="bad", x_train=[[0.0]], y_train=[np.inf], x_test=[[0.0]], y_test=[0], targets=True
        )
