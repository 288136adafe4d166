"""Faults and guards inside the compiled program: corrupted updates, checks before sending, and faults of the channel."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ..air.uplink import Uplink
from ..base.rng import Purpose, draw_key
from ..base.units import db_to_ratio
from . import Faults, Guards

SQUARES_SAFE = 2.0**40  # entries up to here can be squared and added up, whatever the number of parameters
CORRUPTED, DEEP_FADE, CSI_OUTAGE = range(4, 7)


class Checked(NamedTuple):
    """The devices' models and updates after faults and guards."""

    local_model: Float[Array, "n d"]
    update: Float[Array, "n d"]
    ready: Bool[Array, " n"]  # devices that may still transmit
    start: Float[Array, "n d"] | None = None  # models before the training; only `max_update_norm` needs them


def corrupt_and_guard(
    faults: Faults, guards: Guards, seed: Key[Array, ""], device: Int[Array, " n"], work: Checked
) -> Checked:
    """Apply the faults, then the guards: a device checks the update that it is about to send."""
    if faults.corrupted is not None:
        bad = _happens(seed, CORRUPTED, faults.corrupted, device)[:, None]
        wrong = {"nan": jnp.nan, "sign-flip": -1.0, "scale": faults.scale}[faults.corruption] * work.update
        start = work.local_model - work.update
        work = work._replace(
            update=jnp.where(bad, wrong, work.update), local_model=jnp.where(bad, start + wrong, work.local_model)
        )
    if guards.max_update_norm is not None:
        assert work.start is not None
        long, shorter = _shortened(work.update, guards.max_update_norm)
        work = work._replace(
            update=jnp.where(long, shorter, work.update),
            local_model=jnp.where(long, work.start + shorter, work.local_model),  # from the start, so nothing cancels
        )
    if guards.reject_non_finite:
        fine = jnp.isfinite(work.local_model).all(axis=1)
        # Zeros instead of NaN: a silent device has weight 0, and 0 * NaN would still be NaN.
        work = work._replace(
            local_model=jnp.where(fine[:, None], work.local_model, 0.0),
            update=jnp.where(fine[:, None], work.update, 0.0),
            ready=work.ready & fine,
        )
    return work


def _shortened(
    update: Float[Array, "n d"], most: Float[Array, ""] | float
) -> tuple[Bool[Array, "n 1"], Float[Array, "n d"]]:
    """Return a flag for each update that is longer than `most`, and all updates with that length.

    Squares of numbers beyond 1e19 overflow. A very long update is therefore divided by a power of two first, which loses
    no bit.
    """
    peak = jnp.abs(update).max(axis=1, keepdims=True)
    exponent = jnp.where((peak > SQUARES_SAFE) & jnp.isfinite(peak), jnp.frexp(peak)[1], 0)
    scaled = jnp.ldexp(update, -exponent)
    length = jnp.linalg.norm(scaled, axis=1, keepdims=True)
    long = jnp.ldexp(length, exponent) > most
    return long, scaled * (most / jnp.where(long, length, 1.0))


def disturb(
    faults: Faults, seed: Key[Array, ""], round: Int[Array, ""], device: Int[Array, " n"], uplink: Uplink
) -> Uplink:
    """Apply faults of the channel.

    Deep fades weaken the true channel and are known to all. In a CSI outage a device precodes for an unrelated channel.
    """
    if faults.deep_fades is not None:
        deep = _happens(seed, DEEP_FADE, faults.deep_fades, device, round)
        factor = jnp.where(deep, jnp.sqrt(db_to_ratio(-faults.fade_db)), 1.0)
        actual = uplink.actual_channel
        uplink = uplink._replace(
            channel=uplink.channel * factor, actual_channel=None if actual is None else actual * factor
        )
    if faults.csi_outage is not None:
        out = _happens(seed, CSI_OUTAGE, faults.csi_outage, device, round)
        parts = jax.vmap(lambda k: jax.random.normal(draw_key(seed, Purpose.FAULT, CSI_OUTAGE, round, k, 1), (2,)))(
            device
        )
        imagined = jnp.sqrt(uplink.mean_gain / 2) * jax.lax.complex(parts[:, 0], parts[:, 1])
        actual = uplink.channel if uplink.actual_channel is None else uplink.actual_channel
        uplink = uplink._replace(channel=jnp.where(out, imagined, uplink.channel), actual_channel=actual)
    return uplink


def _happens(
    seed: Key[Array, ""],
    kind: int,
    probability: Float[Array, ""] | float,
    device: Int[Array, " n"],
    *counters: Int[Array, ""],
) -> Bool[Array, " n"]:
    """Return a random flag per device; without further counters it holds for the whole run."""
    draws = jax.vmap(lambda k: jax.random.uniform(draw_key(seed, Purpose.FAULT, kind, *counters, k)))(device)
    return draws < probability
