"""How the learning rate changes from round to round: a factor, from the version of the model that a device starts from.

A device keeps its rate for a whole local training. All numbers are floats, so that a sweep over them compiles once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..base.settings import setting


class RateSchedule(Protocol):
    """A frozen dataclass whose fields are settings of `[training]`."""

    def factor(self, version: Int[Array, " n"]) -> Float[Array, " n"] | float:
        """Of the learning rate, for devices that start from these versions r."""
        ...


@dataclass(frozen=True, kw_only=True)
class Constant:
    """1."""

    def factor(self, version: Int[Array, " n"]) -> float:
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Cosine:
    """f + (1 - f) (1 + cos(pi r / R)) / 2 until r = R, then f; R is `decay_rounds` and f is `final_factor`."""

    decay_rounds: float = setting(100.0, above=0, doc="Rounds R of the formula.")
    final_factor: float = setting(0.0, low=0, high=1, doc="Factor f at the end.")

    def factor(self, version: Int[Array, " n"]) -> Float[Array, " n"]:
        progress = jnp.minimum(version / self.decay_rounds, 1.0)
        return self.final_factor + (1 - self.final_factor) * (1 + jnp.cos(jnp.pi * progress)) / 2


@dataclass(frozen=True, kw_only=True)
class Exponential:
    """c^(r / R), with c = `decay_factor` and R = `decay_rounds`."""

    decay_factor: float = setting(0.99, above=0, high=1, doc="Factor c of the formula.", aliases=("gamma",))
    decay_rounds: float = setting(1.0, above=0, doc="Rounds R of the formula.")

    def factor(self, version: Int[Array, " n"]) -> Float[Array, " n"]:
        return _power(self.decay_factor, version / self.decay_rounds)


@dataclass(frozen=True, kw_only=True)
class StepDecay:
    """c^floor(r / R): the rate drops to `decay_factor` of itself every `decay_rounds` rounds."""

    decay_factor: float = setting(0.1, above=0, high=1, doc="Factor c of the formula.", aliases=("gamma",))
    decay_rounds: float = setting(30.0, above=0, doc="Rounds R of the formula.")

    def factor(self, version: Int[Array, " n"]) -> Float[Array, " n"]:
        return _power(self.decay_factor, jnp.floor(version / self.decay_rounds))


def _power(base: float, exponent: jax.Array) -> jax.Array:
    return jnp.power(jnp.asarray(base, exponent.dtype), exponent)
