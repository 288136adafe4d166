"""Local training beyond plain SGD, step by step against NumPy; and what the engine promises holds for all of it."""

import itertools
import re
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota import Callback, engine, simulate
from paota.base.errors import Interrupted, UserError
from paota.base.registry import OPTIMISERS, SCHEDULES, SERVER_OPTIMISERS
from paota.base.settings import as_tree, fields, parse
from paota.experiment.experiment import Experiment, as_experiment
from paota.models.mlp import Softmax
from paota.results.checkpoint import Checkpoints
from paota.studies.bound import analyse
from paota.studies.sweep.sweep import sweep
from paota.training.learner import GenericLearner, TrainingInputs
from paota.training.settings import Training

CLASSES, INPUTS, SAMPLES, STEPS, BATCH = 3, 4, 30, 4, 5


def training_with(**changes):
    return as_tree(parse(Training, changes, "training"))


# The literal reading: softmax regression in float64, one device, one step after the other.


def gradient_by_hand(w, x, y):
    bias, weight = w[:CLASSES], w[CLASSES:].reshape(CLASSES, INPUTS)
    logits = x @ weight.T + bias
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(y)), y]).mean()
    error = (p - np.eye(CLASSES)[y]) / len(y)
    return loss, np.concatenate([error.sum(axis=0), (error.T @ x).ravel()])


def train_by_hand(start, x, y, batches, rate, *, optimiser="sgd", momentum=0.9, nesterov=False, beta1=0.9, beta2=0.999,
                  epsilon=1e-8, weight_decay=0.0, max_gradient_norm=np.inf, proximal=0.0):  # fmt: skip
    w, m, v, losses = start.copy(), 0.0, 0.0, []
    for t, batch in enumerate(batches, start=1):
        loss, g = gradient_by_hand(w, x[batch], y[batch])
        losses.append(loss)
        g = g + proximal * (w - start)
        g = g * min(1.0, max_gradient_norm / np.linalg.norm(g))
        g = g + weight_decay * w
        if optimiser == "sgd":
            u = g
        elif optimiser == "momentum":
            m = momentum * m + g
            u = g + momentum * m if nesterov else m
        else:
            m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
            u = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon)
        w = w - rate * u
    return w, np.mean(losses)


