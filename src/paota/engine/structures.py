"""Inputs and outputs of a compiled simulation, as plain structures of arrays.

Axes: K devices in all, n devices of an event (padded), d parameters, V versions in the ring buffer, E events a call,
N training samples, T test samples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

from ..air.downlink import in_signals
from ..air.imported import with_recorded_channels
from ..air.settings import Air
from ..algorithms.base import Algorithm, signal_size
from ..base.rng import Purpose, device_key
from ..base.settings import as_tree
from ..data.dataset import Dataset
from ..data.shards import Shards
from ..experiment.experiment import AlgorithmConfig
from ..faults import Faults, Guards
from ..models.base import Model, Params, count_parameters, parameter_shapes
from ..power.settings import Power
from ..server import ServerSettings
from ..timing.timeline import Timeline
from ..training.learner import Learner, Samples
from ..training.settings import Training

SMALL_BYTES = 2**24  # devices' models up to this size are padded generously
HELD_BYTES = 3 * 2**29  # largest size of the devices' models that an event holds in memory
BLOCK_BYTES = 2**24  # size of the devices' models in a block, if they do not all fit


@jax.tree_util.register_dataclass
@dataclass(frozen=True, kw_only=True)
class RoundConfig:
    """The settings of a round. A pytree: its floats are leaves, the rest is structure."""

    algorithm: Algorithm
    training: Training
    server: ServerSettings
    air: Air
    power: Power
    faults: Faults
    guards: Guards

    @classmethod
    def of(cls, entry: AlgorithmConfig) -> RoundConfig:
        """Return the settings of one entry of an experiment, numbers as arrays, without those of the timeline alone."""
        algorithm = entry.algorithm.for_training(entry.training)
        air = with_recorded_channels(in_signals(entry.air))
        config = cls(
            algorithm=as_tree(algorithm), training=as_tree(entry.training), server=as_tree(entry.server),
            air=as_tree(air), power=as_tree(entry.power), faults=as_tree(entry.faults.in_signals()),
            guards=as_tree(replace(entry.guards, max_staleness=None)),
        )  # fmt: skip
        return jax.tree.map(lambda number: jnp.asarray(number, float), config)


@dataclass(frozen=True, kw_only=True)
class LearningProblem:
    """The model, its data shape and its learner: the static part of every program."""

    model: Model
    input_shape: tuple[int, ...]
    num_classes: int
    learner: Learner
    train_loss: str = "objective"  # as `evaluation.train_loss`
    most_samples: int | None = None  # upper bound of a device's samples; only `training.epochs` needs it
    mesh: Mesh | None = None  # JAX devices that share the work; None: one

    def initial_model(self, seed: int) -> Float[Array, " d"]:
        """Return w^0 of the runs with this seed."""
        key = device_key(seed, Purpose.INITIAL_MODEL)
        return ravel_pytree(self.model.init(key, self.input_shape, self.num_classes))[0]

    @property
    def parameters(self) -> Params:
        """Shapes and types of the parameters, a pytree."""
        return parameter_shapes(self.model, self.input_shape, self.num_classes)

    @property
    def num_parameters(self) -> int:
        """The number of parameters, d."""
        return count_parameters(self.model, self.input_shape, self.num_classes)


@dataclass(frozen=True, kw_only=True)
class ProgramShape:
    """The static sizes of one compiled loop."""

    places: int  # n, padded number of devices of an event
    versions: int  # V, depth of the ring buffer
    events: int  # E, most events of one engine call
    block: int | None = None  # devices whose models are in memory at once; None: all of the event


class DeviceData(NamedTuple):
    """All data. Samples are stored once, `x_*` as the learner encodes them; devices hold indices of them."""

    x_train: Samples
    y_train: Shaped[Array, " N"]
    x_test: Samples
    y_test: Shaped[Array, " T"]
    shard_indices: Int[Array, " I"]
    shard_offsets: Int[Array, " K"]
    shard_sizes: Int[Array, " K"]
    sample_weight: Float[Array, " N"]  # share of each training sample in F (Eq. sys_FL_task), sums to 1

    @classmethod
    def samples(cls, dataset: Dataset, learner: Learner) -> dict[str, Samples]:
        """Return the fields that hold samples, on the JAX device; all seeds share them."""
        x_train, x_test = learner.encode(dataset.x_train), learner.encode(dataset.x_test)
        samples = {"x_train": x_train, "y_train": dataset.y_train, "x_test": x_test, "y_test": dataset.y_test}
        return {name: jax.tree.map(jnp.asarray, value) for name, value in samples.items()}

    @classmethod
    def of(cls, samples: dict[str, Samples], shards: Shards, *, entries: int = 0) -> DeviceData:
        """Return `samples` divided into `shards`; indices are padded to `entries`, so that seeds share a program."""
        share = np.bincount(shards.indices, minlength=len(samples["y_train"])) / len(shards.indices)
        return cls(
            **samples,
            shard_indices=jnp.asarray(np.pad(shards.indices, (0, max(0, entries - len(shards.indices))))),
            shard_offsets=jnp.asarray(shards.offsets[:-1].astype(np.int32)),
            shard_sizes=jnp.asarray(shards.sizes.astype(np.int32)),
            sample_weight=jnp.asarray(share, float),
        )


class RunConstants(NamedTuple):
    """Settings, key and data, which are the same in all events of a run."""

    config: RoundConfig
    key: PRNGKeyArray  # of the seed
    data: DeviceData


class EventInputs(NamedTuple):
    """One event in the form of the program; in a call, every field has a leading axis of events."""

    round: Int[Array, ""]  # r
    time_s: Float[Array, ""]
    evaluate: Bool[Array, ""]
    ready: Bool[Array, " n"]
    device: Int[Array, " n"]
    version: Int[Array, " n"]  # start of the training
    training: Int[Array, " n"]  # number of trainings that the device began before
    aborted: Int[Array, ""] | int = 0  # trainings that the event aborts
    group: Int[Array, ""] | int = 0  # group of the event, if the scheme has groups


class State(NamedTuple):
    """State between two events."""

    ring: PyTree  # [V, d], version v is at v mod V; () in a deployment, which stores its versions itself
    server: PyTree  # state of the algorithm
    optimiser: PyTree = ()  # state of the server's optimiser
    devices: PyTree = ()  # memory of the devices, [K, ...] each
    spent_j: PyTree = ()  # radiated energy of each device, [K], if there is a budget

    @classmethod
    def initial(cls, config: RoundConfig, model: Float[Array, " d"], versions: int, devices: int) -> State:
        """Return the state before the first event of K `devices`: every version is w^0."""
        memory = jax.tree.map(
            lambda one: jnp.broadcast_to(one, (devices, *jnp.shape(one))), config.algorithm.memory(model)
        )
        optimiser = config.server.optimiser.init(model)
        server = config.algorithm.init_for(model, devices)
        spent_j = () if config.power.energy_budget_j is None else jnp.zeros(devices)
        return cls(jnp.tile(model, (versions, 1)), server, optimiser, memory, spent_j)


PER_DEVICE = ("weight", "amplitude", "similarity", "transmit_power_w", "channel_gain")  # columns of a log


class Log(NamedTuple):
    """The record of each event; the columns `PER_DEVICE` hold one number for each device that took part."""

    test_accuracy: Float[Array, ""]
    test_loss: Float[Array, ""]
    train_loss: Float[Array, ""]
    noise_std: Float[Array, ""]  # per weight, after normalisation
    finite: Bool[Array, ""]
    score_by_label: Float[Array, " C"]  # sum over the test samples of each label; NaN without evaluation
    weight: Float[Array, " n"]
    amplitude: Float[Array, " n"]
    similarity: Float[Array, " n"]
    transmit_power_w: Float[Array, " n"]
    channel_gain: Float[Array, " n"]  # |h_k|^2; NaN for a digital algorithm
    own: Mapping[str, Float[Array, ""]] = {}  # metrics of the algorithm's own
    left_out: Float[Array, " n"] | None = None  # parameters that were not sent; None: all devices send all of them


def event_places(devices: int, row_bytes: int, mesh: Mesh | None) -> tuple[int, int | None]:
    """Return (places for the devices of an event, devices in memory at once or None for all of them).

    Places are multiples of a vector. Small models have fewer sizes (16, 32, 48, 64, 96, 128, 192, ...), to compile few
    programs: there an empty place costs nothing. A sum over more places may round differently in its last bit.
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
    """Return the bytes of one device of an event: its model, and the longer of its update and its signal."""
    return 4 * (num_parameters + max(num_parameters, signal_size(algorithm, num_parameters)))


