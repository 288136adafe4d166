"""How much a local training computes: samples that it goes through, and operations a sample."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError
from ..base.rng import pick_draws
from ..data.shards import Shards
from ..models.base import Model, is_torch, loss_of
from ..models.check import label_type
from .batches import draw_steps
from .convolution import as_jax_lowers
from .settings import Training

COUNTED_BATCH = 16  # samples that operations are counted for; what a step does once is shared out over them
Ints = NDArray[np.int64]


def samples_of(training: Training, shards: Shards, seed: int) -> Callable[[Ints, Ints], NDArray[np.float64]]:
    """A function of (device [n], training [n]) that gives the samples which these trainings go through, [n].

    Args:
        training: steps, or passes over the device's own data, and the batch.
        shards: how much data each device holds.
        seed: of the run.
    """
    batch = training.batch_size
    if training.epochs is not None:
        each = training.epochs * batch * -(-shards.sizes.astype(float) // batch)
        return lambda device, number: each[device]
    if training.least_steps is None:
        return lambda device, number: np.full(len(device), float(training.local_steps * batch))
    everyone, root = jnp.arange(shards.num_devices), jax.random.key(seed)
    draw = jax.jit(lambda number: draw_steps(training, root, everyone, jnp.full_like(everyone, number)))
    rows: dict[int, NDArray[Any]] = {}

    def row(number: int) -> NDArray[Any]:
        if number not in rows:
            rows[number] = batch * np.asarray(draw(np.int32(number)))
        return rows[number]

    return lambda device, number: pick_draws(device, number, row)


@functools.lru_cache(maxsize=64)
def flop_per_sample(model: Model, input_shape: tuple[int, ...], num_classes: int) -> float:
    """Floating-point operations of a forward and backward pass for one sample, as JAX's cost analysis counts them.

    A model that is computed outside JAX cannot be counted: `timing.flop_per_sample` has to say it.
    """
    if is_torch(model):
        raise UserError("a model that is computed outside JAX cannot be counted: give timing.flop_per_sample")

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return loss_of(model)(model.apply(params, x), y).mean()

    params = jax.eval_shape(lambda: model.init(jax.random.key(0), input_shape, num_classes))
    x = jax.ShapeDtypeStruct((COUNTED_BATCH, *input_shape), jnp.float32)
    y = jax.ShapeDtypeStruct((COUNTED_BATCH,), label_type(num_classes))
    with as_jax_lowers():
        cost = jax.jit(jax.grad(loss)).lower(params, x, y).cost_analysis()
    counted = float((cost or {}).get("flops", 0.0)) / COUNTED_BATCH
    if not counted > 0:
        raise UserError("JAX does not say what the model computes: give timing.flop_per_sample")
    return counted