class Case:
    """Five devices that start from two different models, with mini-batches of their own."""

    def __init__(self):
        rng = np.random.default_rng(7)
        self.x = rng.normal(size=(SAMPLES, INPUTS))
        self.y = rng.integers(0, CLASSES, SAMPLES)
        self.ring = rng.normal(size=(2, CLASSES * (1 + INPUTS)))
        self.slot = np.array([0, 1, 1, 0, 1])
        self.sample = rng.integers(0, SAMPLES, (5, STEPS, BATCH))

    def train(self, training, steps=None, rate=0.3):
        learner = GenericLearner(Softmax(), (INPUTS,), CLASSES)
        orders = TrainingInputs(
            jnp.asarray(self.slot), jnp.ones(5, bool), jnp.asarray(self.sample),
            None if steps is None else jnp.asarray(steps), jnp.asarray(rate, float),
        )  # fmt: skip
        return jax.jit(learner.train)(
            training, orders, jnp.asarray(self.ring, float), jnp.asarray(self.x, float), jnp.asarray(self.y)
        )

    def by_hand(self, steps=None, rate=0.3, **options):
        steps, rates = [STEPS] * 5 if steps is None else steps, np.broadcast_to(rate, 5)
        made = [
            train_by_hand(self.ring[self.slot[k]], self.x, self.y, self.sample[k, : steps[k]], rates[k], **options)
            for k in range(5)
        ]
        return np.array([w for w, _ in made]), np.array([loss for _, loss in made])

    def assert_agree(self, options, **how):
        with jax.enable_x64(True):  # only rounding is left: an error of method could not hide
            trained = self.train(training_with(**options), **how)
        model, loss = self.by_hand(**how, **options)
        np.testing.assert_allclose(trained.local_model, model, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(trained.update, model - self.ring[self.slot], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(trained.loss, loss, rtol=1e-10)
        return trained


OPTIONS = {
    "sgd": {},
    "momentum": {"optimiser": "momentum", "momentum": 0.8},
    "nesterov": {"optimiser": "momentum", "momentum": 0.8, "nesterov": True},
    "adam": {"optimiser": "adam", "beta1": 0.7, "beta2": 0.95, "epsilon": 1e-3},
    "weight decay": {"weight_decay": 0.2},
    "clipping": {"max_gradient_norm": 0.25},
    "proximal": {"proximal": 0.5},
    "all at once": {
        "optimiser": "momentum", "momentum": 0.5, "weight_decay": 0.1, "max_gradient_norm": 0.3, "proximal": 0.7
    },
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_by_hand(options):
    case = Case()
    trained = case.assert_agree(options)
    plain, _ = case.by_hand()
    assert (options == {}) == np.allclose(trained.local_model, plain, rtol=1e-6)  # and every option matters


@pytest.mark.parametrize("name", ["sgd", "adam", "all at once"])
def test_devices_with_steps_and_rates_of_their_own(name):
    Case().assert_agree(OPTIONS[name], steps=[1, 4, 2, 3, 4], rate=[0.1, 0.2, 0.3, 0.4, 0.5])


FACTORS = [
    ({}, lambda r: 1.0),
    ({"schedule": "cosine", "decay_rounds": 40, "final_factor": 0.1},
     lambda r: 0.1 + 0.9 * (1 + np.cos(np.pi * min(r / 40, 1))) / 2),
    ({"schedule": "exponential", "decay_factor": 0.5, "decay_rounds": 10}, lambda r: 0.5 ** (r / 10)),
    ({"schedule": "step", "decay_factor": 0.1, "decay_rounds": 30}, lambda r: 0.1 ** (r // 30)),
]  # fmt: skip


@pytest.mark.parametrize(("options", "factor"), FACTORS, ids=[str(o) for o, _ in FACTORS])
def test_every_schedule_by_hand(options, factor):
    versions = [0, 1, 29, 30, 40, 60, 1000]
    rate = training_with(learning_rate=0.2, **options).rate(jnp.array(versions))
    np.testing.assert_allclose(np.broadcast_to(rate, 7), [0.2 * factor(r) for r in versions], rtol=1e-5, atol=1e-9)


# Through the whole simulator.

SMALL = {
    "rounds": 7,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [30, 60]},
    "model": {"name": "softmax"},
    "training": {"local_steps": 2, "batch_size": 8},
    "timing": {"period_s": 6.0},
    "algorithms": [{"name": "paota", "payload": "update"}],
}
EVERYTHING = {
    "optimiser": "momentum", "momentum": 0.5, "schedule": "cosine", "decay_rounds": 20, "weight_decay": 0.01,
    "max_gradient_norm": 2.0, "proximal": 0.1, "epochs": 1,
}  # fmt: skip
RICH = {
    "name": "paota", "label": "rich", "payload": "update", "training": EVERYTHING, "server": {"optimiser": "momentum"}
}  # fmt: skip


def small(**changes):
    return {**SMALL, **changes}


def models(result):
    return {(t.label, t.seed): t.model.tobytes() for t in result.trajectories}


def test_company_chunks_and_seeds_change_no_bit():
    """One trains with the kernel (where there is one), the other cannot: each is what it is alone."""
    plain = {"name": "paota", "label": "plain"}
    together = simulate.run(small(algorithms=[plain, RICH]), seeds=2, events_per_call=3)
    assert "rich: generic (no kernel for training.optimiser = 'momentum')" in together.info["learner"]
    assert {t.diverged_round for t in together.trajectories} == {None}
    for one in (plain, RICH):
        alone = simulate.run(small(algorithms=[one]))
        assert models(alone).items() <= models(together).items()


def test_all_floats_share_one_compilation():
    table = small(rounds=2, algorithms=[{**RICH, "training": {**EVERYTHING, "batch_size": 7}}])
    changed = as_experiment(table).override(
        {
            "training.learning_rate": 0.05,
            **{f"algorithms.rich.training.{key}": EVERYTHING[key] / 2 for key in EVERYTHING if key not in
               ("optimiser", "schedule", "epochs")},
            "algorithms.rich.server.momentum": 0.3,
            "algorithms.rich.server.learning_rate": 0.7,
        }
    )  # fmt: skip
    engine.forget_programs()
    one, other = simulate.run(table), simulate.run(changed)
    assert engine.known_programs() == 1
    assert models(one) != models(other)


def test_options_are_swept_by_their_names():
    table = small(rounds=2, training={"optimiser": "momentum", "local_steps": 2, "batch_size": 8})
    made = sweep(table, over={"training.momentum": [0.0, 0.9]}, best="final_loss", jobs=1)
    slow, fast = made.table["final_loss"]
    assert slow != fast


def test_the_rate_is_that_of_the_version_a_device_started_from():
    """After the first round the rate is almost zero: only devices that started from w^0 move the model."""
    training = {"schedule": "step", "decay_rounds": 1, "decay_factor": 1e-30, "local_steps": 1, "batch_size": 4}
    table = small(training=training, air={"n0_dbm_per_hz": -300.0}, algorithms=[{"name": "fedbuff", "buffer_size": 1}])
    seen = []

    class Keeper(Callback):
        models = True

        def round(self, round):
            seen.append(round.model)

    plan = simulate.prepare(Experiment.from_dict(table | {"rounds": 12}))
    result = simulate.execute(plan, callbacks=[Keeper])
    moved = [bool(np.any(a != b)) for a, b in itertools.pairwise(seen)]
    assert moved == (result.trajectories[0].devices["version"] == 0).tolist()
    assert 1 < sum(moved) < 12


# The server's optimiser.


def server_by_hand(name, movements, *, learning_rate, momentum=0.0, beta1=0.0, beta2=0.0, tau=0.0):
    m, v, w = 0.0, tau**2, 0.0
    for delta in movements:
        if name == "sgd":
            w = w + learning_rate * delta
            continue
        if name == "momentum":
            m = momentum * m + delta
            w = w + learning_rate * m
            continue
        m = beta1 * m + (1 - beta1) * delta
        v = beta2 * v + (1 - beta2) * delta**2 if name == "adam" else v - (1 - beta2) * delta**2 * np.sign(v - delta**2)
        w = w + learning_rate * m / (np.sqrt(v) + tau)
    return w


ADAPTIVE = {"learning_rate": 0.1, "beta1": 0.8, "beta2": 0.9, "tau": 0.05}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sgd", {"learning_rate": 1.5}),
        ("momentum", {"learning_rate": 0.5, "momentum": 0.7}),
        ("adam", ADAPTIVE),
        ("yogi", ADAPTIVE),
    ],
)
def test_every_server_optimiser_by_hand(name, options):
    """Three rounds, and between them one in which no device sends: it must leave no trace."""
    table = small(server={"optimiser": name, **options})
    rule = engine.RoundConfig.of(Experiment.from_dict(table).algorithms[0])
    movements = np.random.default_rng(1).normal(size=(3, 6)) * [1, 0.1, 0.01, 1, 0.1, 0.01]
    w = jnp.zeros(6)
    memory = rule.server.optimiser.init(w)
    for delta, anyone in zip(movements[[0, 1, 0, 2]], (True, True, False, True), strict=True):
        proposed = w + jnp.asarray(delta, float) if anyone else w
        weight = jnp.array([0.5, 0.5]) if anyone else jnp.zeros(2)
        served = engine.RoundOutcome(proposed, (), weight, *(jnp.zeros(2),) * 3, jnp.zeros(()), jnp.zeros(2))
        served, memory = engine.apply_server_optimiser(rule.server, w, served, memory)
        w = served.model
    np.testing.assert_allclose(w, server_by_hand(name, movements, **options), rtol=2e-5, atol=1e-6)


def test_a_server_step_in_a_run():
    """After one round FedAvgM with learning rate 1/2 has gone half the way of the rule."""
    start, whole, half = (
        simulate.run(small(rounds=1, server=server, timing={"period_s": 16.0}, training=training)).trajectories[0].model
        for server, training in (
            ({}, {"learning_rate": 1e-30}), ({}, {}), ({"optimiser": "momentum", "learning_rate": 0.5}, {})
        )
    )  # fmt: skip
    assert np.abs(whole - start).max() > 1e-3
    np.testing.assert_allclose(half - start, (whole - start) / 2, rtol=1e-5, atol=1e-7)  # float32 weights below 1


def test_resuming_with_server_memory_gives_the_same_bits(tmp_path):
    plan = simulate.prepare(Experiment.from_dict(small(server={"optimiser": "yogi"})))
    whole = simulate.execute(plan, events_per_call=2)
    checkpoints = Checkpoints(tmp_path / "c", simulate.identity(plan), every_s=0)
    with pytest.raises(Interrupted):
        simulate.execute(  # with a callback, whether to stop is looked at between any two calls
            plan,
            events_per_call=2,
            checkpoints=checkpoints,
            stop=checkpoints.folder.exists,
            callbacks=[lambda told: None],
        )
    assert models(simulate.execute(plan, events_per_call=2, checkpoints=checkpoints)) == models(whole)


# What is refused, and how settings replace one another.


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"training": {"optimiser": "momentun"}}, "did you mean 'momentum'"),
        ({"training": {"momentum": 0.5}}, "unknown setting 'training.momentum'"),
        ({"training": {"optimiser": "momentum", "momentum": 1.5}}, "training.momentum must be at most 1"),
        ({"training": {"optimiser": "adam", "epsilon": 0}}, "training.epsilon must be greater than 0"),
        ({"training": {"schedule": "cosine", "decay_factor": 0.5}}, "unknown setting 'training.decay_factor'"),
        ({"training": {"schedule": "step", "decay_rounds": 0}}, "training.decay_rounds must be greater than 0"),
        ({"training": {"weight_decay": -1}}, "training.weight_decay must be at least 0"),
        ({"training": {"max_gradient_norm": 0}}, "training.max_gradient_norm must be greater than 0"),
        ({"training": {"proximal": "much"}}, "training.proximal must be a number"),
        ({"training": {"epochs": 0}}, "training.epochs must be at least 1"),
        ({"training": {"epochs": 2, "local_steps": 5}}, "give training.local_steps or training.epochs, not both"),
        ({"training": {"epochs": 2, "least_steps": 1}}, "give training.epochs or training.least_steps, not both"),
        ({"training": {"least_steps": 6}}, "training.least_steps must be at most training.local_steps = 5, not 6"),
        ({"server": {"optimiser": "yogy"}}, "did you mean 'yogi'"),
        ({"server": {"optimiser": "adam", "tau": 0}}, "server.tau must be greater than 0"),
    ],
    ids=str,
)
def test_mistakes_get_a_sentence(table, says):
    with pytest.raises(UserError, match=says):
        Experiment.from_dict(table)


