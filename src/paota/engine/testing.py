"""One aggregation with numbers that one can follow on paper: how an algorithm is tried out and tested."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..air.settings import Air
from ..air.uplink import Uplink
from ..algorithms.base import Algorithm
from ..base.settings import parse
from ..faults import Faults, Guards
from ..power.settings import Power
from ..server import ServerSettings
from ..training.learner import Trained
from ..training.settings import Training
from .blocks import DeviceSignals
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
    state: Any = None,
    memory: Any = None,
    aborted: int = 0,
) -> RoundOutcome:
    """All three steps of an algorithm for one round, no engine needed; what is not given is plain.

    Args:
        algorithm: an object of your class.
        updates: what each device has learned, [n, d].
        uplink: the air (default: no noise, no fading, 15 W).
        power: the settings of `[power]` (default: the paper's).
        model: w^r, [d] (default: zeros).
        previous_model: w^(r-1), [d] (default: w^r).
        local_models: of the devices, [n, d] (default: w^r + updates).
        staleness: in rounds, one for all or [n].
        num_samples: that devices hold, one for all or [n].
        ready: who takes part, one for all or [n].
        device: the numbers of the devices, [n] (default: 0, 1, ...).
        num_devices: K (default: n).
        round: r.
        group: whose event it is, of a scheme that numbers its groups.
        state: what the server remembers (default: what the algorithm's `init` gives).
        memory: of the devices, [n, ...] each (default: as the algorithm's `memory` begins).
        aborted: trainings that the event ends unfinished.

    Returns:
        The next model, weights, amplitudes, powers and new memory.
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
    kept = jax.tree.map(lambda one: jnp.broadcast_to(one, (n, *jnp.shape(one))), algorithm.memory(w))
    if memory is not None:
        kept = jax.tree.map(lambda _, given: jnp.asarray(given, float), kept, memory)
    server = algorithm.init_for(w, int(num_devices or n)) if state is None else state
    r, who = jnp.asarray(round), jnp.arange(n) if device is None else jnp.asarray(device)
    inputs = EventInputs(
        r, jnp.zeros(()), jnp.zeros((), bool), sends, who, r - stale, who, jnp.asarray(aborted), jnp.asarray(group)
    )
    sections = {"training": Training, "server": ServerSettings, "air": Air, "faults": Faults, "guards": Guards}
    plain: dict[str, Any] = {name: parse(section, {}, "") for name, section in sections.items()}
    algorithm = algorithm.for_training(plain["training"])
    config = RoundConfig(algorithm=algorithm, power=power or Power(), **plain)
    books = jax.tree.map(lambda column: jnp.zeros((int(who.max()) + 1, *column.shape[1:])).at[who].set(column), kept)
    before = RoundStart(
        inputs, w, previous, samples, jnp.asarray(float(num_devices or n)), State((), server, devices=books)
    )
    key = jax.random.key(0)
    trained = Trained(local, update, jnp.zeros(n))

    def devices(part: EventInputs) -> DeviceSignals:
        return encode(algorithm, key, before, trained, sends)

    outcome, after, _ = play_round(config, key, before, devices, uplink=uplink)
    return outcome._replace(memory=jax.tree.map(lambda column: column[who], after.devices))
