"""How loud each ready device transmits: Eq. asy:power_control, beta by the optimiser of P2 or fixed for ablations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..air.uplink import Uplink
from ..algorithms.base import Event
from . import p2_jax as exact_jax
from .settings import Power


def amplitude_cap(uplink: Uplink, payload: jax.Array, cap: str) -> jax.Array:
    """p_k^max. "paper": the printed number; "physical": what Eq. individual_power allows, |h_k| sqrt(P)/|payload_k|."""
    if cap == "paper":
        return jnp.broadcast_to(uplink.max_power_w, uplink.ready.shape)
    norm = jnp.linalg.norm(payload, axis=1)
    return jnp.abs(uplink.channel) * jnp.sqrt(uplink.max_power_w) / jnp.where(norm > 0, norm, 1.0)


def optimise(
    rho: jax.Array, theta: jax.Array, p_max: jax.Array, event: Event, uplink: Uplink, power: Power
) -> jax.Array:
    """p_k = p_k^max (beta_k rho_k + (1 - beta_k) theta_k), 0 for devices that are not ready, [n]."""
    if power.method == "staleness":
        p = p_max * rho
    elif power.method == "similarity":
        p = p_max * theta
    elif power.method == "uniform":
        p = jnp.broadcast_to(jnp.min(jnp.where(event.ready, p_max, jnp.inf)), p_max.shape)
    else:
        c1 = power.smoothness * power.epsilon2 * event.num_devices
        c2 = 2 * power.smoothness * event.model.size * uplink.noise_power_w
        if power.method == "mip":
            p = _mip_on_host(rho, theta, p_max, event.ready, c1, c2, power)
        else:
            lo, hi = p_max * jnp.minimum(rho, theta), p_max * jnp.maximum(rho, theta)
            p, _ = exact_jax.solve(lo, hi, event.ready, c2 / c1)
    return jnp.where(event.ready, p, 0.0)


def _mip_on_host(
    rho: jax.Array, theta: jax.Array, p_max: jax.Array, ready: jax.Array, c1: jax.Array, c2: jax.Array, power: Power
) -> jax.Array:
    """The integer programme has no compiled form: the program stops for it and calls HiGHS on the host."""
    from . import mip

    def solve(*arrays: jax.Array) -> np.ndarray:
        *instance, tolerance = (np.asarray(array) for array in arrays)
        return mip.host_solve(*instance, segments=power.segments, tolerance=float(tolerance))

    shape = jax.ShapeDtypeStruct(rho.shape, rho.dtype)
    inputs = (rho, theta, p_max, ready, c1, c2, power.tolerance)
    powers: jax.Array = jax.pure_callback(solve, shape, *inputs, vmap_method="sequential")
    return powers
