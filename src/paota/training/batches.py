"""Which samples a device trains on, and for how many steps. Every draw is addressed by (seed, device, training)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt32

from ..base.rng import Purpose, draw_key
from .settings import Training


class Batches(NamedTuple):
    """For n devices, M steps at most, B samples a step."""

    position: Int[Array, "n M B"]  # inside the device's own data
    steps: Int[Array, " n"] | None  # that each device makes; None: all M


def draw_batches(
    training: Training,
    seed: jax.Array,
    device: Int[Array, " n"],
    number: Int[Array, " n"],
    size: Int[Array, " n"],
    most_samples: int | None = None,
) -> Batches:
    """For the `number`-th local training of devices that hold `size` samples; `seed` is the key of the run.

    `most_samples`: what `size` never exceeds. Only `training.epochs` needs it; its value changes no draw.
    """
    if training.epochs is not None:
        if most_samples is None:
            raise ValueError("training.epochs needs most_samples")
        return _epochs(training.epochs, training.batch_size, seed, device, number, size, most_samples)
    shape = (training.local_steps, training.batch_size)
    position = jax.vmap(lambda k, i, high: jax.random.randint(draw_key(seed, Purpose.BATCH, k, i), shape, 0, high))(
        device, number, size
    )
    return Batches(position, None if training.least_steps is None else draw_steps(training, seed, device, number))


def draw_steps(
    training: Training, seed: jax.Array, device: Int[Array, " n"], number: Int[Array, " n"]
) -> Int[Array, " n"]:
    """How many steps devices make in their `number`-th local training, where `training.least_steps` lets that vary."""
    least, most = training.least_steps or training.local_steps, training.local_steps
    return jax.vmap(lambda k, i: jax.random.randint(draw_key(seed, Purpose.LOCAL_STEPS, k, i), (), least, most + 1))(
        device, number
    )


def _epochs(
    epochs: int, batch: int, seed: jax.Array, device: jax.Array, number: jax.Array, size: jax.Array, most_samples: int
) -> Batches:
    """Each epoch is a new permutation of the device's data; its last batch is filled up from its beginning."""

    def one(k: jax.Array, i: jax.Array, size: jax.Array) -> tuple[jax.Array, jax.Array]:
        key = draw_key(seed, Purpose.BATCH, k, i)
        order = jax.vmap(lambda e: permutation(jax.random.fold_in(key, e), size, most_samples))(jnp.arange(epochs))
        steps_an_epoch = -(-size // batch)
        step = jnp.arange(epochs * -(-most_samples // batch))
        epoch = jnp.minimum(step // steps_an_epoch, epochs - 1)
        place = (step % steps_an_epoch * batch)[:, None] + jnp.arange(batch)
        return order[epoch[:, None], place % size], epochs * steps_an_epoch

    return Batches(*jax.vmap(one)(device, number, size))


def permutation(key: jax.Array, size: Int[Array, ""], length: int) -> Int[Array, " length"]:
    """0, ..., size - 1 in random order, and then the rest up to `length` - 1; `length` does not change the order."""
    place = jnp.arange(length)
    bits: UInt32[Array, " length"] = jax.vmap(lambda p: jax.random.bits(jax.random.fold_in(key, p)))(place)
    return jnp.lexsort((bits, place >= size))
