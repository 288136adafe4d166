"""What goes into a compiled simulation and what comes out of it, as plain structures of arrays.

Axes: K devices in all, n devices of an event (padded), d parameters, V versions in the ring buffer, E events a call.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Shaped

from ..air.downlink import in_signals
from ..air.settings import Air
from ..algorithms.base import Algorithm, signal_size
from ..base.rng import Purpose, device_key
from ..base.settings import as_tree
from ..data.dataset import Dataset
from ..data.shards import Shards
from ..experiment.experiment import AlgorithmConfig
from ..faults import Faults, Guards
from ..models.base import Model
from ..power.settings import Power
from ..server import ServerSettings
from ..timing.timeline import Timeline
from ..training.learner import Learner
from ..training.settings import Training

SMALL_BYTES = 2**24  # of devices' models, which nobody needs to spare
HELD_BYTES = 3 * 2**29  # of devices' models, the most that an event keeps in memory
BLOCK_BYTES = 2**24  # of devices' models in a block, where they do not all fit


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["algorithm", "training", "server", "air", "power", "faults", "guards"],
    meta_fields=[],
)
@dataclass(frozen=True, kw_only=True)
class RoundConfig:
    """Everything that decides how an event is computed. A pytree: its floats are leaves, the rest is structure."""

    algorithm: Algorithm
    training: Training
    server: ServerSettings
    air: Air
    power: Power
    faults: Faults
    guards: Guards

    @classmethod
    def of(cls, entry: AlgorithmConfig) -> RoundConfig:
        """The rule of one line of an experiment, its numbers as arrays; what only the timeline needs is left out."""
        c = entry
        parts = {
            "algorithm": c.algorithm.for_training(c.training), "training": c.training, "server": c.server,
            "air": in_signals(c.air), "power": c.power,
            "faults": c.faults.in_signals(), "guards": replace(c.guards, max_staleness=None),
        }  # fmt: skip
        config = cls(**{name: as_tree(part) for name, part in parts.items()})  # type: ignore[arg-type]
        return jax.tree.map(lambda number: jnp.asarray(number, float), config)


@dataclass(frozen=True, kw_only=True)
class LearningProblem:
    """What is learned, and what computes it: the static part of every program."""

    model: Model
    input_shape: tuple[int, ...]
    num_classes: int
    learner: Learner
    train_loss: str = "objective"  # as `evaluation.train_loss`
    most_samples: int | None = None  # that a device may hold; only `training.epochs` needs it
    mesh: Mesh | None = None  # JAX devices that share the work; None: one

    def initial_model(self, seed: int) -> Float[Array, " d"]:
        """w^0 of the runs with this seed."""
        return ravel_pytree(self.init(device_key(seed, Purpose.INITIAL_MODEL)))[0]

    def init(self, key: jax.Array) -> Any:
        """New parameters as the model makes them, a pytree."""
        return self.model.init(key, self.input_shape, self.num_classes)

    @property
    def parameters(self) -> Any:
        """Shapes and types of the parameters, a pytree."""
        return jax.eval_shape(lambda: self.init(jax.random.key(0)))

    @property
    def num_parameters(self) -> int:
        """d."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.parameters))


@dataclass(frozen=True, kw_only=True)
class ProgramShape:
    """The static sizes of one compiled loop."""

    places: int  # for the devices of an event, padded
    versions: int  # depth of the ring buffer
    events: int  # an engine call, the most
    block: int | None = None  # devices whose models are held at once; None: all of the event


class DeviceData(NamedTuple):
    """All data: samples are stored once, `x_*` as the learner encodes them, and devices hold indices into them."""

    x_train: Any
    y_train: Shaped[Array, " N"]
    x_test: Any
    y_test: Shaped[Array, " T"]
    shard_indices: Int[Array, " I"]
    shard_offsets: Int[Array, " K"]
    shard_sizes: Int[Array, " K"]
    sample_weight: Float[Array, " N"]  # share of each training sample in F (Eq. sys_FL_task), sums to 1

    @classmethod
    def samples(cls, dataset: Dataset, learner: Learner) -> dict[str, Any]:
        """The fields that hold samples, on the JAX device; they serve all seeds."""
        x_train, x_test = learner.encode(dataset.x_train), learner.encode(dataset.x_test)
        samples = {"x_train": x_train, "y_train": dataset.y_train, "x_test": x_test, "y_test": dataset.y_test}
        return {name: jax.tree.map(jnp.asarray, value) for name, value in samples.items()}

    @classmethod
    def of(cls, samples: dict[str, Any], shards: Shards, *, entries: int = 0) -> DeviceData:
        """`samples` dealt out as `shards` say; indices are padded to `entries`, so that seeds share a program."""
        share = np.bincount(shards.indices, minlength=len(samples["y_train"])) / len(shards.indices)
        return cls(
            **samples,
            shard_indices=jnp.asarray(np.pad(shards.indices, (0, max(0, entries - len(shards.indices))))),
            shard_offsets=jnp.asarray(shards.offsets[:-1].astype(np.int32)),
            shard_sizes=jnp.asarray(shards.sizes.astype(np.int32)),
            sample_weight=jnp.asarray(share, float),
        )


class RunConstants(NamedTuple):
    """What stays the same in all events of a run."""

    config: RoundConfig
    key: jax.Array  # of the seed
    data: DeviceData


