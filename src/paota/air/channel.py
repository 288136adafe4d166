"""From the settings of `[air]` to the `Uplink` of one event. Every draw is addressed, so nothing is carried over."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ..base.rng import Purpose, draw_key
from .combining import combining_vector
from .settings import Air
from .spending import symbols
from .uplink import Uplink, noise_power_w


def make_uplink(
    air: Air,
    seed: jax.Array,
    *,
    max_power_w: Any,
    round: jax.Array,
    time_s: jax.Array,
    device: jax.Array,
    ready: jax.Array,
    num_parameters: int = 1,
) -> Uplink:
    """The air between the devices [n] and the server in one round, at a simulated time.

    `max_power_w`: P_max. `num_parameters`: d; the power of a device is shared out over its symbols, which only an MMSE
    combiner has to know.
    """
    noise_w = noise_power_w(air.bandwidth_hz, air.n0_dbm_per_hz)
    gain = mean_gain(air, seed, device)  # [n]
    true = jnp.sqrt(gain)[:, None] * small_scale(air, seed, round, time_s, device)  # h_k [n, antennas]
    believed = true
    if air.csi_error is not None:
        error = _gaussian(draw_key(seed, Purpose.CHANNEL_ESTIMATE, round), device, air.antennas)  # CN(0, 1)
        believed = true + jnp.sqrt(air.csi_error * gain)[:, None] * error
    channel, actual = believed[:, 0], true[:, 0]
    if air.antennas > 1:
        noise_to_signal = noise_w * symbols(num_parameters, air) / max_power_w
        combiner = combining_vector(air.combiner, believed, ready, noise_to_signal)
        channel, actual = believed @ jnp.conj(combiner), true @ jnp.conj(combiner)
    if air.phase_error_rad is not None:
        error_rad = air.phase_error_rad * _per_device(
            draw_key(seed, Purpose.PHASE_ERROR, round), device, lambda key: jax.random.normal(key)
        )
        actual = actual * jax.lax.complex(jnp.cos(error_rad), jnp.sin(error_rad))
    offset = None
    if air.timing_error_symbols is not None:
        offset = air.timing_error_symbols * _per_device(
            draw_key(seed, Purpose.TIMING_ERROR, round), device, lambda key: jax.random.uniform(key, minval=-1.0)
        )
    exact = air.csi_error is None and air.phase_error_rad is None
    return Uplink(
        channel=channel,
        ready=ready,
        noise_power_w=noise_w,
        max_power_w=jnp.asarray(max_power_w),
        noise_key=draw_key(seed, Purpose.NOISE, round),
        actual_channel=None if exact else actual,
        timing_offset=offset,
        mean_gain=gain,
        packed=air.packing == "complex",
    )


def mean_gain(air: Air, seed: jax.Array, device: jax.Array) -> jax.Array:
    """E|h_k|^2 of each device [n]: where it stands does not change."""
    return _per_device(draw_key(seed, Purpose.POSITION), device, air.path_loss.gain)


def small_scale(air: Air, seed: jax.Array, round: jax.Array, time_s: jax.Array, device: jax.Array) -> jax.Array:
    """Fading with mean power 1, complex [n, antennas]; antennas fade independently."""
    if hasattr(air.fading, "draw_at"):

        def draw(key: jax.Array) -> Any:
            return air.fading.draw_at(key, time_s)

        keys = _keys(draw_key(seed, Purpose.CHANNEL_FOR_LIFE), device)
    else:
        draw = air.fading.draw
        keys = _keys(draw_key(seed, Purpose.CHANNEL, round), device)
    if air.antennas == 1:
        return jnp.asarray(jax.vmap(draw)(keys))[:, None]
    antenna_keys = jax.vmap(lambda key: _keys(key, jnp.arange(air.antennas)))(keys)
    return jnp.asarray(jax.vmap(jax.vmap(draw))(antenna_keys))


def _gaussian(key: jax.Array, device: jax.Array, antennas: int) -> jax.Array:
    """CN(0, 1) for each device and antenna."""
    parts = _per_device(key, device, lambda k: jax.random.normal(k, (2, antennas))) * jnp.sqrt(0.5)
    return jax.lax.complex(parts[:, 0], parts[:, 1])


def _keys(key: jax.Array, counters: jax.Array) -> jax.Array:
    return jax.vmap(lambda counter: jax.random.fold_in(key, counter))(counters)


def _per_device(key: jax.Array, device: jax.Array, draw: Any) -> jax.Array:
    drawn: jax.Array = jax.vmap(draw)(_keys(key, device))
    return drawn
