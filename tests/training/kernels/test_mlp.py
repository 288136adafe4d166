"""The fused kernel against the generic path: same numbers to rounding, same bits whatever the company."""

import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from paota import simulate
from paota.base.settings import as_tree, defaults, parse
from paota.models.mlp import Mlp, Softmax
from paota.training.kernels import build, mlp
from paota.training.learner import GenericLearner, TrainingInputs, choose
from paota.training.settings import Training

pytestmark = pytest.mark.skipif(
    mlp.unsuitable(Mlp(), np.zeros((1, 4), np.uint8), 2) is not None, reason="no kernel can be built here"
)

PLAIN = as_tree(defaults(Training))

# (shape of an image, hidden widths, classes): below, at and beyond the 16 lanes of a vector; several tiles; one layer
# only; images of whole and of broken blocks of 4 x 4, in colour, and of rows that blocks cannot be cut from
NETWORKS = [
    (64, (10, 10), 10), (33, (17, 3), 20), (64, (70, 130), 10), (20, (), 7), ((8, 12), (16,), 16), ((7, 4, 3), (10,), 4),
    ((5, 7), (1,), 33),
]  # fmt: skip


class Case:
    def __init__(self, shape, hidden, classes, *, density=0.3, devices=6, steps=3, batch=5, seed=0, floats=False):
        rng = np.random.default_rng(seed)
        shape = shape if isinstance(shape, tuple) else (shape,)
        self.x = (rng.integers(1, 256, (50, *shape)) * (rng.random((50, *shape)) < density)).astype(np.uint8)
        self.x[0] = 0  # a black image: its row holds nothing
        if floats:
            self.x = self.x.astype(np.float32) / 100 - 0.5 * (self.x > 0)  # of both signs, and zeros
        self.y = rng.integers(0, classes, 50).astype(np.int32)
        self.weight = rng.random(50).astype(np.float32)
        model = Mlp(hidden=hidden) if hidden else Softmax()
        params = [model.init(jax.random.key(s), shape, classes) for s in range(3)]
        noise = 0.1 * rng.normal(size=(3, ravel_pytree(params[0])[0].size))
        self.ring = jnp.stack([ravel_pytree(p)[0] for p in params]) + jnp.asarray(noise, jnp.float32)
        self.slot = jnp.asarray(rng.integers(0, 3, devices), jnp.int32)
        self.ready = jnp.ones(devices, bool)
        self.sample = jnp.asarray(rng.integers(0, 50, (devices, steps, batch)), jnp.int32)
        self.fused = mlp.FusedMlp(mlp.widths_of(model, shape, classes))
        self.generic = GenericLearner(model, shape, classes)

    def train(self, learner, **changes):
        orders = TrainingInputs(self.slot, self.ready, self.sample, None, jnp.float32(0.2))._replace(**changes)
        x = jax.tree.map(jnp.asarray, learner.encode(self.x))
        return jax.jit(learner.train)(PLAIN, orders, self.ring, x, jnp.asarray(self.y))

    def evaluate(self, learner, first=0, count=50):
        x = jax.tree.map(jnp.asarray, learner.encode(self.x))
        evaluate = jax.jit(learner.evaluate, static_argnames="count")
        samples = (x, jnp.asarray(self.y), jnp.asarray(self.weight))
        sums = evaluate(self.ring[1], samples, first, count=count)
        return np.concatenate([np.ravel(part) for part in sums])  # score, loss, right answers by label


