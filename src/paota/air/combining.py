"""Several receive antennas become one scalar channel for each device: m^H h_k, with a combiner m of length 1.

The noise m^H n is then as strong as on one antenna. What a combiner is good for is said in docs/air.md.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Shaped

COMBINERS = ("sum", "max-min", "mmse")
ASCENT_STEPS = 100  # more raise the least gain of 59 devices at 64 antennas by another 4 %
SHARPEST = 20.0  # the last power in the weights g^-p, which single out the weakest device
ALTERNATIONS = 10  # between the phases and the filter

Channels = Shaped[Array, "n antennas"]  # complex
Combiner = Shaped[Array, " antennas"]  # complex, of length 1; zeros if nobody is ready


def combining_vector(
    kind: str, channels: Channels, ready: Bool[Array, " n"], noise_to_signal: Float[Array, ""] | float = 0.0
) -> Combiner:
    """m for the `channels` that the receiver believes in, made for the devices that are ready.

    "sum": the matched filter of the summed channel, m = sum_k h_k / |sum_k h_k|. "max-min": the weakest device's gain
    |m^H h_k|^2 as large as can be found. "mmse": the least squared error of the sum of all signals, everybody at full
    power and in phase; `noise_to_signal` is sigma^2 over the power with which a device may send a symbol.
    """
    heard = jnp.where(ready[:, None], channels, 0.0)
    matched = _unit(heard.sum(axis=0))
    if kind == "max-min":
        return _max_min(heard, ready, matched)
    if kind == "mmse":
        return _mmse(heard, matched, noise_to_signal)
    return matched


def _max_min(heard: Channels, ready: Bool[Array, " n"], start: Combiner) -> Combiner:
    """Ascent on the gains g_k = |m^H h_k|^2 with weights g_k^-p, p growing and steps shrinking; the best m met on the way.

    The problem is that of multicast beamforming and has no efficient exact solution. The weights are free of scale, so
    that path loss, where gains differ by orders of magnitude, changes nothing.
    """

    def gains(m: Combiner) -> Float[Array, " n"]:
        return jnp.where(ready, jnp.abs(heard @ jnp.conj(m)) ** 2, jnp.inf)

    def step(i: jax.Array, carry: tuple[Combiner, Combiner, jax.Array]) -> tuple[Combiner, Combiner, jax.Array]:
        m, best, least = carry
        gain = gains(m)
        better = gain.min() > least
        best, least = jnp.where(better, m, best), jnp.maximum(gain.min(), least)
        left = 1.0 - i / ASCENT_STEPS
        power = 1.0 + (SHARPEST - 1.0) * (1.0 - left)
        smallest = jnp.maximum(gain.min(), jnp.finfo(gain.dtype).tiny)
        weight = jnp.where(ready, (smallest / jnp.maximum(gain, smallest)) ** power, 0.0)
        uphill = (weight * jnp.conj(heard @ jnp.conj(m))) @ heard  # sum_k weight_k h_k (h_k^H m)
        return _unit(m + 0.5 * left * _unit(uphill)), best, least

    nothing = jnp.asarray(-1.0, jnp.abs(start).dtype)
    m, best, least = jax.lax.fori_loop(0, ASCENT_STEPS, step, (start, start, nothing))
    return jnp.where(gains(m).min() > least, m, best)


def _mmse(heard: Channels, start: Combiner, noise_to_signal: Float[Array, ""] | float) -> Combiner:
    """m ~ (sum_k h_k h_k^H + noise I)^-1 sum_k h_k e^(j phase_k), the phases those that devices correct for this m."""
    antennas = heard.shape[1]
    scale = jnp.sum(jnp.abs(heard) ** 2) / antennas  # keeps the matrix regular where there is no noise
    loading = noise_to_signal + 1e-6 * jnp.where(scale > 0, scale, 1.0)
    covariance = heard.T @ jnp.conj(heard) + loading * jnp.eye(antennas)

    def step(_: jax.Array, m: Combiner) -> Combiner:
        met = heard @ jnp.conj(m)  # m^H h_k
        size = jnp.abs(met)
        phase = jnp.conj(met) / jnp.where(size > 0, size, 1.0)
        return _unit(jnp.linalg.solve(covariance, phase @ heard))

    return jax.lax.fori_loop(0, ALTERNATIONS, step, start)


def _unit(vector: Combiner) -> Combiner:
    length = jnp.sqrt(jnp.sum(jnp.abs(vector) ** 2))
    return vector / jnp.where(length > 0, length, 1.0)
