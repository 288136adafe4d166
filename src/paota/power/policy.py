"""How loud each ready device transmits: Eq. asy:power_control, beta by the optimiser of P2 or fixed for ablations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..air.uplink import Uplink
from . import p2_jax
from .settings import Power


def amplitude_cap(uplink: Uplink, energy: Float[Array, " n"], cap: str) -> Float[Array, " n"]:
    """p_k^max of every device, [n].

    Args:
        uplink: the air.
        energy: |payload_k|^2, [n].
        cap: "paper", the printed number; "physical", what Eq. individual_power allows, |h_k| sqrt(P)/|payload_k|.
    """
    if cap == "paper":
        return jnp.broadcast_to(uplink.max_power_w, uplink.ready.shape)
    norm = jnp.sqrt(energy)
    return jnp.abs(uplink.channel) * jnp.sqrt(uplink.max_power_w) / jnp.where(norm > 0, norm, 1.0)


def solve_powers(
    rho: Float[Array, " n"],
    theta: Float[Array, " n"],
    p_max: Float[Array, " n"],
    ready: Bool[Array, " n"],
    power: Power,
    *,
    num_devices: jax.Array | float,
    num_parameters: int,
    noise_power_w: jax.Array | float,
) -> Float[Array, " n"]:
    """p_k = p_k^max (beta_k rho_k + (1 - beta_k) theta_k), 0 for devices that are not ready.

    `rho` and `theta` are the staleness and similarity factors in [0, 1]; `num_devices` is K, `num_parameters` d and
    `noise_power_w` sigma_n^2 of P2.
    """
    if power.method == "staleness":
        p = p_max * rho
    elif power.method == "similarity":
        p = p_max * theta
    elif power.method == "uniform":
        p = jnp.broadcast_to(jnp.min(jnp.where(ready, p_max, jnp.inf)), p_max.shape)
    else:
        c1 = power.smoothness * power.epsilon2 * num_devices
        c2 = 2 * power.smoothness * num_parameters * noise_power_w
        if power.method == "mip":
            p = _mip_on_host(rho, theta, p_max, ready, c1, c2, power)
        else:
            lo, hi = p_max * jnp.minimum(rho, theta), p_max * jnp.maximum(rho, theta)
            p, _ = p2_jax.solve(lo, hi, ready, c2 / c1)
    return jnp.where(ready, p, 0.0)


def _mip_on_host(
    rho: jax.Array, theta: jax.Array, p_max: jax.Array, ready: jax.Array,
    c1: jax.Array | float, c2: jax.Array | float, power: Power,
) -> jax.Array:  # fmt: skip
    """The integer programme has no compiled form: the program stops for it and calls HiGHS on the host."""
    from . import mip

    def solve(*arrays: jax.Array) -> np.ndarray:
        *instance, tolerance, time_limit_s = (np.asarray(array) for array in arrays)
        return mip.host_solve(
            *instance,
            segments=power.segments,
            tolerance=float(tolerance),
            time_limit_s=float(time_limit_s),
            coordinates=power.coordinates,
            stopping=power.stopping,
            max_passes=power.max_passes,
        )

    shape = jax.ShapeDtypeStruct(rho.shape, rho.dtype)
    # Numbers of the settings are arguments of the compiled program, so they have to travel with the arrays.
    inputs = (rho, theta, p_max, ready, c1, c2, power.tolerance, power.time_limit_s)
    powers: jax.Array = jax.pure_callback(solve, shape, *inputs, vmap_method="sequential")
    return powers
