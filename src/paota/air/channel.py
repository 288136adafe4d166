"""The `Uplink` of one event from the settings of `[air]`, and the combination of several receive antennas.

Every random draw has an address (seed, purpose, counters), so no state is carried from event to event. A combiner m of
length 1 turns the antennas into one scalar channel m^H h_k for each device. The noise m^H n is as strong as on one
antenna. docs/air.md explains the gain of a combiner. With several subcarriers there is one combiner for each of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, Int, Key

from ..base.rng import Purpose, draw_key
from .imported import RecordedChannel
from .precoding import precoded
from .profiles import delay_spread_s, profile
from .settings import Air
from .spending import symbols
from .uplink import Uplink, noise_power_w

COMBINERS = ("sum", "max-min", "mmse")
ASCENT_STEPS = 100  # more raise the least gain of 59 devices at 64 antennas by another 4 %
SHARPEST = 20.0  # the last power in the weights g^-p, which single out the weakest device
ALTERNATIONS = 10  # between the phases and the filter


def make_uplink(
    air: Air,
    seed: Key[Array, ""],
    *,
    max_power_w: Float[Array, ""] | float,
    round: Int[Array, ""],
    time_s: Float[Array, ""],
    device: Int[Array, " n"],
    ready: Bool[Array, " n"],
    num_parameters: int = 1,
    spectrum: Float[Array, "n F"] | None = None,
) -> Uplink:
    """Return the channel between devices and server in one round.

    Args:
        air: the settings of `[air]`.
        seed: key of the run.
        max_power_w: P_max in W.
        round: number of the round.
        time_s: simulated time of the event in s.
        device: numbers of the devices, [n].
        ready: the devices that take part, [n].
        num_parameters: d; a device spreads its power over its symbols, which only an MMSE combiner has to know.
        spectrum: energy of each payload on each subcarrier, [n, F]; None: the same on all of them.
    """
    noise_w = noise_power_w(air.bandwidth_hz, air.n0_dbm_per_hz)
    gain = mean_gain(air, seed, device)  # [n]
    flat = air.subcarriers == 1 and not isinstance(air.fading, RecordedChannel)
    if flat:
        true = jnp.sqrt(gain)[:, None] * small_scale(air, seed, round, time_s, device)  # h_k [n, antennas]
    else:
        true = jnp.sqrt(gain)[:, None, None] * selective(air, seed, round, time_s, device)  # [n, antennas, F]
    believed = true
    if air.csi_error is not None:
        error = _gaussian(draw_key(seed, Purpose.CHANNEL_ESTIMATE, round), device, true.shape[1:])  # CN(0, 1)
        believed = true + jnp.sqrt(air.csi_error * gain).reshape(-1, *[1] * (true.ndim - 1)) * error
    channel, actual = believed[:, 0], true[:, 0]
    if air.antennas > 1:
        noise_to_signal = noise_w * symbols(num_parameters, air) / max_power_w
        if flat:
            combiner = combining_vector(air.combiner, believed, ready, noise_to_signal)
            channel, actual = believed @ jnp.conj(combiner), true @ jnp.conj(combiner)
        else:
            combine = functools.partial(combining_vector, air.combiner, ready=ready, noise_to_signal=noise_to_signal)
            combiner = jax.vmap(combine, in_axes=2, out_axes=1)(believed)  # [antennas, F]
            channel, actual = (jnp.einsum("naf,af->nf", h, jnp.conj(combiner)) for h in (believed, true))
    if air.phase_error_rad is not None:
        error_rad = air.phase_error_rad * _per_device(
            draw_key(seed, Purpose.PHASE_ERROR, round), device, lambda key: jax.random.normal(key)
        )
        turn = jax.lax.complex(jnp.cos(error_rad), jnp.sin(error_rad))
        actual = actual * (turn if flat else turn[:, None])
    offset = None
    if air.timing_error_symbols is not None:
        offset = air.timing_error_symbols * _per_device(
            draw_key(seed, Purpose.TIMING_ERROR, round), device, lambda key: jax.random.uniform(key, minval=-1.0)
        )
    exact = air.csi_error is None and air.phase_error_rad is None
    uplink = Uplink(
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
    return uplink if flat else precoded(air, uplink, spectrum)


def mean_gain(air: Air, seed: Key[Array, ""], device: Int[Array, " n"]) -> Float[Array, " n"]:
    """Return E|h_k|^2 of each device as a power ratio; the position of a device does not change."""
    gain = _per_device(draw_key(seed, Purpose.POSITION), device, air.path_loss.gain)
    return gain * air.fading.gain[device] if isinstance(air.fading, RecordedChannel) else gain


def small_scale(
    air: Air, seed: Key[Array, ""], round: Int[Array, ""], time_s: Float[Array, ""], device: Int[Array, " n"]
) -> Complex[Array, "n antennas"]:
    """Return the fading of one subcarrier, with mean power 1; antennas fade independently."""
    h = _draws(air, seed, round, time_s, device, () if air.antennas == 1 else (air.antennas,))
    return h[:, None] if air.antennas == 1 else h


def selective(
    air: Air, seed: Key[Array, ""], round: Int[Array, ""], time_s: Float[Array, ""], device: Int[Array, " n"]
) -> Complex[Array, "n antennas F"]:
    """Return h(f) = sum_l sqrt(P_l) a_l e^(-j 2 pi f tau_l) at f = 0, B/F, 2B/F, ...; the taps a_l fade independently.

    Channels from a file are those of the file.
    """
    if isinstance(air.fading, RecordedChannel):
        return air.fading.at(device, time_s)
    delay, power = profile(air.delay_profile or "exponential")
    taps = _draws(air, seed, round, time_s, device, (air.antennas, len(delay))) * jnp.sqrt(power)
    spacing_hz = air.bandwidth_hz / air.subcarriers
    radians = -2 * jnp.pi * spacing_hz * delay_spread_s(air) * delay[:, None] * jnp.arange(air.subcarriers)
    return taps @ jax.lax.complex(jnp.cos(radians), jnp.sin(radians))


def _draws(
    air: Air, seed: Key[Array, ""], round: Int[Array, ""], time_s: Float[Array, ""], device: Int[Array, " n"],
    axes: tuple[int, ...],
) -> Complex[Array, "n ..."]:  # fmt: skip
    """Return independent draws of `air.fading` for each device, and for each place on further axes."""
    if hasattr(air.fading, "draw_at"):

        def draw(key: Key[Array, ""]) -> Complex[Array, ""]:
            h: Complex[Array, ""] = air.fading.draw_at(key, time_s)
            return h

        keys = _keys(draw_key(seed, Purpose.CHANNEL_FOR_LIFE), device)
    else:
        draw = air.fading.draw
        keys = _keys(draw_key(seed, Purpose.CHANNEL, round), device)
    for axis, places in enumerate(axes, 1):
        keys = _nested(functools.partial(_keys, counters=jnp.arange(places)), axis)(keys)
    return jnp.asarray(_nested(draw, 1 + len(axes))(keys))


def _nested(function: Callable[..., Array], axes: int) -> Callable[..., Array]:
    """Return the function mapped over this many leading axes."""
    return function if axes == 0 else _nested(jax.vmap(function), axes - 1)


def _gaussian(key: Key[Array, ""], device: Int[Array, " n"], shape: tuple[int, ...]) -> Complex[Array, "n ..."]:
    """Return CN(0, 1) for each device, antenna and subcarrier."""
    parts = _per_device(key, device, lambda k: jax.random.normal(k, (2, *shape))) * jnp.sqrt(0.5)
    return jax.lax.complex(parts[:, 0], parts[:, 1])


def _keys(key: Key[Array, ""], counters: Int[Array, " n"]) -> Key[Array, " n"]:
    return jax.vmap(lambda counter: jax.random.fold_in(key, counter))(counters)


def _per_device(
    key: Key[Array, ""], device: Int[Array, " n"], draw: Callable[[Key[Array, ""]], Array]
) -> Float[Array, "n ..."]:
    drawn: Array = jax.vmap(draw)(_keys(key, device))
    return drawn


def combining_vector(
    kind: str,
    channels: Complex[Array, "n antennas"],
    ready: Bool[Array, " n"],
    noise_to_signal: Float[Array, ""] | float = 0.0,
) -> Complex[Array, " antennas"]:
    """Return the combiner m of length 1 for the ready devices; zeros if no device is ready.

    Args:
        kind: "sum", the matched filter of the summed channel, m = sum_k h_k / |sum_k h_k|; "max-min", which makes the
            least gain |m^H h_k|^2 as large as the search finds; "mmse", the least squared error of the sum of all
            signals, with all devices at full power and in phase.
        channels: the channels that the receiver believes in, amplitude ratios.
        ready: the devices that take part.
        noise_to_signal: sigma^2 over the power with which a device may send a symbol.
    """
    heard = jnp.where(ready[:, None], channels, 0.0)
    matched = _unit(heard.sum(axis=0))
    if kind == "max-min":
        return _max_min(heard, ready, matched)
    if kind == "mmse":
        return _mmse(heard, matched, noise_to_signal)
    return matched


def _max_min(
    heard: Complex[Array, "n antennas"], ready: Bool[Array, " n"], start: Complex[Array, " antennas"]
) -> Complex[Array, " antennas"]:
    """Ascend on the gains g_k = |m^H h_k|^2 with weights g_k^-p, growing p and shrinking steps; return the best m.

    The problem is that of multicast beamforming, which has no efficient exact solution. The weights do not depend on
    scale, so gains that differ by orders of magnitude (path loss) do no harm.
    """

    def gains(m: Complex[Array, " antennas"]) -> Float[Array, " n"]:
        return jnp.where(ready, jnp.abs(heard @ jnp.conj(m)) ** 2, jnp.inf)

    def step(i: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
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


def _mmse(
    heard: Complex[Array, "n antennas"], start: Complex[Array, " antennas"], noise_to_signal: Float[Array, ""] | float
) -> Complex[Array, " antennas"]:
    """Return m ~ (sum_k h_k h_k^H + noise I)^-1 sum_k h_k e^(j phase_k), with the phases that devices correct for m."""
    antennas = heard.shape[1]
    scale = jnp.sum(jnp.abs(heard) ** 2) / antennas  # keeps the matrix regular where there is no noise
    loading = noise_to_signal + 1e-6 * jnp.where(scale > 0, scale, 1.0)
    covariance = heard.T @ jnp.conj(heard) + loading * jnp.eye(antennas)

    def step(_: Array, m: Complex[Array, " antennas"]) -> Complex[Array, " antennas"]:
        met = heard @ jnp.conj(m)  # m^H h_k
        size = jnp.abs(met)
        phase = jnp.conj(met) / jnp.where(size > 0, size, 1.0)
        return _unit(jnp.linalg.solve(covariance, phase @ heard))

    return jax.lax.fori_loop(0, ALTERNATIONS, step, start)


def _unit(vector: Complex[Array, " antennas"]) -> Complex[Array, " antennas"]:
    length = jnp.sqrt(jnp.sum(jnp.abs(vector) ** 2))
    return vector / jnp.where(length > 0, length, 1.0)
