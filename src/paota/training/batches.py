"""Draws of a local training: its mini-batches and their augmentation; and the work that these mean.

Every draw is addressed by (seed, device, training); those of the augmentation also by (step, place in the mini-batch).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, Shaped, UInt32

from ..base.errors import UserError
from ..base.rng import Purpose, draw_key, pick_draws
from ..data.shards import Shards
from ..models.base import Model, Params, is_torch, loss_of, parameter_shapes
from ..models.check import label_type
from .convolution import as_jax_lowers
from .settings import Training

PADDING = 4  # black pixels on every side, from which a crop of the old size is taken (He et al., 2016)
COUNTED_BATCH = 16  # samples for which operations are counted; the work of a whole step is divided among them
DeviceInts = Int[np.ndarray, " n"]


class Batches(NamedTuple):
    """Mini-batches of n devices: at most M steps, B samples a step."""

    position: Int[Array, "n M B"]  # inside the device's own data
    steps: Int[Array, " n"] | None  # of each device; None: all M


def draw_batches(
    training: Training,
    seed: PRNGKeyArray,
    device: Int[Array, " n"],
    number: Int[Array, " n"],
    size: Int[Array, " n"],
    most_samples: int | None = None,
) -> Batches:
    """Draw the mini-batches of one local training of each device.

    Args:
        training: the settings of `[training]`.
        seed: key of the run.
        device: numbers of the devices.
        number: how many trainings each device began before.
        size: samples that each device holds.
        most_samples: upper bound of `size`. Only `training.epochs` needs it; its value changes no draw.
    """
    if training.epochs is not None:
        if most_samples is None:
            raise ValueError("training.epochs needs most_samples")
        draw = functools.partial(_epochs, training, most_samples, seed)
        return Batches(*jax.vmap(draw)(device, number, size))
    shape = (training.local_steps, training.batch_size)
    position = jax.vmap(lambda k, i, high: jax.random.randint(draw_key(seed, Purpose.BATCH, k, i), shape, 0, high))(
        device, number, size
    )
    return Batches(position, None if training.least_steps is None else draw_steps(training, seed, device, number))


def draw_steps(
    training: Training, seed: PRNGKeyArray, device: Int[Array, " n"], number: Int[Array, " n"]
) -> Int[Array, " n"]:
    """Draw the number of steps of the `number`-th local training of each device, from `training.least_steps` upwards."""
    least, most = training.least_steps or training.local_steps, training.local_steps
    return jax.vmap(lambda k, i: jax.random.randint(draw_key(seed, Purpose.LOCAL_STEPS, k, i), (), least, most + 1))(
        device, number
    )


def _epochs(
    training: Training, most_samples: int, seed: PRNGKeyArray, k: jax.Array, i: jax.Array, size: jax.Array
) -> tuple[Int[Array, "M B"], Int[Array, ""]]:
    """Return positions and steps of device k's i-th training: each epoch is a new permutation of the device's data.

    The last batch of an epoch is filled up from the epoch's beginning.
    """
    assert training.epochs is not None
    epochs, batch = training.epochs, training.batch_size
    key = draw_key(seed, Purpose.BATCH, k, i)
    order = jax.vmap(lambda e: permutation(jax.random.fold_in(key, e), size, most_samples))(jnp.arange(epochs))
    steps_per_epoch = -(-size // batch)
    step = jnp.arange(epochs * -(-most_samples // batch))
    epoch = jnp.minimum(step // steps_per_epoch, epochs - 1)
    place = (step % steps_per_epoch * batch)[:, None] + jnp.arange(batch)
    return order[epoch[:, None], place % size], epochs * steps_per_epoch


def permutation(key: PRNGKeyArray, size: Int[Array, ""], length: int) -> Int[Array, " length"]:
    """Return 0, ..., size - 1 in random order, then the rest up to `length` - 1; `length` does not change the order."""
    place = jnp.arange(length)
    bits: UInt32[Array, " length"] = jax.vmap(lambda p: jax.random.bits(jax.random.fold_in(key, p)))(place)
    return jnp.lexsort((bits, place >= size))


def draw_augmentation(
    training: Training, seed: PRNGKeyArray, device: Int[Array, " n"], number: Int[Array, " n"], steps: int, batch: int
) -> Int[Array, "n M B 3"] | None:
    """Draw (rows down, columns right, mirrored) for every image of one local training of each device.

    Args:
        training: the settings of `[training]`.
        seed: key of the run.
        device: numbers of the devices.
        number: how many trainings each device began before.
        steps: M, whose value changes no draw.
        batch: B, whose value changes no draw.

    Returns:
        Shifts by up to 4 pixels and a mirror image with probability 1/2; None without augmentation.
    """
    if training.augment == "none":
        return None
    high = jnp.array([2 * PADDING + 1, 2 * PADDING + 1, 2])

    def one_image(training_key: PRNGKeyArray, step: jax.Array, place: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.fold_in(training_key, step), place)
        return jax.random.randint(key, (3,), 0, high)

    def one_training(device: jax.Array, number: jax.Array) -> jax.Array:
        key = draw_key(seed, Purpose.AUGMENTATION, device, number)
        images = jax.vmap(one_image, in_axes=(None, None, 0))
        return jax.vmap(lambda step: images(key, step, jnp.arange(batch)))(jnp.arange(steps))

    return jax.vmap(one_training)(device, number)


def draw_for_layers(seed: PRNGKeyArray, device: Int[Array, " n"], number: Int[Array, " n"]) -> UInt32[Array, " n"]:
    """Draw the seed of all random numbers that a PyTorch module draws in the `number`-th training of each device."""
    return jax.vmap(lambda k, i: jax.random.bits(draw_key(seed, Purpose.LAYERS, k, i)))(device, number)


def crop_and_flip(images: Shaped[Array, "B H W *C"], draws: Int[Array, "B 3"]) -> Shaped[Array, "B H W *C"]:
    """Return the images moved and mirrored by `draws` (from `draw_augmentation`); pixels from outside are zero."""

    def one(image: jax.Array, draw: jax.Array) -> jax.Array:
        sides = [(PADDING, PADDING)] * 2 + [(0, 0)] * (image.ndim - 2)
        start = (draw[0], draw[1], *[jnp.zeros((), draw.dtype)] * (image.ndim - 2))
        crop = jax.lax.dynamic_slice(jnp.pad(image, sides), start, image.shape)
        return jnp.where(draw[2] == 1, crop[:, ::-1], crop)

    return jax.vmap(one)(images, draws)


def samples_of(training: Training, shards: Shards, seed: int) -> Callable[[DeviceInts, DeviceInts], np.ndarray]:
    """Return a function of (device [n], training [n]) that gives the number of samples of each training, [n].

    Args:
        training: steps, or passes over the device's own data, and the batch.
        shards: how much data each device holds.
        seed: seed of the run.
    """
    batch = training.batch_size
    if training.epochs is not None:
        each = training.epochs * batch * -(-shards.sizes.astype(float) // batch)
        return lambda device, number: each[device]
    if training.least_steps is None:
        return lambda device, number: np.full(len(device), float(training.local_steps * batch))
    devices, root = jnp.arange(shards.num_devices), jax.random.key(seed)
    draw = jax.jit(lambda number: draw_steps(training, root, devices, jnp.full_like(devices, number)))
    row = functools.cache(lambda number: batch * np.asarray(draw(np.int32(number))))  # samples of all devices, [K]
    return lambda device, number: pick_draws(device, number, row)


@functools.lru_cache(maxsize=64)
def flop_per_sample(model: Model, input_shape: tuple[int, ...], num_classes: int) -> float:
    """Return the floating-point operations of a forward and backward pass for one sample.

    JAX's cost analysis counts them. It cannot count a PyTorch module, which needs `timing.flop_per_sample`.
    """
    if is_torch(model):
        raise UserError("a model that is computed outside JAX cannot be counted: give timing.flop_per_sample")

    def loss(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
        return loss_of(model)(model.apply(params, x), y).mean()

    params = parameter_shapes(model, input_shape, num_classes)
    x = jax.ShapeDtypeStruct((COUNTED_BATCH, *input_shape), jnp.float32)
    y = jax.ShapeDtypeStruct((COUNTED_BATCH,), label_type(num_classes))
    with as_jax_lowers():
        cost = jax.jit(jax.grad(loss)).lower(params, x, y).cost_analysis()
    counted = float((cost or {}).get("flops", 0.0)) / COUNTED_BATCH
    if not counted > 0:
        raise UserError("JAX does not say what the model computes: give timing.flop_per_sample")
    return counted
