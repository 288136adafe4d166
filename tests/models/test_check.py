"""Models that cannot work get one sentence each."""

import re
import sys

import jax.numpy as jnp
import pytest
from helpers.nets import FEATURES, apply, init, linen_net, nnx_net, table, torch_net

import paota
from paota import UserError
from paota.models.base import FunctionModel
from paota.models.custom import fitted

pytestmark = pytest.mark.bare


def eqx_module(make):
    return make(pytest.importorskip("equinox", reason="needs equinox"))


def torch_layer(name, *arguments, **options):
    return torch_net(getattr(pytest.importorskip("torch", reason="needs PyTorch").nn, name)(*arguments, **options))


def nnx_layer(name, *arguments):
    nnx = pytest.importorskip("flax.nnx", reason="needs flax")
    return nnx_net(getattr(nnx, name)(*arguments, rngs=nnx.Rngs(0)))


def linen_layer(name, **options):
    return linen_net(getattr(pytest.importorskip("flax.linen", reason="needs flax"), name)(**options))


def dict_net():
    class Net(type(torch_net())):
        def forward(self, x):
            return {"logits": super().forward(x)}

    return Net(*torch_net())


def mean_loss_net():
    class Net(type(torch_net())):
        def forward(self, x):
            return self[1](self[0](x))

    net = Net(*torch_net())
    net.loss = pytest.importorskip("torch").nn.CrossEntropyLoss()
    return net


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
        "needs its own loss and score",
    ),
    "kind": (lambda: 3.5, "float cannot be used as a model"),
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
    "dictionary, torch": (dict_net, "`forward` must return one tensor, not dict"),
    "mean loss, torch": (mean_loss_net, r'its loss has shape \(\).*reduction="none"'),
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
    with pytest.raises(UserError, match=r"needs torch, which is not installed: pip install 'torch>=2.2'"):
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
