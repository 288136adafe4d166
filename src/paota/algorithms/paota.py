"""PAOTA, the paper's Algorithm 1: periodic aggregation over the air with optimised transmit power.

Kou, Ji, Zhong, Zhang: "Semi-Asynchronous Federated Edge Learning Mechanism via Over-the-air Computation".

    Algorithm 1                                                  code
    every dT seconds, with all devices that have finished:       the scheme `Periodic`
        the devices report their similarity theta_k              `Paota.report`
        the server chooses p_k by P2 (Eq. asy:power_control)     `Paota.amplitudes`
        the devices send at once (Eq. Global_receive)            `Uplink.transmit`
        the server divides by varsigma (Eq. Normalization)       `Algorithm.next_model`
        the devices get w^(r+1) and start the next training      the scheme `Periodic`
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap, solve_powers
from ..power.settings import Power
from ..timing.schemes import Periodic
from .base import Algorithm, Amplitudes, DeviceResult, Event, Report


class LastHeard(NamedTuple):
    """Memory of a device with `similarity = "heard"`."""

    start: Float[Array, " d"]  # the model at the start of its last training
    is_there: Float[Array, ""]  # 1, or 0 before its first training


@dataclass(frozen=True, kw_only=True)
class Paota(Algorithm):
    """w^(r+1) = sum_k p_k w_k / sum_k p_k + noise over the ready devices, with amplitudes p_k that minimise the bound.

    `payload = "model"` sends w_k as printed; `"update"` sends dw_k, which the server adds to w^r. `similarity = "current"`
    compares dw_k with w^r - w^(r-1) as printed, which the server first has to broadcast to stale devices. `"heard"`
    compares it with a step that the device knows: from the model of its last training to that of this one.
    """

    payload: str = setting(
        "model", options=("model", "update"), doc="Signal of a device: its model, as in the paper, or its update."
    )
    similarity: str = setting(
        "current",
        options=("current", "heard"),
        doc="Global step to compare with: the newest one, as in the paper, or the last one that the device knows.",
    )
    scheme = Periodic()

    def memory(self, model: Float[Array, " d"]) -> PyTree[Array]:
        return LastHeard(model, jnp.zeros(())) if self.similarity == "heard" else ()

    def remember(self, result: DeviceResult) -> PyTree[Array]:
        return LastHeard(result.local_model - result.update, jnp.ones(())) if self.similarity == "heard" else ()

    def broadcast(self, num_parameters: int) -> int:
        return num_parameters if self.similarity == "current" else 0

    def report(self, result: DeviceResult) -> Report:
        step = result.model - result.previous_model
        if self.similarity == "heard":
            last = result.memory  # `is_there` keeps the first step at exactly zero, without rounding
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


def staleness_factor(staleness: Int[Array, " n"], omega: float) -> Float[Array, " n"]:
    """Return rho_k = Omega / (s_k + Omega), which is 1 for a fresh update."""
    return omega / (staleness + omega)


def similarity_factor(update: Float[Array, " d"], global_step: Float[Array, " d"]) -> Float[Array, ""]:
    """Return theta_k = (cos(dw_k, w^r - w^(r-1)) + 1) / 2 in [0, 1].

    The cosine counts as 0 if a vector is zero, so theta = 1/2 in round 0, which the paper leaves open.
    """
    length = jnp.linalg.norm(update) * jnp.linalg.norm(global_step)
    cosine = jnp.where(length > 0, update @ global_step / jnp.where(length > 0, length, 1.0), 0.0)
    return (jnp.clip(cosine, -1.0, 1.0) + 1.0) / 2.0
