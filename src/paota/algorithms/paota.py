"""PAOTA, the paper's Algorithm 1: periodic aggregation over the air with optimised transmit power.

Kou, Ji, Zhong, Zhang: "Semi-Asynchronous Federated Edge Learning for Over-the-air Computation".
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ..air.uplink import Uplink, invert
from ..power.policy import amplitude_cap, optimise
from ..power.settings import Power
from ..settings import setting
from ..timing.schemes import periodic
from ..timing.timeline import Timeline
from .base import Algorithm, Event, Outcome, World


@dataclass(frozen=True, kw_only=True)
class Paota(Algorithm):
    """`payload = "model"` sends w_k as printed; `"update"` sends dw_k, which the server adds to w^r."""

    payload: str = setting("model", options=("model", "update"))

    def timeline(self, world: World) -> Timeline:
        return periodic(world.latencies, period_s=world.period_s, horizon=world.horizon)

    def aggregate(self, event: Event, uplink: Uplink, power: Power) -> Outcome:
        payload = event.local_model if self.payload == "model" else event.update
        rho = staleness_factor(event.staleness, power.omega)
        theta = similarity_factor(event.update, event.model - event.previous_model)
        p_max = amplitude_cap(uplink, payload, power.cap)
        p = optimise(rho, theta, p_max, event, uplink, power)  # Eq. asy:power_control, P2

        phi = invert(p, uplink.channel)  # Eq. pre-processing_parameter
        y = uplink.transmit(phi, payload)  # Eq. Global_receive
        varsigma = p.sum()
        received = y / varsigma  # Eq. Normalization
        return Outcome(
            model=received if self.payload == "model" else event.model + received,
            weight=p / varsigma,
            amplitude=p,
            similarity=theta,
            transmit_power_w=uplink.transmit_power_w(phi, payload),
            noise_std=jnp.sqrt(uplink.noise_power_w / 2) / varsigma,
        )


def staleness_factor(staleness: jax.Array, omega: float) -> jax.Array:
    """rho_k = Omega / (s_k + Omega), 1 for a fresh update."""
    return omega / (staleness + omega)


def similarity_factor(update: jax.Array, global_step: jax.Array) -> jax.Array:
    """theta_k = (cos(dw_k, w^r - w^(r-1)) + 1) / 2 in [0, 1].

    The cosine is taken as 0 where either vector is zero, so theta = 1/2 in round 0, which the paper leaves open.
    """
    length = jnp.linalg.norm(update, axis=1) * jnp.linalg.norm(global_step)
    cosine = jnp.where(length > 0, update @ global_step / jnp.where(length > 0, length, 1.0), 0.0)
    return (jnp.clip(cosine, -1.0, 1.0) + 1.0) / 2.0
