"""What an algorithm is: a timeline (who takes part, when) and a server rule (how their signals become the next model)."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink
from ..timing.latency import Latencies
from ..timing.schemes import mean_ready, periodic
from ..timing.timeline import Horizon, Timeline

if TYPE_CHECKING:
    from ..experiment import Power


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
    weight: jax.Array  # alpha_k, sums to 1 over the ready devices
    amplitude: jax.Array  # p_k as received
    similarity: jax.Array  # theta_k
    transmit_power_w: jax.Array  # |phi_k payload_k|^2
    noise_std: jax.Array  # a weight, after normalisation
    state: Any = ()


@dataclass(frozen=True)
class World:
    """What a timeline is made from. Every algorithm of one experiment and seed gets the same latencies."""

    latencies: Latencies
    period_s: float
    horizon: Horizon

    def match_participants(self) -> int:
        """As many devices a round as PAOTA has ready on average: the paper's fairness rule."""
        return mean_ready(periodic(self.latencies, period_s=self.period_s, horizon=self.horizon))


class Algorithm(abc.ABC):
    """Subclass as a frozen dataclass; its fields are its settings in the experiment file."""

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


def mean_over_ready(values: jax.Array, weight: jax.Array) -> jax.Array:
    """sum_k weight_k values_k [d], with weights that sum to 1."""
    return weight @ values


def normalise(raw: jax.Array) -> jax.Array:
    """Nonnegative weights divided by their sum; zeros if there is none."""
    total = raw.sum()
    return raw / jnp.where(total > 0, total, 1.0)
