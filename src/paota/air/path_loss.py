"""Large-scale fading: the mean channel gain of a device by its position in the cell, drawn once per run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Float, Key

from ..base.settings import setting
from ..base.units import db_to_ratio

LIGHT_M_PER_S = 299_792_458.0
TINY = 1e-7  # keeps the uniform draws off 0, where the normal quantile is infinite


class PathLoss(Protocol):
    """A model of the mean channel gain: a frozen dataclass whose fields are settings of `[air]`."""

    def gain(self, key: Key[Array, ""]) -> Float[Array, ""]:
        """Return E|h_k|^2 as a power ratio, from a key that belongs to the device and is the same in every round."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoPathLoss:
    """Every device has mean gain 1, as in the paper."""

    def gain(self, key: Key[Array, ""]) -> Float[Array, ""]:
        return jnp.ones(())


@dataclass(frozen=True, kw_only=True)
class LogDistance:
    """PL(D) = PL(1 m) + 10 n log10(D / 1 m) + X dB, X ~ N(0, shadowing^2); devices uniform over a disc."""

    radius_m: float = setting(
        200.0, above=0, doc="Radius of the disc of the devices.", aliases=("radius", "cell_radius")
    )
    min_distance_m: float = setting(10.0, above=0, doc="Smallest distance of a device from the server.")
    reference_loss_db: float = setting(40.0, low=-100, high=200, doc="Loss at 1 m; 40 dB is free space at 2.4 GHz.")
    exponent: float = setting(3.0, low=0, high=10, doc="Loss exponent n.", aliases=("path_loss_exponent",))
    shadowing_db: float = setting(0.0, low=0, high=30, doc="Standard deviation of the shadowing.")

    def gain(self, key: Key[Array, ""]) -> Float[Array, ""]:
        place, shadow = jax.random.uniform(key, (2,), minval=TINY)
        distance_m = distance_in_disc(place, self.min_distance_m, self.radius_m)
        shadow_db = self.shadowing_db * ndtri(shadow)
        loss_db = self.reference_loss_db + 10 * self.exponent * jnp.log10(distance_m) + shadow_db
        return jnp.asarray(db_to_ratio(-loss_db))


@dataclass(frozen=True, kw_only=True)
class UrbanMicro:
    """3GPP TR 38.901, UMi - Street Canyon: line of sight with a probability that falls with distance; shadowing."""

    radius_m: float = setting(
        200.0, above=0, doc="Radius of the disc of the devices.", aliases=("radius", "cell_radius")
    )
    min_distance_m: float = setting(10.0, above=0, doc="Smallest distance of a device from the server.")
    carrier_ghz: float = setting(3.5, low=0.5, high=100, doc="Carrier frequency.", aliases=("carrier", "frequency"))
    base_height_m: float = setting(10.0, above=1, doc="Height of the server's antenna.")
    device_height_m: float = setting(1.5, above=1, doc="Height of the devices.")
    shadowing: bool = setting(True, doc="Draw the shadowing by obstacles.")

    def gain(self, key: Key[Array, ""]) -> Float[Array, ""]:
        place, sight, shadow = jax.random.uniform(key, (3,), minval=TINY)
        ground_m = distance_in_disc(place, self.min_distance_m, self.radius_m)
        in_sight = sight < sight_probability(ground_m)
        loss_db = jnp.where(in_sight, self.loss_in_sight_db(ground_m), self.loss_out_of_sight_db(ground_m))
        if self.shadowing:
            loss_db += jnp.where(in_sight, 4.0, 7.82) * ndtri(shadow)
        return jnp.asarray(db_to_ratio(-loss_db))

    def loss_in_sight_db(self, ground_m: Float[Array, ...]) -> Float[Array, ...]:
        """Return the loss of Table 7.4.1-1, UMi LOS: two slopes that meet at the breakpoint 4 h'_BS h'_UT f / c, h' = h - 1 m."""
        height_m = self.base_height_m - self.device_height_m
        direct_m = jnp.sqrt(ground_m**2 + height_m**2)
        break_m = 4 * (self.base_height_m - 1) * (self.device_height_m - 1) * self.carrier_ghz * 1e9 / LIGHT_M_PER_S
        carrier_db = 32.4 + 20 * jnp.log10(self.carrier_ghz)
        near_db = carrier_db + 21 * jnp.log10(direct_m)
        far_db = carrier_db + 40 * jnp.log10(direct_m) - 9.5 * jnp.log10(break_m**2 + height_m**2)
        return jnp.where(ground_m <= break_m, near_db, far_db)

    def loss_out_of_sight_db(self, ground_m: Float[Array, ...]) -> Float[Array, ...]:
        """Return the loss of Table 7.4.1-1, UMi NLOS; never less than in sight."""
        direct_m = jnp.sqrt(ground_m**2 + (self.base_height_m - self.device_height_m) ** 2)
        own_db = (
            22.4 + 35.3 * jnp.log10(direct_m) + 21.3 * jnp.log10(self.carrier_ghz) - 0.3 * (self.device_height_m - 1.5)
        )
        return jnp.maximum(self.loss_in_sight_db(ground_m), own_db)


def sight_probability(ground_m: Float[Array, ...]) -> Float[Array, ...]:
    """Return the probability of line of sight, Table 7.4.2-1, UMi: 1 up to 18 m, then 18/d + exp(-d/36) (1 - 18/d)."""
    ratio = jnp.minimum(18.0 / ground_m, 1.0)
    return ratio + jnp.exp(-ground_m / 36.0) * (1 - ratio)


def distance_in_disc(uniform: Float[Array, ...], min_distance_m: float, radius_m: float) -> Float[Array, ...]:
    """Return the distance from the centre of a point that is uniform over the ring between the two radii."""
    low, high = jnp.minimum(min_distance_m, radius_m) ** 2, jnp.asarray(radius_m) ** 2
    return jnp.sqrt(low + uniform * (high - low))