def _round_up(number: int, unit: int) -> int:
    return max(1, -(-number // unit)) * unit


def inputs_of(
    timeline: Timeline, first: int, shape: ProgramShape, evaluate: np.ndarray, *, most: int | None = None
) -> tuple[EventInputs, int]:
    """Return events `first`, `first` + 1, ... of a timeline, padded to the program's shape, and their number (<= `most`)."""
    count = min(shape.events if most is None else most, shape.events, len(timeline) - first)

    columns = {"round": first + np.arange(shape.events, dtype=np.int32)}
    columns |= {name: np.zeros(shape.events, kind) for name, kind in EVENT_TYPES.items()}
    columns |= {name: np.zeros((shape.events, shape.places), kind) for name, kind in DEVICE_TYPES.items()}
    part = slice(first, first + count)
    columns["time_s"][:count] = timeline.time_s[part]
    columns["evaluate"][:count] = evaluate[part]
    if timeline.aborted is not None:
        columns["aborted"][:count] = timeline.aborted.ready[part]
    if timeline.group is not None:
        columns["group"][:count] = timeline.group[part]
    columns["ready"][:count] = ready = np.arange(shape.places) < timeline.ready[part, None]
    columns["version"][:count] = columns["round"][:count, None]  # padding names a version of the ring buffer
    flat = slice(timeline.offsets[first], timeline.offsets[first + count])
    for name in ("device", "version", "training"):
        columns[name][:count][ready] = getattr(timeline, name)[flat]
    return EventInputs(**columns), count  # type: ignore[arg-type]  # NumPy on the host


EVENT_TYPES: dict[str, type] = {"time_s": np.float32, "evaluate": bool, "aborted": np.int32, "group": np.int32}
DEVICE_TYPES: dict[str, type] = {"ready": bool, "device": np.int32, "version": np.int32, "training": np.int32}
