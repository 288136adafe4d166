"""SCAFFOLD: control variates correct every local gradient for the drift of a device towards its own data.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", 2020,
with option II and a global step of 1. The uplink is digital.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..air.uplink import Uplink
from ..base.errors import UserError
from ..base.settings import setting
from ..power.settings import Power
from ..training.settings import Training
from .base import Amplitudes, DeviceResult, Event, Heard, Step, SynchronousAlgorithm, normalise, weights


@dataclass(frozen=True, kw_only=True)
class Scaffold(SynchronousAlgorithm):
    """Devices add c - c_k to every gradient; c_k <- c_k - c - dw_k / (M eta), w <- w + mean dw_k, c <- mean of all c_k.

    The server computes the change of c from the mean update, so devices send nothing more. A device keeps c_k, [d].
    """

    local_steps: int | None = setting(None, low=1, doc="M in the control variates; absent: training.local_steps.")
    learning_rate: float | None = setting(
        None, above=0, doc="eta in the control variates; absent: training.learning_rate."
    )
    payload = "update"
    over_the_air: ClassVar[bool] = False

    def for_training(self, training: Training) -> Scaffold:
        if (other := training.beyond_plain_sgd) is not None:
            raise UserError(f"scaffold needs plain SGD with one learning rate, so it cannot be used with {other}")
        eta = training.learning_rate if self.learning_rate is None else self.learning_rate
        return replace(self, local_steps=self.local_steps or training.local_steps, learning_rate=eta)

    def gradient_shift(self, memory: Float[Array, " d"], state: Float[Array, " d"]) -> Float[Array, " d"]:
        return state - memory

    def memory(self, model: Float[Array, " d"]) -> Float[Array, " d"]:
        return jnp.zeros_like(model)  # c_k

    def remember(self, result: DeviceResult) -> Float[Array, " d"]:
        return result.memory - result.state - self._mean_gradient(result.update)

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return weights(normalise(event.ready.astype(float)), event)

    def init(self, model: Float[Array, " d"]) -> Float[Array, " d"]:
        return jnp.zeros_like(model)  # c

    def next_model(self, event: Event, heard: Heard) -> Step:
        share = event.ready.sum() / event.num_devices
        change = -event.state - self._mean_gradient(heard.received)
        return Step(event.model + heard.received, event.state + share * change)

    def _mean_gradient(self, update: Float[Array, " d"]) -> Float[Array, " d"]:
        """Return dw / (M eta)."""
        assert self.local_steps is not None
        assert self.learning_rate is not None
        return update / (self.local_steps * self.learning_rate)