def check_against_the_generic_path(case):
    for ours, theirs in zip(case.train(case.fused), case.train(case.generic), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(case.evaluate(case.fused), case.evaluate(case.generic), rtol=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_agrees_with_the_generic_path(network):
    check_against_the_generic_path(Case(*network))


@pytest.mark.parametrize("network", [NETWORKS[2], NETWORKS[5]], ids=str)
def test_floats_are_taken_as_they_are(network):
    check_against_the_generic_path(Case(*network, floats=True))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the flags are those of x86 processors")
@pytest.mark.parametrize(
    "flag",
    [pytest.param("-mno-avx512f", id="8 lanes"), pytest.param("-mno-avx", id="4 lanes")],
)
@pytest.mark.slow
def test_agrees_on_older_processors(flag, tmp_path):
    """The same source, compiled with narrower vectors. In a separate process: JAX knows one kernel of a name."""
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\nexec {build.find_compiler()} "$@" {flag}\n')
    compiler.chmod(0o755)
    check = "from test_mlp_kernel import *\nfor n in NETWORKS[1], NETWORKS[5]: test_agrees_with_the_generic_path(n)"
    environment = os.environ | {"CXX": str(compiler), "PAOTA_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", check], check=True, cwd=Path(__file__).parent, env=environment)
    assert len(list((tmp_path / "cache" / "kernels").glob("*.so"))) == 1


@pytest.mark.parametrize("shape", [(64,), (8, 12), (6, 8), (7, 4, 3), (5, 7), (3,)])
def test_blocks_hold_every_pixel_once_and_no_black_block(shape):
    x = np.random.default_rng(0).integers(0, 256, (9, *shape)).astype(np.uint8)
    x[x < 200] = 0
    rows = mlp.block_rows(x)
    place = (rows.quad[:, None] + np.arange(4)).reshape(-1, mlp.BLOCK)
    inside = np.repeat(rows.quad >= 0, 4).reshape(-1, mlp.BLOCK) & (place < x[0].size)
    assert sorted(place[inside]) == list(range(x[0].size))
    back = np.zeros((9, x[0].size), np.uint8)
    value = rows.value.reshape(-1, mlp.BLOCK)
    assert value.any(axis=1).all()
    for i in range(9):
        for at in range(rows.start[i], rows.start[i + 1]):
            block = rows.block[at]
            back[i, place[block][inside[block]]] = value[at][inside[block]]
            assert not value[at][~inside[block]].any()
    np.testing.assert_array_equal(back, x.reshape(9, -1))


def test_a_model_that_is_not_finite_stays_so():
    case = Case(64, (10, 10), 10)
    case.ring = case.ring.at[:, 3].set(jnp.nan)
    assert np.isnan(case.train(case.fused).loss).all()
    assert np.isnan(case.evaluate(case.fused)[1])


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (1, 70), (9, 2)])
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_any_number_of_steps_and_of_lit_pixels(steps, batch, density):
    case = Case(30, (12,), 4, steps=steps, batch=batch, density=density)
    ours, theirs = case.train(case.fused), case.train(case.generic)
    np.testing.assert_allclose(ours.local_model, theirs.local_model, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-4)


def test_one_step_by_hand():
    """Softmax regression on one pixel of 255 (x = 1): from zeros, W -= eta (p - onehot) x with p = 1/2."""
    learner = mlp.FusedMlp((1, 2))
    x = jax.tree.map(jnp.asarray, learner.encode(np.array([[255]], np.uint8)))
    here = jnp.zeros(1, jnp.int32)
    orders = TrainingInputs(here, here == 0, jnp.zeros((1, 1, 1), jnp.int32), None, jnp.float32(0.5))
    trained = jax.jit(learner.train)(PLAIN, orders, jnp.zeros((1, 4)), x, jnp.array([1], jnp.int32))
    np.testing.assert_allclose(trained.local_model, [[-0.25, 0.25, -0.25, 0.25]], rtol=1e-6)  # biases, then weights
    np.testing.assert_allclose(trained.loss, np.log(2), rtol=1e-6)


def test_devices_that_are_not_ready_keep_their_start_and_change_nobody():
    case = Case(64, (10, 10), 10)
    everyone = case.train(case.fused)
    ready = jnp.array([True, False, True, True, False, True])
    some = case.train(case.fused, ready=ready)
    np.testing.assert_array_equal(some.local_model[ready], everyone.local_model[ready])
    np.testing.assert_array_equal(some.local_model[~ready], case.ring[case.slot[~ready]])
    assert not some.update[~ready].any()
    assert not some.loss[~ready].any()


def test_bits_depend_neither_on_order_nor_on_company():
    case = Case(64, (10, 10), 10, devices=40)
    first = case.train(case.fused)
    again = case.train(case.fused)
    order = np.random.default_rng(0).permutation(40)
    mixed = case.train(case.fused, slot=case.slot[order], sample=case.sample[order])
    alone = case.train(case.fused, slot=case.slot[:1], sample=case.sample[:1], ready=case.ready[:1])
    for field in ("local_model", "update", "loss"):
        whole = np.asarray(getattr(first, field))
        assert whole.tobytes() == np.asarray(getattr(again, field)).tobytes()
        assert whole[order].tobytes() == np.asarray(getattr(mixed, field)).tobytes()
        assert whole[:1].tobytes() == np.asarray(getattr(alone, field)).tobytes()


def test_parts_of_a_judgement_add_up():
    case = Case(64, (10, 10), 10)
    parts = case.evaluate(case.fused, 0, 20) + case.evaluate(
        case.fused, 20, 40
    )  # the second range ends beyond the samples
    np.testing.assert_allclose(parts, case.evaluate(case.fused), rtol=1e-6)
    generic = case.evaluate(case.generic, 0, 20) + case.evaluate(case.generic, 20, 40)
    np.testing.assert_allclose(generic, case.evaluate(case.fused), rtol=1e-5)


def test_equal_logits_count_as_argmax_counts_them():
    learner = mlp.FusedMlp((1, 3))
    x = jax.tree.map(jnp.asarray, learner.encode(np.zeros((3, 1), np.uint8)))
    flat = jnp.zeros(6)  # all logits equal: argmax is class 0
    accuracy, loss, by_label = jax.jit(learner.evaluate, static_argnames="count")(
        flat, (x, jnp.array([0, 1, 2], jnp.int32), jnp.full(3, 1 / 3)), 0, count=3
    )
    np.testing.assert_allclose([accuracy, loss], [1 / 3, np.log(3)], rtol=1e-6)
    assert by_label.tolist() == [1, 0, 0]


