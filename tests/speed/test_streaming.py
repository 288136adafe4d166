"""Block by block must give what the whole matrix gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota import engine, simulate
from paota.engine.streaming import Memory, in_blocks
from paota.errors import UserError

ROWS, COLUMNS, BLOCK = 48, 31, 16
VECTOR = jnp.asarray(np.random.default_rng(1).normal(size=COLUMNS), jnp.float32)
SOME = jnp.arange(ROWS) % 3 > 0


def tall(seed):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(ROWS, COLUMNS)), jnp.float32)


def streamed(function, *matrices, block=BLOCK, **options):
    """(result, how often each block was asked for)"""
    asked = []

    def source(first):
        asked.append(first)
        return tuple(jax.lax.dynamic_slice_in_dim(m, first, block) for m in matrices)

    result = jax.jit(lambda: in_blocks(function, source, rows=ROWS, block=block, **options))()
    return result, len(asked) - 1  # once for the shapes


CASES = {
    "known weights": (1, lambda a: jnp.where(SOME, 0.5, 0.0) @ a),
    "norms": (1, lambda a: jnp.linalg.norm(a, axis=1)),
    "norms, kept as a column": (2, lambda a: (a / jnp.linalg.norm(a, axis=1, keepdims=True)).sum(axis=0)),
    "weights from norms": (2, lambda a: jax.nn.softmax(jnp.linalg.norm(a, axis=1)) @ a),
    "sorted norms": (1, lambda a: jnp.sort(jnp.sum(a**2, axis=1))),
    "products": (1, lambda a: a @ VECTOR),
    "row products": (1, lambda a: jnp.einsum("nd,nd->n", a, a + VECTOR)),
    "extremes over rows": (1, lambda a: (a.max(axis=0), a.min(axis=0), (a > 2).any(axis=0), (a > -9).all(axis=0))),
    "masks": (2, lambda a: jnp.where((jnp.isfinite(a).all(axis=1) & SOME)[:, None], a, 0.0).sum(axis=0)),
    "clipped": (1, lambda a: SOME @ jnp.clip(jnp.where(SOME[:, None], a, 7.0), -1.0, 1.0)),
    "nothing tall": (0, lambda a: VECTOR.sum() + jax.random.normal(jax.random.key(0), a.shape[1:])),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("block", [16, 48])
def test_same_as_whole(name, block):
    passes, function = CASES[name]
    matrix = tall(0)
    result, asked = streamed(function, matrix, block=block)
    assert asked <= max(passes, 0)  # no more passes than the chain of dependencies needs
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-6), result, function(matrix))


@pytest.mark.parametrize("kept_blocks", [1, 2, 3, 7])
def test_kept_blocks_come_back(kept_blocks):
    matrix = tall(0)
    memory = Memory(kept_blocks, lambda values: (values[0] * 2,), lambda first, kept: (kept[0] / 2,))
    function = CASES["weights from norms"][1]
    np.testing.assert_allclose(streamed(function, matrix, memory=memory)[0], function(matrix), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("used", [0, 1, 16, 17, 48])
@pytest.mark.parametrize("kept_blocks", [0, 2])
def test_rows_beyond_the_last_used_block_are_left_out(used, kept_blocks):
    matrix = tall(0)
    memory = Memory(kept_blocks, lambda values: values, lambda first, kept: kept)
    total, _ = streamed(lambda a: a.sum(axis=0), matrix, used=jnp.int32(used), memory=memory)
    np.testing.assert_allclose(total, matrix[: -(-used // BLOCK) * BLOCK].sum(axis=0), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    "function", [lambda a: a, lambda a: jnp.sort(a, axis=0)[0], lambda a: a.T @ jnp.cumsum(a, axis=0), lambda a: a[3]]
)
def test_what_needs_the_whole_is_refused(function):
    with pytest.raises(UserError, match="fewer devices an event"):
        streamed(function, tall(0))


ALGORITHMS = [
    {"name": "paota"},
    {"name": "paota", "label": "physical", "payload": "update", "power": {"cap": "physical"}},
    {"name": "local-sgd", "weighting": "samples"},
    {"name": "cotaf"},
    {"name": "cotaf", "label": "cotaf-fading", "fading": True},
]
EXPERIMENT = {
    "rounds": 6,
    "data": {"dataset": "synthetic", "devices": 40, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "evaluation": {"train_loss": "batches"},
    "algorithms": ALGORITHMS,
}


@pytest.mark.parametrize(
    ("learner", "held_rows"), [("auto", 0), ("auto", 16), pytest.param("generic", 0, marks=pytest.mark.slow)]
)
def test_a_simulation_in_blocks_is_the_same(learner, held_rows, monkeypatch):
    monkeypatch.setenv("PAOTA_LEARNER", learner)
    whole = simulate.run(EXPERIMENT)
    monkeypatch.setattr(engine, "HELD_BYTES", held_rows * 4 * whole.trajectories[0].model.size)
    monkeypatch.setattr(engine, "BLOCK_BYTES", 0)  # the smallest block there is: 16 devices
    engine._program.cache_clear()
    blocks = simulate.run(EXPERIMENT)
    engine._program.cache_clear()
    for a, b in zip(whole.trajectories, blocks.trajectories, strict=True):
        np.testing.assert_allclose(b.model, a.model, rtol=2e-4, atol=2e-5)
        for column in ("weight", "similarity", "transmit_w"):
            np.testing.assert_allclose(b.devices[column], a.devices[column], rtol=2e-3, atol=2e-5)
        np.testing.assert_allclose(b.metrics["train_loss"], a.metrics["train_loss"], rtol=2e-4)
