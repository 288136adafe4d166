"""Small-scale fading: the complex channel coefficient h_k^r of each device in each round, with E|h|^2 = 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Key

from ..base.settings import setting
from ..base.units import db_to_ratio

SCATTERERS = 64  # of Clarke's model: E|h|^4 = 2 - 1/64, so the fades are as deep as Rayleigh's for all that matters


class ChannelModel(Protocol):
    """Block fading with a new draw in every round. A frozen dataclass; its fields are settings of `[air]`.

    A model with memory has `draw_at(key, time_s)` instead. Its key belongs to the device and stays the same in all
    rounds. The same key gives the whole path of the channel through time, so no state is carried.
    """

    def draw(self, key: Key[Array, ""]) -> Complex[Array, ""]:
        """Return h of one device in one round, from a key that belongs to that device and round alone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Rayleigh:
    """The paper's channel: h ~ CN(0, 1), independent across devices and rounds."""

    def draw(self, key: Key[Array, ""]) -> Complex[Array, ""]:
        real, imaginary = jax.random.normal(key, (2,)) * jnp.sqrt(0.5)
        return jax.lax.complex(real, imaginary)


@dataclass(frozen=True, kw_only=True)
class Rician:
    """A direct path beside scattered ones: h = sqrt(K/(K+1)) e^(j phi) + sqrt(1/(K+1)) CN(0, 1), phi uniform."""

    k_factor_db: float = setting(
        6.0, low=-100, high=100, doc="Power of the direct path relative to the scattered ones.", aliases=("k_factor",)
    )

    def draw(self, key: Key[Array, ""]) -> Complex[Array, ""]:
        a, b, c, d = jax.random.normal(key, (4,))
        direct = jax.lax.complex(a, b) / jnp.hypot(a, b)  # any direction is as likely as any other
        return _mix(direct, jax.lax.complex(c, d) * jnp.sqrt(0.5), self.k_factor_db)


@dataclass(frozen=True, kw_only=True)
class Jakes:
    """Fading that is correlated in time: E[h(t) conj(h(t + x))] = J0(2 pi f_d x), after Clarke and Jakes.

    h(t) = N^(-1/2) sum_n e^(j (2 pi f_d t cos a_n + phi_n)): N scatterers around the device, one in each sector of
    width 2 pi / N at a random angle a_n, phases phi_n uniform. `k_factor_db` mixes a direct path in, as for "rician".
    """

    doppler_hz: float = setting(0.02, low=0, doc="Doppler frequency f_d = speed / wavelength.", aliases=("doppler",))
    k_factor_db: float | None = setting(
        None,
        low=-100,
        high=100,
        doc="Power of a direct path relative to the scattered ones; absent: no direct path.",
        aliases=("k_factor",),
    )

    def draw_at(self, key: Key[Array, ""], time_s: Float[Array, ""]) -> Complex[Array, ""]:
        # A single draw for all numbers: separate draws would cost the compiler more than the channel.
        drawn = jax.random.uniform(key, (2, SCATTERERS + 1))
        angle = (jnp.arange(SCATTERERS) + drawn[0, 1:]) / SCATTERERS  # turns
        cycles = self.doppler_hz * time_s
        scattered = jnp.sum(_phasor(cycles * jnp.cos(2 * jnp.pi * angle) + drawn[1, 1:])) / jnp.sqrt(SCATTERERS)
        if self.k_factor_db is None:
            return scattered
        direct = _phasor(cycles * jnp.cos(2 * jnp.pi * drawn[0, 0]) + drawn[1, 0])
        return _mix(direct, scattered, self.k_factor_db)


@dataclass(frozen=True, kw_only=True)
class NoFading:
    """A constant channel, h = 1."""

    def draw(self, key: Key[Array, ""]) -> Complex[Array, ""]:
        return jax.lax.complex(jnp.ones(()), jnp.zeros(()))


def _phasor(turns: Float[Array, ...]) -> Complex[Array, ...]:
    radians = 2 * jnp.pi * turns
    return jax.lax.complex(jnp.cos(radians), jnp.sin(radians))


def _mix(direct: Complex[Array, ""], scattered: Complex[Array, ""], k_factor_db: float) -> Complex[Array, ""]:
    k = db_to_ratio(k_factor_db)
    return jnp.sqrt(k / (k + 1)) * direct + jnp.sqrt(1 / (k + 1)) * scattered
