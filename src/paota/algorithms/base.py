"""What an algorithm is: a scheme (who takes part, when) and three steps that turn signals into the next model.

    report       on the device    a few scalars for the control channel, from its own update and the broadcast models
    amplitudes   on the server    how loud each device arrives, from those scalars and the air
    next_model   on the server    w^(r+1) from the one vector that was heard

Over the air the server hears a sum and nothing else, so no step is handed the devices' models.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.settings import Power
from ..timing.scheme import Scheme
from ..timing.schemes import Synchronous

Report = Mapping[str, Float[Array, "..."]]


class DeviceResult(NamedTuple):
    """What one device knows when its local training is over."""

    local_model: Float[Array, " d"]  # w_k after its local steps
    update: Float[Array, " d"]  # dw_k = w_k - w^(r-s_k)
    loss: Float[Array, ""]  # mean over its mini-batches
    staleness: Int[Array, ""]  # s_k
    num_samples: Float[Array, ""]  # D_k
    model: Float[Array, " d"]  # w^r as broadcast
    previous_model: Float[Array, " d"]  # w^(r-1); w^r itself in round 0
    memory: Any = ()  # what this device kept when it last took part, as `Algorithm.memory` makes it
    state: Any = ()  # the server's, broadcast with the model
    key: Any = None  # for draws of the device in this round; None unless the algorithm `draws`


class Event(NamedTuple):
    """One aggregation, round r, as the server sees it. n: devices that take part, padded; d: parameters."""

    round: Int[Array, ""]  # r
    model: Float[Array, " d"]  # w^r
    previous_model: Float[Array, " d"]  # w^(r-1); w^r itself in round 0
    device: Int[Array, " n"]  # k
    ready: Bool[Array, " n"]  # False is padding, or a device that may not send
    staleness: Int[Array, " n"]  # s_k
    num_samples: Float[Array, " n"]  # D_k
    energy: Float[Array, " n"]  # |payload_k|^2
    report: Report  # what the devices reported, [n] each
    num_devices: Float[Array, ""]  # K, ready or not
    state: Any  # what `init` or the last `next_model` left
    aborted: Int[Array, ""] | int = 0  # trainings that this event ends unfinished; those devices begin anew, too
    group: Int[Array, ""] | int = 0  # whose event it is, of a scheme that numbers its groups; the quickest is 0


class Amplitudes(NamedTuple):
    """How loud everybody arrives, and what the server divides the sum by. The weights are amplitude / divisor."""

    amplitude: Float[Array, " n"]  # p_k, 0 is silence; of a digital rule: the weight itself
    divisor: Float[Array, ""] | float


class Heard(NamedTuple):
    """What has reached the server."""

    received: Float[Array, " d"]  # y / divisor
    amplitude: Float[Array, " n"]
    transmit_power_w: Float[Array, " n"] | None = None  # |phi_k payload_k|^2 over the air; NaN for a digital rule
    max_power_w: Float[Array, ...] | None = None  # P_max


class Step(NamedTuple):
    """The end of a round."""

    model: Float[Array, " d"]  # w^(r+1)
    state: Any = ()
    share: Float[Array, ""] | float = 1.0  # of what was received, in the new model; for the record of the weights


class Algorithm(abc.ABC):
    """Subclass as a frozen dataclass; its fields are its settings in the experiment file.

    All three steps are pure and traceable. Where nobody sends, w^(r+1) = w^r and the state stays.
    """

    over_the_air: ClassVar[bool] = True  # False: every device uploads on its own, over the digital uplink of `[air]`
    draws: ClassVar[bool] = False  # True: devices get a key for draws of their own, `DeviceResult.key`
    told_amplitudes: ClassVar[bool] = True  # False: devices know how loud to be, and tell nobody their norm

    @property
    @abc.abstractmethod
    def scheme(self) -> Scheme:
        """When the server aggregates, and whom it waits for."""

    def signal(self, result: DeviceResult) -> Float[Array, " m"]:
        """What the device sends; by default as `payload` says, the model w_k or the update dw_k (m = d).

        A signal of another length arrives in `next_model` with that length.
        """
        return result.local_model if getattr(self, "payload", "model") == "model" else result.update

    def symbols(self, num_parameters: int, packed: bool) -> int:
        """How many symbols the signal takes: one for each of the d parameters, or for two of them where they are packed."""
        return -(-num_parameters // 2) if packed else num_parameters

    def sensitivity(self, clip_norm: float) -> float | None:
        """How far the signal can move when a device's data are replaced and |dw_k| <= `clip_norm`; None: not known.

        Known for signals that are the model or the update; a rule with a signal of its own may say so itself.
        """
        return 2 * clip_norm if type(self).signal is Algorithm.signal else None

    def broadcast(self, num_parameters: int) -> int:
        """Numbers that the server has to broadcast before stale devices can report, beside the model; none by default."""
        return 0

    def announced_bits(self, num_parameters: int) -> int:
        """Bits that the server broadcasts in every event beside the model, of its state for example; none by default."""
        return 0

    def report(self, result: DeviceResult) -> Report:
        """Scalars that the device tells the server over the control channel; none by default."""
        return {}

    def assumed(self, uplink: Uplink) -> Uplink:
        """The air as this scheme takes it to be; by default as it is."""
        return uplink

    @abc.abstractmethod
    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        """How loud each device arrives; what is said of devices that are not ready means nothing.

        Args:
            event: the round as the server sees it.
            uplink: the air.
            power: the settings of `[power]`.

        Returns:
            p_k [n] and what the server divides by: `average(p, event)`, `weights(p, event)` or `Amplitudes(p, divisor)`.
        """

    def next_model(self, event: Event, heard: Heard) -> Step:
        """By default the mean model itself, or w^r plus the mean update.  # Eq. Normalization

        Args:
            event: the round as the server sees it.
            heard: the one vector [d] that reached it.

        Returns:
            w^(r+1) and the new state.
        """
        update = getattr(self, "payload", "model") == "update"
        return Step(event.model + heard.received if update else heard.received, event.state)

    def init(self, model: Float[Array, " d"]) -> Any:
        """State that the server keeps between events beside the model; none by default."""
        return ()

    def init_for(self, model: Float[Array, " d"], num_devices: int) -> Any:
        """In place of `init`, for a server that keeps books on each of its K devices."""
        return self.init(model)

    def memory(self, model: Float[Array, " d"]) -> Any:
        """What every device keeps for itself before its first event, a pytree; none by default. `model` is w^0."""
        return ()

    def remember(self, result: DeviceResult) -> Any:
        """What the device keeps from now on, of the form that `memory` gave it; asked only of devices that have sent."""
        return result.memory

    def gradient_shift(self, memory: Any, state: Any) -> Float[Array, " d"]:
        """What one device adds to every gradient of its local training, from its memory and the server's state.

        Nothing unless it is overridden. The state is that of the event that the training ends in.
        """
        raise NotImplementedError

    @property
    def shifts_gradients(self) -> bool:
        """Whether local training differs from plain training, as in SCAFFOLD."""
        return type(self).gradient_shift is not Algorithm.gradient_shift


@dataclass(frozen=True, kw_only=True)
class SynchronousAlgorithm(Algorithm):
    """Rounds with a common start. `participants` devices count, None: PAOTA's mean number of ready ones.

    `selected` devices, drawn anew each round, start (None: as many as count); the first to finish count and the others
    abort. `deadline_s` ends a round with whoever has finished.
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
        doc="Ends a round with whoever has finished; absent: everybody is waited for.",
        aliases=("deadline",),
    )

    @property
    def scheme(self) -> Synchronous:
        return Synchronous(self.participants, self.selected, self.deadline_s)


