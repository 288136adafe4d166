"""One round with numbers that can be checked on paper: how an algorithm is tried out and tested."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import PyTree

from ..air.settings import Air
from ..air.uplink import Uplink
from ..algorithms.base import Algorithm
from ..base.settings import parse
from ..faults import Faults, Guards
from ..power.settings import Power
from ..server import ServerSettings
from ..training.learner import LocalUpdates
from ..training.settings import Training
from .round import RoundOutcome, RoundStart, encode, play_round
from .structures import EventInputs, RoundConfig, State


def aggregate_by_hand(
    algorithm: Algorithm,
    updates: ArrayLike,
    *,
    uplink: Uplink | None = None,
    power: Power | None = None,
    model: ArrayLike | None = None,
    previous_model: ArrayLike | None = None,
    local_models: ArrayLike | None = None,
    staleness: ArrayLike = 0,
    num_samples: ArrayLike = 1.0,
    ready: ArrayLike = True,
    device: ArrayLike | None = None,
    num_devices: float | None = None,
    round: int = 1,
    group: int = 0,
    state: PyTree = None,
    memory: PyTree = None,
    aborted: int = 0,
) -> RoundOutcome:
    """Play all three steps of an algorithm for one round, without a timeline or local training.

    Args:
        algorithm: an object of your class.
        updates: the update of each device, [n, d].
        uplink: the channel of the round (default: no noise, no fading, 15 W).
        power: the settings of `[power]` (default: the paper's).
        model: w^r, [d] (default: zeros).
        previous_model: w^(r-1), [d] (default: w^r).
        local_models: the devices' models, [n, d] (default: w^r + updates).
        staleness: in rounds, one number for all or [n].
        num_samples: samples of each device, one number for all or [n].
        ready: whether each device takes part, one value for all or [n].
        device: numbers of the devices, [n] (default: 0, 1, ...).
        num_devices: K (default: n).
        round: r.
        group: group of the event, for a scheme with groups.
        state: state of the algorithm on the server (default: from the algorithm's `init`).
        memory: memory of the devices, [n, ...] each (default: from the algorithm's `memory`).
        aborted: trainings that the event aborts.

    Returns:
        The next model, weights, amplitudes, transmit powers, and the new state and memory.
    """
    update = jnp.asarray(updates, float)
    n, d = update.shape
    w = jnp.zeros(d) if model is None else jnp.asarray(model, float)
    local = w + update if local_models is None else jnp.asarray(local_models, float)
    previous = w if previous_model is None else jnp.asarray(previous_model, float)
    stale, samples, sends = (
        jnp.broadcast_to(jnp.asarray(a), n) for a in (staleness, jnp.asarray(num_samples, float), ready)
    )
    if uplink is None:
        uplink = Uplink(jnp.ones(n, complex), sends, jnp.zeros(()), jnp.asarray(15.0), jax.random.key(0))
    stored = jax.tree.map(lambda one: jnp.broadcast_to(one, (n, *jnp.shape(one))), algorithm.memory(w))
    if memory is not None:
        stored = jax.tree.map(lambda _, given: jnp.asarray(given, float), stored, memory)
    number = jnp.arange(n) if device is None else jnp.asarray(device)
    places = int(num_devices or n) if isinstance(number, jax.core.Tracer) else int(number.max()) + 1
    all_memory = jax.tree.map(lambda a: jnp.zeros((places, *a.shape[1:])).at[number].set(a), stored)
    server = algorithm.init_for(w, int(num_devices or n)) if state is None else state
    r = jnp.asarray(round)
    inputs = EventInputs(
        round=r, time_s=jnp.zeros(()), evaluate=jnp.zeros((), bool), ready=sends, device=number, version=r - stale,
        training=number, aborted=jnp.asarray(aborted), group=jnp.asarray(group),
    )  # fmt: skip
    training = parse(Training, {}, "")
    algorithm = algorithm.for_training(training)
    config = RoundConfig(
        algorithm=algorithm, power=power or Power(), training=training, air=parse(Air, {}, ""),
        server=parse(ServerSettings, {}, ""), faults=parse(Faults, {}, ""), guards=parse(Guards, {}, ""),
    )  # fmt: skip
    devices_in_all = jnp.asarray(float(num_devices or n))
    start = RoundStart(inputs, w, previous, samples, devices_in_all, State((), server, devices=all_memory))
    key = jax.random.key(0)
    signals = encode(algorithm, key, start, LocalUpdates(local, update, jnp.zeros(n)), sends)
    outcome, after, _ = play_round(config, key, start, lambda part: signals, uplink=uplink)
    return outcome._replace(memory=jax.tree.map(lambda column: column[number], after.devices))
