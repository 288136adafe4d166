"""What an algorithm is: a timeline (who takes part, when) and a server rule (how signals become the next model)."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink, invert
from ..power.settings import Power
from ..timing.latency import Latencies
from ..timing.schemes import mean_ready, periodic
from ..timing.timeline import Horizon, Timeline


class Event(NamedTuple):
    """One aggregation, round r. Axes: n devices that take part (padded to a fixed number), d parameters."""

    round: jax.Array  # r
    model: jax.Array  # w^r [d]
    previous_model: jax.Array  # w^(r-1) [d]; w^r itself in round 0
    local_model: jax.Array  # w_k after M local steps [n, d]
    update: jax.Array  # dw_k = w_k - w^(r-s_k) [n, d]
    staleness: jax.Array  # s_k [n]
    num_samples: jax.Array  # D_k [n]
    ready: jax.Array  # bool [n]; False is padding
    num_devices: jax.Array  # K, ready or not
    state: Any  # what `init` or the last `aggregate` left


class Outcome(NamedTuple):
    """The next global model and what is worth logging. [n] arrays; NaN where a quantity does not apply."""

    model: jax.Array  # w^(r+1) [d]
    weight: jax.Array  # alpha_k; sums to 1 over the ready devices, or to less where w^r keeps the rest
    amplitude: jax.Array  # p_k as received
    similarity: jax.Array  # theta_k
    transmit_power_w: jax.Array  # |phi_k payload_k|^2
    noise_std: jax.Array  # a weight, after normalisation
    state: Any = ()


@dataclass(frozen=True)
class World:
    """What a timeline is made from. Every algorithm of one experiment and seed gets the same latencies."""

    latencies: Latencies  # with the upload behind each training, where the uplink is digital and not ideal
    period_s: float
    horizon: Horizon
    computing: Latencies | None = None  # without uploads, where that differs

    def match_participants(self) -> int:
        """As many devices a round as PAOTA has ready on average: the paper's fairness rule."""
        return mean_ready(periodic(self.computing or self.latencies, period_s=self.period_s, horizon=self.horizon))

    def match_updates(self) -> int | None:
        """As many device updates in all as a synchronous rival makes in its rounds; None where time sets the end."""
        return None if self.horizon.rounds is None else self.horizon.rounds * self.match_participants()


class Algorithm(abc.ABC):
    """Subclass as a frozen dataclass; its fields are its settings in the experiment file."""

    over_the_air: ClassVar[bool] = True  # False: every device uploads on its own, over the digital uplink of `[air]`

    @abc.abstractmethod
    def timeline(self, world: World) -> Timeline: ...

    @abc.abstractmethod
    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        """Pure and traceable. With nobody ready the result is discarded and w^(r+1) = w^r."""

    def init(self, model: jax.Array) -> Any:
        """State that the server keeps between events beside the model; none by default."""
        return ()


def not_applicable(event: Event) -> jax.Array:
    return jnp.full(event.ready.shape, jnp.nan)


def normalise(raw: jax.Array) -> jax.Array:
    """Nonnegative weights divided by their sum; zeros if there is none."""
    total = raw.sum()
    return raw / jnp.where(total > 0, total, 1.0)


def digital_outcome(event: Event, model: jax.Array, weight: jax.Array) -> Outcome:
    """The outcome of a rule that has every device's model without noise: there is no amplitude and no analog power."""
    none = not_applicable(event)
    nan = jnp.asarray(jnp.nan)
    return Outcome(model, weight, amplitude=none, similarity=none, transmit_power_w=none, noise_std=nan)


def superpose(event: Event, uplink: Uplink, amplitude: jax.Array, payload: jax.Array) -> Outcome:
    """Everybody sends `payload` so that it arrives with `amplitude` p_k; `model` is y / sum p, weights p_k / sum p.

    Amplitude 0 is silence. A rule with a model of its own making replaces that field.
    """
    total = amplitude.sum()
    total = jnp.where(total > 0, total, 1.0)
    precoder = invert(amplitude, uplink.channel)
    return Outcome(
        model=uplink.transmit(precoder, payload) / total,
        weight=amplitude / total,
        amplitude=amplitude,
        similarity=not_applicable(event),
        transmit_power_w=uplink.transmit_power_w(precoder, payload),
        noise_std=jnp.sqrt(uplink.noise_power_w / 2) / total,
    )