def keeps_memory(algorithm: Algorithm) -> bool:
    """Whether its devices keep something from one event to the next."""
    return bool(jax.tree.leaves(jax.eval_shape(lambda: algorithm.memory(jnp.zeros(1)))))


def signal_size(algorithm: Algorithm, num_parameters: int) -> int:
    """m: how many numbers its devices send, for d parameters. Nothing is computed."""

    def signal() -> jax.Array:
        model, number = jnp.zeros(num_parameters), jnp.zeros(())
        key = jax.random.key(0) if algorithm.draws else None
        memory, state = algorithm.memory(model), algorithm.init_for(model, 1)
        return algorithm.signal(DeviceResult(model, model, number, number, number, model, model, memory, state, key))

    return jax.eval_shape(signal).size


def average(amplitude: Float[Array, " n"], event: Event) -> Amplitudes:
    """A weighted mean: what is heard is divided by the sum of the amplitudes.

    Args:
        amplitude: with which ready devices arrive, [n]; others are silent.
        event: the round.
    """
    p = jnp.where(event.ready, amplitude, 0.0)
    return Amplitudes(p, _or_one(p.sum()))


def weights(raw: Float[Array, " n"], event: Event) -> Amplitudes:
    """Of a digital rule: devices count with given weights, as they are.

    Args:
        raw: the weights of ready devices, [n]; others count 0.
        event: the round.
    """
    return Amplitudes(jnp.where(event.ready, raw, 0.0), 1.0)


def normalise(raw: jax.Array) -> jax.Array:
    """Nonnegative weights divided by their sum; zeros if there is none."""
    return raw / _or_one(raw.sum())


def _or_one(total: jax.Array) -> jax.Array:
    return jnp.where(total > 0, total, 1.0)
