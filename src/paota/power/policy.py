"""The amplitude of each ready device, Eq. asy:power_control: beta from the optimum of P2, or a fixed rule for ablations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpy.typing import NDArray

from ..air.uplink import Uplink
from . import p2_jax
from .settings import MipOptions, Power


def amplitude_cap(uplink: Uplink, energy: Float[Array, " n"], cap: str) -> Float[Array, " n"]:
    """Return the largest amplitude p_k^max of every device, [n].

    Args:
        uplink: the channel of the round.
        energy: |payload_k|^2, [n].
        cap: "paper", the printed number, or "physical", the limit of Eq. individual_power, |h_k| sqrt(P)/|payload_k|.
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
    num_devices: Float[Array, ""] | float,
    num_parameters: int,
    noise_power_w: Float[Array, ""] | float,
) -> Float[Array, " n"]:
    """Return p_k = p_k^max (beta_k rho_k + (1 - beta_k) theta_k), 0 for devices that are not ready.

    Args:
        rho: staleness factors in [0, 1], [n].
        theta: similarity factors in [0, 1], [n].
        p_max: largest amplitudes, [n].
        ready: the devices that take part, [n].
        power: the settings of `[power]`.
        num_devices: K of P2.
        num_parameters: d of P2.
        noise_power_w: sigma_n^2 of P2.
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
            p = _mip_on_host(power, rho, theta, p_max, ready, (c1, c2))
        else:
            lo, hi = p_max * jnp.minimum(rho, theta), p_max * jnp.maximum(rho, theta)
            p, _ = p2_jax.solve(lo, hi, ready, c2 / c1)
    return jnp.where(ready, p, 0.0)


def _mip_on_host(
    power: Power,
    rho: Float[Array, " n"],
    theta: Float[Array, " n"],
    p_max: Float[Array, " n"],
    ready: Bool[Array, " n"],
    weights: tuple[Float[Array, ""] | float, Float[Array, ""] | float],
) -> Float[Array, " n"]:
    """Solve the integer programme, which has no compiled form: the program waits for HiGHS on the host."""
    from . import mip  # start-up time

    def solve(rho: Array, theta: Array, p_max: Array, ready: Array, *numbers: Array) -> NDArray[np.floating]:
        c1, c2, tolerance, time_limit_s = map(float, numbers)
        options = MipOptions(
            segments=power.segments,
            tolerance=tolerance,
            time_limit_s=time_limit_s,
            coordinates=power.coordinates,
            stopping=power.stopping,
            max_passes=power.max_passes,
        )
        host = np.asarray
        return mip.host_solve(host(rho), host(theta), host(p_max), host(ready), c1, c2, options=options)

    shape = jax.ShapeDtypeStruct(rho.shape, rho.dtype)
    # Numbers of the settings are arguments of the compiled program, so they have to travel with the arrays.
    inputs = (rho, theta, p_max, ready, *weights, power.tolerance, power.time_limit_s)
    amplitudes: Float[Array, " n"] = jax.pure_callback(solve, shape, *inputs, vmap_method="sequential")
    return amplitudes