class EventInputs(NamedTuple):
    """One event in the form the program wants; for a call, every field has an axis of events in front."""

    round: Int[Array, ""]  # r
    time_s: Float[Array, ""]
    evaluate: Bool[Array, ""]
    ready: Bool[Array, " n"]
    device: Int[Array, " n"]
    version: Int[Array, " n"]  # that the device started from
    training: Int[Array, " n"]  # how many it had begun before
    aborted: Int[Array, ""] | int = 0  # trainings that it ends unfinished
    group: Int[Array, ""] | int = 0  # whose event it is, where the scheme numbers its groups


class State(NamedTuple):
    """What one event hands to the next."""

    ring: Any  # [V, d], version v stands at v mod V; () in a deployment, which keeps its versions itself
    server: Any  # what the algorithm keeps
    optimiser: Any = ()  # what the server's optimiser keeps
    devices: Any = ()  # what the devices keep, [K, ...] each
    spent_j: Any = ()  # radiated so far, [K], where there is a budget

    @classmethod
    def initial(cls, config: RoundConfig, model: Float[Array, " d"], versions: int, devices: int) -> State:
        """Before the first event of K `devices`: every version is w^0."""
        memory = jax.tree.map(
            lambda one: jnp.broadcast_to(one, (devices, *jnp.shape(one))), config.algorithm.memory(model)
        )
        optimiser = config.server.optimiser.init(model)
        server = config.algorithm.init_for(model, devices)
        spent_j = () if config.power.energy_budget_j is None else jnp.zeros(devices)
        return cls(jnp.tile(model, (versions, 1)), server, optimiser, memory, spent_j)


PER_DEVICE = ("weight", "amplitude", "similarity", "transmit_power_w", "channel_gain")  # columns of a log


class Log(NamedTuple):
    """What is recorded of each event; the columns `PER_DEVICE` for each device that took part."""

    test_accuracy: Float[Array, ""]
    test_loss: Float[Array, ""]
    train_loss: Float[Array, ""]
    noise_std: Float[Array, ""]  # a weight, after normalisation
    finite: Bool[Array, ""]
    score_by_label: Float[Array, " C"]  # sum over the test samples of each label; NaN where nobody looked
    weight: Float[Array, " n"]
    amplitude: Float[Array, " n"]
    similarity: Float[Array, " n"]
    transmit_power_w: Float[Array, " n"]
    channel_gain: Float[Array, " n"]  # |h_k|^2; NaN for a digital rule


def event_places(devices: int, row_bytes: int, mesh: Mesh | None) -> tuple[int, int | None]:
    """(places for the devices of an event, devices held at once or None for all of them).

    Whole vectors, and of small models fewer different sizes (16, 32, 48, 64, 96, 128, 192, ...), to compile few programs:
    there an empty place costs nothing. A sum over more places may round differently, if only in its last bit.
    """
    least = math.lcm(16 if devices > 1 else 1, 1 if mesh is None else mesh.size)
    coarse = math.lcm(least, 1 << max(0, (devices - 1).bit_length() - 2))
    if _round_up(devices, coarse) * row_bytes <= SMALL_BYTES:
        return _round_up(devices, coarse), None
    if _round_up(devices, least) * row_bytes <= HELD_BYTES:
        return _round_up(devices, least), None
    block = _round_up(BLOCK_BYTES // row_bytes, least)
    return _round_up(devices, block), block


def row_bytes(algorithm: Algorithm, num_parameters: int) -> int:
    """Of one device of an event: its model, and its update or the signal that is made of it, whichever is longer."""
    return 4 * (num_parameters + max(num_parameters, signal_size(algorithm, num_parameters)))


def _round_up(number: int, unit: int) -> int:
    return max(1, -(-number // unit)) * unit


def inputs_of(
    timeline: Timeline, first: int, shape: ProgramShape, evaluate: np.ndarray, *, most: int | None = None
) -> tuple[EventInputs, int]:
    """Events `first`, `first`+1, ... of a timeline, at most `most`, padded to the program's sizes; and how many there are."""
    count = min(shape.events if most is None else most, shape.events, len(timeline) - first)

    def zeros(kind: Any, *, places: bool = True) -> Any:
        return np.zeros((shape.events, shape.places) if places else shape.events, kind)

    rows = EventInputs(
        round=first + np.arange(shape.events, dtype=np.int32),  # type: ignore[arg-type]  # NumPy on the host
        time_s=zeros(np.float32, places=False),
        evaluate=zeros(bool, places=False),
        ready=zeros(bool),
        device=zeros(np.int32),
        version=zeros(np.int32),
        training=zeros(np.int32),
        aborted=zeros(np.int32, places=False),
        group=zeros(np.int32, places=False),
    )
    columns: Any = rows
    columns.time_s[:count] = timeline.time_s[first : first + count]
    columns.evaluate[:count] = evaluate[first : first + count]
    if timeline.aborted is not None:
        columns.aborted[:count] = timeline.aborted.ready[first : first + count]
    if timeline.group is not None:
        columns.group[:count] = timeline.group[first : first + count]
    for i in range(count):
        flat = slice(timeline.offsets[first + i], timeline.offsets[first + i + 1])
        n = flat.stop - flat.start
        columns.ready[i, :n] = True
        columns.device[i, :n] = timeline.device[flat]
        columns.version[i, :n] = timeline.version[flat]
        columns.training[i, :n] = timeline.training[flat]
        columns.version[i, n:] = first + i  # padding must name a version that the ring buffer still holds
    return rows, count
