"""Crop and flip: every image of a mini-batch is moved by up to 4 pixels and mirrored with probability 1/2.

Every draw is addressed by (seed, device, training, step, place in the mini-batch), like the mini-batch itself.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Shaped

from ..base.errors import UserError
from ..base.rng import Purpose, draw_key
from ..data.dataset import Dataset
from .settings import Training

PADDING = 4  # pixels of black on every side, of which a crop of the old size is taken (He et al., 2016)


def check_images(training: Training, dataset: Dataset) -> None:
    """Refuse an augmentation of samples that are no images."""
    if training.augment != "none" and len(dataset.input_shape) not in (2, 3):
        raise UserError(
            f"training.augment = '{training.augment}' needs images [height, width] or [height, width, channels], "
            f"and a sample of {dataset.name} has shape {dataset.input_shape}"
        )


def draw_augmentation(
    training: Training, seed: jax.Array, device: Int[Array, " n"], number: Int[Array, " n"], steps: int, batch: int
) -> Int[Array, "n M B 3"] | None:
    """(rows down, columns right, mirrored) for every image of the `number`-th local training; None without augmentation.

    `seed` is the key of the run; steps, batch: M and B, whose values change no draw.
    """
    if training.augment == "none":
        return None
    high = jnp.array([2 * PADDING + 1, 2 * PADDING + 1, 2])

    def one_image(training_key: jax.Array, step: jax.Array, place: jax.Array) -> jax.Array:
        key = jax.random.fold_in(jax.random.fold_in(training_key, step), place)
        return jax.random.randint(key, (3,), 0, high)

    def one_training(device: jax.Array, number: jax.Array) -> jax.Array:
        key = draw_key(seed, Purpose.AUGMENTATION, device, number)
        images = jax.vmap(one_image, in_axes=(None, None, 0))
        return jax.vmap(lambda step: images(key, step, jnp.arange(batch)))(jnp.arange(steps))

    return jax.vmap(one_training)(device, number)


def crop_and_flip(images: Shaped[Array, "B H W *C"], draws: Int[Array, "B 3"]) -> Shaped[Array, "B H W *C"]:
    """The images as `draws` (from `draw_augmentation`) say; what comes in from outside is zero."""

    def one(image: jax.Array, draw: jax.Array) -> jax.Array:
        sides = [(PADDING, PADDING)] * 2 + [(0, 0)] * (image.ndim - 2)
        start = (draw[0], draw[1], *[jnp.zeros((), draw.dtype)] * (image.ndim - 2))
        crop = jax.lax.dynamic_slice(jnp.pad(image, sides), start, image.shape)
        return jnp.where(draw[2] == 1, crop[:, ::-1], crop)

    return jax.vmap(one)(images, draws)
