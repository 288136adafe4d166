"""The interface of an algorithm: a scheme (when the server aggregates, and which devices take part) and three steps.

    report       on the device    a few scalars for the control channel, from its own update and the broadcast models
    amplitudes   on the server    amplitude at which each device arrives, from those scalars and the channel
    next_model   on the server    w^(r+1) from the one received vector

Over the air the server receives only a sum, so no step gets the devices' models.

Axes: n devices that take part (padded), K devices in all, d parameters, m numbers of a signal.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.scheme import Scheme
from ..timing.schemes import Synchronous
from ..training.settings import Training

Report: TypeAlias = Mapping[str, Float[Array, "..."]]


class DeviceResult(NamedTuple):
    """The knowledge of one device after its local training."""

    local_model: Float[Array, " d"]  # w_k after its local steps
    update: Float[Array, " d"]  # dw_k = w_k - w^(r-s_k)
    loss: Float[Array, ""]  # mean over its mini-batches
    staleness: Int[Array, ""]  # s_k in rounds
    num_samples: Float[Array, ""]  # D_k
    model: Float[Array, " d"]  # w^r as broadcast
    previous_model: Float[Array, " d"]  # w^(r-1); w^r itself in round 0
    memory: PyTree[Array] = ()  # kept since the device last took part, of the form of `Algorithm.memory`
    state: PyTree[Array] = ()  # the server's state, broadcast with the model
    key: Key[Array, ""] | None = None  # for random draws of the device; None unless the algorithm `draws`


class Event(NamedTuple):
    """One aggregation, round r, as the server sees it."""

    round: Int[Array, ""]  # r
    model: Float[Array, " d"]  # w^r
    previous_model: Float[Array, " d"]  # w^(r-1); w^r itself in round 0
    device: Int[Array, " n"]  # k
    ready: Bool[Array, " n"]  # False for padding and for devices that may not send
    staleness: Int[Array, " n"]  # s_k in rounds
    num_samples: Float[Array, " n"]  # D_k
    energy: Float[Array, " n"]  # |payload_k|^2
    report: Report  # the reports of the devices, [n] each
    num_devices: Float[Array, ""]  # K, ready or not
    state: PyTree[Array]  # from `init` or the last `next_model`
    aborted: Int[Array, ""] | int = 0  # trainings that this event ends unfinished; their devices start again
    group: Int[Array, ""] | int = 0  # group of the event, for a scheme with groups; the fastest group is 0


class Amplitudes(NamedTuple):
    """Amplitude of each device, and the divisor of the received sum. The weights are amplitude / divisor.

    Args:
        divisor: number by which the server divides the received sum.
    """

    amplitude: Float[Array, " n"]  # p_k, 0 is silence; for a digital algorithm the weight itself
    divisor: Float[Array, ""] | float


class Heard(NamedTuple):
    """The signal that has reached the server."""

    received: Float[Array, " m"]  # y / divisor; m = d unless the algorithm has its own signal
    amplitude: Float[Array, " n"]  # p_k
    transmit_power_w: Float[Array, " n"] | None = None  # |phi_k payload_k|^2 in W; NaN for a digital algorithm
    max_power_w: Float[Array, ""] | Float[Array, " n"] | None = None  # P_max in W


class Step(NamedTuple):
    """The end of a round.

    Args:
        state: next state of the server.
        metrics: numbers of your own, by name; each becomes a column of the metrics.
    """

    model: Float[Array, " d"]  # w^(r+1)
    state: PyTree[Array] = ()
    share: Float[Array, ""] | float = 1.0  # of the received signal in the new model, for the record of the weights
    metrics: Mapping[str, Float[Array, ""] | float] = {}


class Algorithm(abc.ABC):
    """The base class of algorithms. Subclass it as a frozen dataclass; its fields are settings of the experiment file.

    All three steps are pure and traceable. If no device sends, w^(r+1) = w^r and the state does not change.
    """

    payload: str = "model"  # what a device sends: its "model" or its "update"
    over_the_air: ClassVar[bool] = True  # False: every device uploads separately over the digital uplink of `[air]`
    draws: ClassVar[bool] = False  # True: devices get a key for random draws, `DeviceResult.key`
    told_amplitudes: ClassVar[bool] = True  # False: devices choose their amplitudes without the server
    inverts_channels: ClassVar[bool] = True  # False: it has no precoder for several subcarriers

    @property
    @abc.abstractmethod
    def scheme(self) -> Scheme:
        """The scheme, which decides when the server aggregates and which devices start."""

    def for_training(self, training: Training) -> Self:
        """Return the algorithm for these settings of `[training]`, or raise a `UserError`; by default itself."""
        return self

    def signal(self, result: DeviceResult) -> Float[Array, " m"]:
        """Return the signal of a device; by default the model w_k or the update dw_k, as `payload` says (m = d).

        A signal of another length arrives in `next_model` with that length.

        Args:
            result: the local training of the device.
        """
        return result.local_model if self.payload == "model" else result.update

    def symbols(self, num_parameters: int, packed: bool) -> int:
        """Return the number of symbols of a signal: one per parameter, or one per two parameters if packed.

        Args:
            num_parameters: d.
            packed: whether two parameters share one complex symbol.
        """
        return -(-num_parameters // 2) if packed else num_parameters

    def sensitivity(self, clip_norm: float) -> float | None:
        """Return the largest change of the signal if a device's data are replaced and |dw_k| <= `clip_norm`.

        It is known if the signal is the model or the update. Otherwise it is None, unless a subclass overrides it.
        """
        return 2 * clip_norm if type(self).signal is Algorithm.signal else None

    def broadcast(self, num_parameters: int) -> int:
        """Return the count of numbers, besides the model, that stale devices need before they report; by default 0.

        Args:
            num_parameters: d.
        """
        return 0

    def announced_bits(self, num_parameters: int) -> int:
        """Return the bits that the server broadcasts in every event besides the model; by default 0.

        Args:
            num_parameters: d.
        """
        return 0

    def report(self, result: DeviceResult) -> Report:
        """Return the scalars that a device sends over the control channel; by default none.

        Args:
            result: the local training of the device.
        """
        return {}

    def assumed(self, uplink: Uplink) -> Uplink:
        """Return the channel that the algorithm assumes; by default the true one.

        Args:
            uplink: the true uplink.
        """
        return uplink

    @abc.abstractmethod
    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        """Return the amplitudes; values of devices that are not ready have no effect.

        Args:
            event: the round as the server sees it.
            uplink: the channel of the round.
            power: the settings of `[power]`.

        Returns:
            p_k [n] and the divisor of the sum: `average(p, event)`, `weights(p, event)` or `Amplitudes(p, divisor)`.
        """

    def next_model(self, event: Event, heard: Heard) -> Step:
        """Return the mean model itself, or w^r plus the mean update.  # Eq. Normalization

        Args:
            event: the round as the server sees it.
            heard: the received vector.

        Returns:
            w^(r+1) and the new state.
        """
        return Step(event.model + heard.received if self.payload == "update" else heard.received, event.state)

    def init(self, model: Float[Array, " d"]) -> PyTree[Array]:
        """Return the state that the server keeps between events besides the model; by default none.

        Args:
            model: the initial model w^0, [d].
        """
        return ()

    def init_for(self, model: Float[Array, " d"], num_devices: int) -> PyTree[Array]:
        """Return the state of a server that keeps records of each of its K devices; by default that of `init`.

        Args:
            model: the initial model w^0, [d].
            num_devices: K.
        """
        return self.init(model)

    def memory(self, model: Float[Array, " d"]) -> PyTree[Array]:
        """Return the memory of a device before its first event; by default none. `model` is w^0."""
        return ()

    def remember(self, result: DeviceResult) -> PyTree[Array]:
        """Return the new memory of a device that has sent, in the form of `memory`.

        Args:
            result: the local training of the device.
        """
        return result.memory

    def gradient_shift(self, memory: PyTree[Array], state: PyTree[Array]) -> Float[Array, " d"]:
        """Return the vector that a device adds to every gradient of its local training; without an override, none.

        Args:
            memory: the memory of the device.
            state: the server's state in the event in which the training ends.
        """
        raise NotImplementedError

    @property
    def shifts_gradients(self) -> bool:
        """True if local training differs from plain training, as in SCAFFOLD."""
        return type(self).gradient_shift is not Algorithm.gradient_shift


@dataclass(frozen=True, kw_only=True)
class SynchronousAlgorithm(Algorithm):
    """Rounds with a common start. `participants` devices count, by default PAOTA's mean number of ready devices.

    A random choice of `selected` devices starts each round, by default as many as count. The first devices to finish count
    and the others abort. `deadline_s` ends a round with the devices that have finished.
    """

    participants: int | None = setting(
        None,
        low=1,
        doc="Devices that count in a round; absent: as many as PAOTA has ready on average.",
        aliases=("clients_per_round", "fraction", "C", "sample_size"),
    )
    selected: int | None = setting(
        None,
        low=1,
        doc="Devices that start a round; the first `participants` to finish count. Absent: as many as count.",
    )
    deadline_s: float | None = setting(
        None,
        above=0,
        doc="Time limit of a round, which then ends with the devices that have finished; absent: no limit.",
        aliases=("deadline",),
    )

    @property
    def scheme(self) -> Synchronous:
        """The synchronous scheme with these settings."""
        return Synchronous(self.participants, self.selected, self.deadline_s)


def keeps_memory(algorithm: Algorithm) -> bool:
    """Return True if devices keep a memory from one event to the next."""
    return bool(jax.tree.leaves(jax.eval_shape(lambda: algorithm.memory(jnp.zeros(1)))))


def signal_size(algorithm: Algorithm, num_parameters: int) -> int:
    """Return m, the count of numbers in a device's signal for d parameters; nothing is computed."""

    def signal() -> Array:
        model, number = jnp.zeros(num_parameters), jnp.zeros(())
        key = jax.random.key(0) if algorithm.draws else None
        memory, state = algorithm.memory(model), algorithm.init_for(model, 1)
        return algorithm.signal(DeviceResult(model, model, number, number, number, model, model, memory, state, key))

    return jax.eval_shape(signal).size


def average(amplitude: Float[Array, " n"], event: Event) -> Amplitudes:
    """Return the amplitudes of a weighted mean, whose divisor is their sum.

    Args:
        amplitude: amplitudes of ready devices; the others are silent.
        event: the round.
    """
    p = jnp.where(event.ready, amplitude, 0.0)
    return Amplitudes(p, _or_one(p.sum()))


def weights(raw: Float[Array, " n"], event: Event) -> Amplitudes:
    """Return given weights of a digital algorithm, which are not normalised.

    Args:
        raw: the weights of ready devices; the others have weight 0.
        event: the round.
    """
    return Amplitudes(jnp.where(event.ready, raw, 0.0), 1.0)


def normalise(raw: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return nonnegative weights divided by their sum; zeros if the sum is zero.

    Args:
        raw: nonnegative weights, [n].
    """
    return raw / _or_one(raw.sum())


def _or_one(total: Float[Array, ""]) -> Float[Array, ""]:
    return jnp.where(total > 0, total, 1.0)