def test_large_logits_stay_finite():
    case = Case(64, (10, 10), 10)
    case.ring = case.ring * 1e4
    np.testing.assert_allclose(case.evaluate(case.fused), case.evaluate(case.generic), rtol=1e-4)


def test_who_gets_the_kernel(monkeypatch):
    bytes_, floats, doubles = (np.zeros((2, 8), dtype) for dtype in (np.uint8, np.float32, np.float64))
    assert choose(Mlp(), bytes_, 3, PLAIN)[1] == choose(Mlp(), floats, 3, PLAIN)[1] == "fused kernel"
    assert "float64" in choose(Mlp(), doubles, 3, PLAIN)[1]
    assert "too large" in choose(Mlp(hidden=(4096, 4096)), bytes_, 3, PLAIN)[1]
    for beyond in ({"optimiser": "momentum"}, {"schedule": "cosine"}, {"proximal": 0.1}, {"epochs": 1}):
        training = parse(Training, beyond, "training")
        assert f"no kernel for training.{next(iter(beyond))}" in choose(Mlp(), bytes_, 3, training)[1]
    monkeypatch.setenv("PAOTA_LEARNER", "generic")
    assert choose(Mlp(), bytes_, 3, PLAIN)[1].startswith("generic")


def test_without_a_compiler_the_generic_path_runs_and_one_line_says_so(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("PAOTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    build.outcome.cache_clear()
    try:
        table = {
            "rounds": 1,
            "data": {"dataset": "synthetic", "devices": 3, "sizes": [20]},
            "algorithms": [{"name": "local-sgd"}],
        }
        result = simulate.run(table)
        assert result.info["learner"] == "generic (no C++ compiler found)"
        (record,) = caplog.records
        for part in ("no C++ compiler found", "several times slower", "install g++"):
            assert part in record.getMessage()
    finally:
        build.outcome.cache_clear()


def test_a_compiler_that_fails_is_told(monkeypatch, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'error: not today' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("PAOTA_CACHE_DIR", str(tmp_path / "cache"))
    build.outcome.cache_clear()
    try:
        assert "not today" in str(mlp.unsuitable(Mlp(), np.zeros((1, 4), np.uint8), 2))
        assert not list((tmp_path / "cache" / "kernels").iterdir())  # nothing half-written
    finally:
        build.outcome.cache_clear()


@pytest.mark.parametrize("bytes_left", [0, 5000])
def test_a_damaged_library_is_compiled_again(monkeypatch, tmp_path, caplog, bytes_left):
    """Loaded as it is, a truncated one ends the process (SIGBUS), and an empty one changes the bits of a run."""

    def compile_(compiler, name, file, *flags):
        file.write_bytes(b"x" * 10_000)

    monkeypatch.setenv("PAOTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "build", compile_)
    (file, again) = (build._compiled("mlp") for _ in range(2))
    assert file == again
    file.write_bytes(b"x" * bytes_left)
    whole = build._compiled("mlp")
    assert whole.read_bytes() == b"x" * 10_000
    assert "damaged" in caplog.text
    assert len(list((tmp_path / "kernels").iterdir())) == 1


def test_of_many_that_need_it_one_builds_it(monkeypatch, tmp_path):
    """The processes of a sweep start like this on a new machine."""
    built = []

    def compile_(compiler, name, file, *flags):
        built.append(name)
        time.sleep(0.2)
        file.write_bytes(b"x")

    monkeypatch.setenv("PAOTA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(build, "build", compile_)
    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(build._compiled, ["mlp"] * 3))) == 1
    assert built == ["mlp"]


def test_a_compiler_that_hangs_is_given_up_once_and_leaves_no_slower_kernel(monkeypatch, tmp_path):
    """It is not asked again without `-march=native`: what came of that would be kept, and be slower for ever."""
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/log\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setenv("PAOTA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "TIMEOUT_S", 1)
    build.outcome.cache_clear()
    try:
        assert f"{slow} took more than 1 s" in str(mlp.unsuitable(Mlp(), np.zeros((1, 4), np.uint8), 2))
        assert (tmp_path / "log").read_text().split() == ["asked"] * len(build.PARTS)
    finally:
        build.outcome.cache_clear()


def test_a_wheel_brings_a_library_for_each_level_of_processors(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "SHIPPED", tmp_path)
    monkeypatch.setattr(build.platform, "machine", lambda: "x86_64")
    best, middle, least = build.LEVELS["x86_64"]
    monkeypatch.setattr(build, "_features", lambda: {"sse2"} | build.LEVELS["x86_64"][middle])
    assert build.shipped("mlp") is None
    for level in (best, middle, least):
        (tmp_path / f"mlp-{level}.so").touch()
    assert build.shipped("mlp") == tmp_path / f"mlp-{middle}.so"
    monkeypatch.setattr(build, "_features", set)
    assert build.shipped("mlp") == tmp_path / f"mlp-{least}.so"
