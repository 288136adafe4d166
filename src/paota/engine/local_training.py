"""The local training of all devices of an event: mini-batches, augmentation, and the learner that computes it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.downlink import AnalogDownlink, as_heard
from ..training.augmentation import draw_augmentation
from ..training.batches import draw_batches
from ..training.learner import Orders, Trained
from . import sharding
from .structures import EventInputs, LearningProblem, RunConstants


def train(
    problem: LearningProblem, run: RunConstants, ring: Float[Array, "V d"], inputs: EventInputs,
    shift: Float[Array, "n d"] | None = None,
) -> Trained:  # fmt: skip
    """The local training of every device of the event, from the versions they started with.  # Eq. local_update

    `shift` is added to every gradient of a device.
    """

    def local(run: RunConstants, ring: jax.Array, columns: tuple[Any, ...]) -> Trained:
        version, ready, device, number, shift = columns
        training, data = run.config.training, run.data
        position, steps = draw_batches(
            training, run.key, device, number, data.shard_sizes[device], problem.most_samples
        )
        sample = data.shard_indices[data.shard_offsets[device][:, None, None] + position]
        augmentation = draw_augmentation(training, run.key, device, number, *sample.shape[1:])
        rate = jnp.asarray(training.rate(version), ring.dtype)
        slot = version % len(ring)
        if isinstance(run.config.air.downlink, AnalogDownlink):  # every device starts from a noisy model of its own
            ring, slot = as_heard(run.config.air, run.key, ring[slot], version, device), jnp.arange(len(slot))
        orders = Orders(slot, ready, sample, steps, rate, augmentation, shift)
        return problem.learner.train(training, orders, ring, data.x_train, data.y_train)

    columns = (inputs.version, inputs.ready, inputs.device, inputs.training, shift)
    return sharding.train(problem.mesh, local, (run, ring), columns)
