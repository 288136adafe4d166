"""PAOTA, the paper's Algorithm 1: periodic aggregation over the air with optimised transmit power.

Kou, Ji, Zhong, Zhang: "Semi-Asynchronous Federated Edge Learning for Over-the-air Computation".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap, solve_powers
from ..power.settings import Power
from ..timing.schemes import Periodic
from .base import Algorithm, Amplitudes, DeviceResult, Event, Report


class LastHeard(NamedTuple):
    """What a device keeps with `similarity = "heard"`."""

    start: Float[Array, " d"]  # the model that its last training began with
    is_there: Float[Array, ""]  # 1, or 0 before its first training


@dataclass(frozen=True, kw_only=True)
class Paota(Algorithm):
    """`payload = "model"` sends w_k as printed; `"update"` sends dw_k, which the server adds to w^r.

    `similarity = "current"` compares dw_k with w^r - w^(r-1) as printed, which a stale device has to be told first;
    `"heard"` with what it knows: from the model of its last training to that of this one.
    """

    payload: str = setting(
        "model", options=("model", "update"), doc="What a device sends: its model, as the paper, or its update."
    )
    similarity: str = setting(
        "current",
        options=("current", "heard"),
        doc="To which global step: the newest one, as the paper, or the last one that the device has heard.",
    )
    scheme = Periodic()

    def memory(self, model: Float[Array, " d"]) -> Any:
        return LastHeard(model, jnp.zeros(())) if self.similarity == "heard" else ()

    def remember(self, result: DeviceResult) -> Any:
        return LastHeard(result.local_model - result.update, jnp.ones(())) if self.similarity == "heard" else ()

    def broadcast(self, num_parameters: int) -> int:
        return num_parameters if self.similarity == "current" else 0

    def report(self, result: DeviceResult) -> Report:
        step = result.model - result.previous_model
        if self.similarity == "heard":
            last = result.memory  # where it started, from where it started before; not from rounding at first
            step = last.is_there * (result.local_model - result.update - last.start)
        return {"similarity": similarity_factor(result.update, step)}

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        rho = staleness_factor(event.staleness, power.omega)
        theta = event.report["similarity"]
        p_max = amplitude_cap(uplink, event.energy, power.cap)
        p = solve_powers(
            rho, theta, p_max, event.ready, power,
            num_devices=event.num_devices, num_parameters=event.model.size, noise_power_w=uplink.noise_power_w,
        )  # Eq. asy:power_control, P2  # fmt: skip
        return Amplitudes(p, divisor=p.sum())  # varsigma of Eq. Normalization


def staleness_factor(staleness: jax.Array, omega: float) -> jax.Array:
    """rho_k = Omega / (s_k + Omega), 1 for a fresh update."""
    return omega / (staleness + omega)


def similarity_factor(update: jax.Array, global_step: jax.Array) -> jax.Array:
    """theta_k = (cos(dw_k, w^r - w^(r-1)) + 1) / 2 in [0, 1], from two vectors [d].

    The cosine is taken as 0 where either vector is zero, so theta = 1/2 in round 0, which the paper leaves open.
    """
    length = jnp.linalg.norm(update) * jnp.linalg.norm(global_step)
    cosine = jnp.where(length > 0, update @ global_step / jnp.where(length > 0, length, 1.0), 0.0)
    return (jnp.clip(cosine, -1.0, 1.0) + 1.0) / 2.0
