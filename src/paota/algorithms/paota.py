"""PAOTA, the paper's Algorithm 1: periodic aggregation over the air with optimised transmit power.

Kou, Ji, Zhong, Zhang: "Semi-Asynchronous Federated Edge Learning for Over-the-air Computation".
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink
from ..power.policy import amplitude_cap, optimise
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import Periodic
from .base import Algorithm, Amplitudes, Event, Report, Work


@dataclass(frozen=True, kw_only=True)
class Paota(Algorithm):
    """`payload = "model"` sends w_k as printed; `"update"` sends dw_k, which the server adds to w^r."""

    payload: str = setting(
        "model", options=("model", "update"), doc="What a device sends: its model, as the paper, or its update."
    )
    scheme = Periodic()

    def report(self, work: Work) -> Report:
        return {"similarity": similarity_factor(work.update, work.model - work.previous_model)}

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        rho = staleness_factor(event.staleness, power.omega)
        theta = event.report["similarity"]
        p_max = amplitude_cap(uplink, event.energy, power.cap)
        p = optimise(
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
