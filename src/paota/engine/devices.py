"""The devices' half of an event: draw mini-batches, train, check, and get ready to send."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..air.downlink import AnalogDownlink, as_heard
from ..air.settings import Air
from ..algorithms.base import Algorithm, Report, Work
from ..faults.signals import Checked, corrupt_and_guard
from ..rng import Purpose, draw_key
from ..training.augmentation import draw_augmentation
from ..training.batches import draw_batches
from ..training.learner import Orders, Trained
from ..training.settings import Training
from . import sharding
from .structures import Fleet, Row, Rule, Task


class Prepared(NamedTuple):
    """What the devices of an event have, just before they send."""

    payload: Float[Array, "n d"]
    energy: Float[Array, " n"]  # |payload_k|^2
    report: Report  # [n] each
    ready: Bool[Array, " n"]  # whom no guard holds back
    loss: Float[Array, " n"]
    memory: Any = ()  # of the devices that send, from now on; [n, ...] each


def train(
    task: Task, training: Training, seed: jax.Array, fleet: Fleet, ring: Float[Array, "V d"], row: Row,
    shift: Float[Array, "n d"] | None = None, air: Air | None = None,
) -> Trained:  # fmt: skip
    """The local training of every device of the event, from the versions they started with.  # Eq. local_update

    `shift` is added to every gradient of a device. `air`: whose downlink may be noisy; None: it is not.
    """
    noisy = air is not None and isinstance(air.downlink, AnalogDownlink)

    def local(
        seed: jax.Array, fleet: Fleet, ring: jax.Array, training: Training,
        air: Air | None, version: jax.Array, ready: jax.Array, device: jax.Array, number: jax.Array,
        shift: jax.Array | None,
    ) -> Trained:  # fmt: skip
        position, steps = draw_batches(training, seed, device, number, fleet.shard_sizes[device], task.most_samples)
        sample = fleet.shard_indices[fleet.shard_offsets[device][:, None, None] + position]
        augmentation = draw_augmentation(training, seed, device, number, *sample.shape[1:])
        rate = jnp.asarray(training.rate(version), ring.dtype)
        slot = version % len(ring)
        if noisy and air is not None:  # everybody starts from a model of its own
            ring, slot = as_heard(air, seed, ring[slot], version, device), jnp.arange(len(slot))
        orders = Orders(slot, ready, sample, steps, rate, augmentation, shift)
        return task.learner.train(training, orders, ring, fleet.x_train, fleet.y_train)

    columns = (row.version, row.ready, row.device, row.training, shift)
    return sharding.train(task.mesh, local, (seed, fleet, ring, training, air if noisy else None), columns)


def prepare(
    rule: Rule, seed: jax.Array, row: Row, trained: Trained, model: Float[Array, " d"],
    previous_model: Float[Array, " d"], num_samples: Float[Array, " n"],
    memory: Any = (), state: Any = (), start: Float[Array, "n d"] | None = None,
) -> Prepared:  # fmt: skip
    """Faults and guards, then step one of the algorithm on every device: its report, and what it will send.

    `memory`: what the devices kept, [n, ...] each; `state`: what the server keeps; `start`: the models that the devices
    began with, which `guards.max_update_norm` needs.
    """
    checked = Checked(trained.local_model, trained.update, row.ready, start)
    checked = corrupt_and_guard(rule.faults, rule.guards, seed, row.device, checked)
    multiplier, norm = rule.guards.noise_multiplier, rule.guards.max_update_norm
    if multiplier is not None and norm is not None:
        checked = _with_noise(multiplier * norm, seed, row, checked)
    work = Work(
        local_model=checked.local_model,
        update=checked.update,
        loss=trained.loss,
        staleness=row.round - row.version,
        num_samples=num_samples,
        model=model,
        previous_model=previous_model,
        memory=memory,
        state=state,
        key=device_keys(seed, row.round, row.device) if rule.algorithm.draws else None,
    )
    return encode(rule.algorithm, work, checked.ready)


def _with_noise(std: float, seed: jax.Array, row: Row, checked: Checked) -> Checked:
    """Every device adds noise of standard deviation `std` to each weight, after clipping."""
    keys = device_keys(seed, row.round, row.device, Purpose.PRIVACY_NOISE)
    drawn = jax.vmap(lambda key: jax.random.normal(key, checked.update.shape[1:]))(keys)
    noise = std * drawn
    return checked._replace(update=checked.update + noise, local_model=checked.local_model + noise)


def device_keys(
    seed: jax.Array, round: jax.Array, device: Int[Array, " n"], purpose: Purpose = Purpose.SIGNAL
) -> jax.Array:
    """Of each device in this round, for what it draws when it sends."""
    key = draw_key(seed, purpose, round)
    return jax.vmap(lambda k: jax.random.fold_in(key, k))(device)


def encode(algorithm: Algorithm, work: Work, ready: Bool[Array, " n"]) -> Prepared:
    """Step one of the algorithm on every device; `work` has an axis of devices in front."""

    def on_device(one: Work) -> tuple[jax.Array, Report, Any]:
        return algorithm.signal(one), algorithm.report(one), algorithm.remember(one)

    broadcast: Any = None
    key: Any = None if work.key is None else 0
    axes = Work(0, 0, 0, 0, 0, broadcast, broadcast, 0, broadcast, key)  # type: ignore[arg-type]
    payload, report, memory = jax.vmap(on_device, in_axes=(axes,))(work)
    return Prepared(payload, jnp.sum(payload**2, axis=1), report, ready, work.loss, memory)
