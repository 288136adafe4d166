"""Local steps: what an optimiser makes of a gradient, and how the learning rate changes with the round.

w <- w - rate u, where u is the gradient g itself (plain SGD) or what an Optax transformation makes of all gradients so
far. Every local training starts with a new optimiser state, which stays on the device and ends with the training.

The rate is a factor of `learning_rate` that depends on the version of the model from which a device starts. A device
keeps its rate for a whole local training. All numbers are floats, so that a sweep over them compiles once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..base.settings import setting

if TYPE_CHECKING:
    import optax

    from .settings import Training


class Optimiser(Protocol):
    """A frozen dataclass whose fields are settings of `[training]`."""

    def transformation(self) -> optax.GradientTransformation:
        """Return what turns gradients into steps u, without the learning rate; it must treat every weight alike."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """u = g."""

    def transformation(self) -> optax.GradientTransformation:
        import optax  # start-up time

        return optax.identity()


@dataclass(frozen=True, kw_only=True)
class Momentum:
    """m <- momentum m + g, u = m; with `nesterov`, u = g + momentum m."""

    momentum: float = setting(0.9, low=0, high=1, doc="Share of the last step that is kept.")
    nesterov: bool = setting(False, doc="Use Nesterov momentum.")

    def transformation(self) -> optax.GradientTransformation:
        import optax  # start-up time

        return optax.trace(self.momentum, nesterov=self.nesterov)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """u = m / (sqrt(v) + epsilon), m and v the running means of g and g^2, corrected for their start at zero."""

    beta1: float = setting(0.9, low=0, high=0.999999, doc="Decay rate of the mean gradient.")
    beta2: float = setting(0.999, low=0, high=0.999999, doc="Decay rate of the mean squared gradient.")
    epsilon: float = setting(1e-8, above=0, doc="Constant that keeps the division finite.", aliases=("eps",))

    def transformation(self) -> optax.GradientTransformation:
        import optax  # start-up time

        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon)


def transformation_of(training: Training) -> optax.GradientTransformation:
    """Return everything between the gradient of a mini-batch and the step of one device.

    As in PyTorch, the gradient is clipped first, then weight decay is added, then the optimiser sees it.
    """
    import optax  # start-up time

    parts = []
    if training.max_gradient_norm is not None:
        parts.append(optax.clip_by_global_norm(training.max_gradient_norm))
    if training.weight_decay is not None:
        parts.append(optax.add_decayed_weights(training.weight_decay))
    return optax.chain(*parts, training.optimiser.transformation())


class RateSchedule(Protocol):
    """A frozen dataclass whose fields are settings of `[training]`."""

    def factor(self, version: Int[Array, " n"]) -> Float[Array, " n"] | float:
        """Return the factor of the learning rate for devices that start from these versions r."""
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


def _power(base: float, exponent: Float[Array, " n"]) -> Float[Array, " n"]:
    return jnp.power(jnp.asarray(base, exponent.dtype), exponent)
