"""Precoding over the subcarriers of an OFDM symbol: the effective channel of a device, and what it leaves out.

Parameter i of a payload travels on subcarrier i mod F. Device k sends v_kf payload_ki with v_kf = p_k r_kf conj(h_kf) /
|h_kf|^2, so it arrives on subcarrier f with amplitude p_k r_kf. The factors r_kf are 1 for full inversion, 1 or 0 for
truncated inversion, and |h_kf| / mean_f |h_kf| if only phases are corrected. With the energies e_kf of the payload, the
radiated power is sum_f |v_kf|^2 e_kf = p_k^2 |payload_k|^2 / g_k, where

    1 / g_k = sum_f (e_kf / |payload_k|^2) r_kf^2 / |h_kf|^2.

So g_k takes the place of |h_k|^2, and every rule of power control stays exact.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .settings import Air
from .uplink import Uplink


def precoded(air: Air, uplink: Uplink, spectrum: Float[Array, "n F"] | None) -> Uplink:
    """Return the uplink with one effective channel for each device, from an uplink whose channels are [n, F].

    A device without any subcarrier to send on is not ready.

    Args:
        air: the settings of `[air]`.
        uplink: the uplink with `channel` and `actual_channel` of every subcarrier.
        spectrum: energy of each payload on each subcarrier, [n, F]; None: the same on all of them.
    """
    h, full, exact = uplink.channel, air.precoding in (None, "full"), uplink.actual_channel is None
    gain = jnp.abs(h) ** 2
    energy = jnp.ones(h.shape) if spectrum is None else spectrum
    total = energy.sum(axis=1, keepdims=True)
    share = jnp.where(total > 0, energy / jnp.where(total > 0, total, 1.0), 1 / h.shape[1])
    relative = jnp.ones(h.shape)  # r_kf
    if air.precoding == "truncated":
        least = (0.1 if air.truncation is None else air.truncation) * uplink.mean_gain
        relative = jnp.where((gain >= jnp.broadcast_to(least, (len(h),))[:, None]) & (gain > 0), 1.0, 0.0)
    elif air.precoding == "phase":
        mean = jnp.abs(h).mean(axis=1, keepdims=True)
        relative = jnp.abs(h) / jnp.where(mean > 0, mean, 1.0)
    square = jnp.where(gain > 0, gain, 0.0 if full else 1.0)  # no power inverts a channel of zero
    needed = jnp.sum(share * relative**2 / square, axis=1)  # 1 / g_k
    possible = (needed > 0) & jnp.isfinite(needed)
    effective = jax.lax.rsqrt(jnp.where(possible, needed, 1.0))
    met = relative
    if uplink.actual_channel is not None:
        met = relative * uplink.actual_channel * jnp.conj(h) / jnp.where(gain > 0, gain, 1.0)
    return uplink._replace(
        channel=jax.lax.complex(effective, jnp.zeros_like(effective)), actual_channel=None,
        ready=uplink.ready & possible, relative=None if full else relative, met=None if full and exact else met,
    )  # fmt: skip
