"""Server optimisers take the movement of the global model, Delta = w' - w^r for an algorithm's own w', as a pseudo-gradient.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2. FedAvgM is from Hsu, Qi and Brown, "Measuring the
Effects of Non-Identical Data Distribution for Federated Visual Classification", 2019. The server needs only Delta, so the
optimisers also work over the air, on the received signal with its noise.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..base.settings import setting

Vector: TypeAlias = Float[Array, " d"]
Memory = TypeVar("Memory")


class ServerOptimiser(Protocol[Memory]):
    """A frozen dataclass whose fields are settings of `[server]`."""

    def init(self, model: Vector) -> Memory:
        """Return the memory before the first round, a pytree."""
        ...

    def step(self, movement: Vector, memory: Memory) -> tuple[Vector, Memory]:
        """Return the step that is added to w^r in place of `movement`, and the new memory."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoOptimiser:
    """The next model is the algorithm's own."""

    def init(self, model: Vector) -> tuple[()]:
        return ()

    def step(self, movement: Vector, memory: tuple[()]) -> tuple[Vector, tuple[()]]:
        return movement, memory


@dataclass(frozen=True, kw_only=True)
class ServerSgd:
    """w^(r+1) = w^r + learning_rate Delta."""

    learning_rate: float = setting(1.0, above=0, doc="Server learning rate.", aliases=("server_lr",))

    def init(self, model: Vector) -> tuple[()]:
        return ()

    def step(self, movement: Vector, memory: tuple[()]) -> tuple[Vector, tuple[()]]:
        return self.learning_rate * movement, memory


@dataclass(frozen=True, kw_only=True)
class FedAvgM:
    """m <- momentum m + Delta; w^(r+1) = w^r + learning_rate m."""

    learning_rate: float = setting(1.0, above=0, doc="Server learning rate.", aliases=("server_lr",))
    momentum: float = setting(
        0.9, low=0, high=1, doc="Share of the last step that is kept.", aliases=("server_momentum",)
    )

    def init(self, model: Vector) -> Vector:
        return jnp.zeros_like(model)

    def step(self, movement: Vector, memory: Vector) -> tuple[Vector, Vector]:
        m = self.momentum * memory + movement
        return self.learning_rate * m, m


@dataclass(frozen=True, kw_only=True)
class Adaptive(abc.ABC):
    """m <- beta1 m + (1 - beta1) Delta; v from v and Delta^2; w^(r+1) = w^r + learning_rate m / (sqrt(v) + tau).

    As printed, neither has a bias correction. m starts at 0 and v at tau^2, the least that the paper allows.
    """

    learning_rate: float = setting(0.1, above=0, doc="Server learning rate.", aliases=("server_lr",))
    beta1: float = setting(0.9, low=0, high=1, doc="Decay rate of the mean movement.")
    beta2: float = setting(0.99, low=0, high=1, doc="Decay rate of the mean squared movement.")
    tau: float = setting(1e-3, above=0, doc="Degree of adaptivity.")

    def init(self, model: Vector) -> tuple[Vector, Vector]:
        return jnp.zeros_like(model), jnp.full_like(model, self.tau**2)

    def step(self, movement: Vector, memory: tuple[Vector, Vector]) -> tuple[Vector, tuple[Vector, Vector]]:
        m, v = memory
        m = self.beta1 * m + (1 - self.beta1) * movement
        v = self.second_moment(v, movement**2)
        return self.learning_rate * m / (jnp.sqrt(v) + self.tau), (m, v)

    @abc.abstractmethod
    def second_moment(self, v: Vector, square: Vector) -> Vector:
        """Return the next v from this one and Delta^2."""


@dataclass(frozen=True, kw_only=True)
class FedAdam(Adaptive):
    """v <- beta2 v + (1 - beta2) Delta^2."""

    def second_moment(self, v: Vector, square: Vector) -> Vector:
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True, kw_only=True)
class FedYogi(Adaptive):
    """v <- v - (1 - beta2) Delta^2 sign(v - Delta^2)."""

    def second_moment(self, v: Vector, square: Vector) -> Vector:
        return v - (1 - self.beta2) * square * jnp.sign(v - square)
