"""Small-scale fading: the complex channel coefficient h_k^r of each device in each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp


class ChannelModel(Protocol):
    def draw(self, key: jax.Array) -> jax.Array:
        """h of one device in one round (complex scalar) from a key that belongs to that device and round alone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Rayleigh:
    """h ~ CN(0, 1), independent across devices and rounds: the paper's channel."""

    def draw(self, key: jax.Array) -> jax.Array:
        real, imaginary = jax.random.normal(key, (2,)) * jnp.sqrt(0.5)
        return jax.lax.complex(real, imaginary)


@dataclass(frozen=True, kw_only=True)
class NoFading:
    """h = 1."""

    def draw(self, key: jax.Array) -> jax.Array:
        return jax.lax.complex(jnp.ones(()), jnp.zeros(()))