@pytest.mark.parametrize("name", ["paota", "air-fedga"])
def test_a_server_optimiser_is_for_updates(name):
    with pytest.raises(UserError, match=f"needs an algorithm that sends updates, and '{name}' sends models"):
        simulate.prepare(Experiment.from_dict(small(algorithms=[{"name": name}], server={"optimiser": "adam"})))


def test_a_synchronous_mean_of_models_may_be_optimised_too():
    """No model is stale: the mean model is w^r plus the mean update."""
    simulate.prepare(Experiment.from_dict(small(algorithms=[{"name": "local-sgd"}], server={"optimiser": "sgd"})))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"training": {"optimiser": "adam"}}, "training.optimiser = 'adam'"),
        ({"training": {"schedule": "step"}}, "training.schedule = 'step'"),
        ({"training": {"least_steps": 2}}, "training.least_steps"),
        ({"server": {"optimiser": "momentum"}}, "server.optimiser"),
    ],
)
def test_the_theorem_is_about_plain_sgd(table, says):
    with pytest.raises(UserError, match=f"it says nothing about 'paota' with {says}"):
        analyse(Experiment.from_dict(small(**table)))


def test_epochs_replace_local_steps_and_back():
    paper = Experiment.preset("paper").override({"training.epochs": 2})
    assert paper.training.epochs == 2
    assert "local_steps" not in paper.to_dict()["training"]
    assert Experiment.from_dict(paper.to_dict()) == paper
    back = paper.override({"training.local_steps": 3})
    assert (back.training.epochs, back.training.local_steps) == (None, 3)
    table = small(training={"local_steps": 2}, algorithms=[{"name": "paota", "training": {"epochs": 1}}])
    assert Experiment.from_dict(table).algorithms[0].training.epochs == 1


# The documentation.

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_the_pages_examples_are_valid_also_with_what_is_commented_out(block):
    simulate.prepare(Experiment.from_dict({**tomllib.loads(block), "rounds": 2}))
    for line in re.findall(r"^# (\w+ = .*)$", block, re.MULTILINE):
        section = block.partition("]")[0] + "]\n"
        Experiment.from_dict(tomllib.loads(section + line))


def test_the_pages_own_optimiser_runs():
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "training.md", "exec"), {"__name__": "example"})
    assert OPTIMISERS["lion"]().transformation().update is not None


def test_the_page_names_every_option():
    for registry in (OPTIMISERS, SCHEDULES, SERVER_OPTIMISERS):
        for name in [name for name in registry if registry[name].__module__.startswith("paota.")]:
            assert f"`{name}`" in PAGE or f'"{name}"' in PAGE
            for option in fields(registry[name]):
                assert option.name in PAGE
