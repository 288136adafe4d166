"""What a local step makes of a gradient. Each is a small recipe for an Optax transformation without a learning rate.

w <- w - rate u, where u is the gradient g itself (plain SGD) or what a transformation makes of all gradients so far. Every
local training begins anew: what an optimiser remembers stays on the device and ends with the training.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ..base.errors import UserError
from ..base.registry import OPTIMISERS
from ..base.settings import setting

if TYPE_CHECKING:
    import optax

    from .settings import Training


class Optimiser(Protocol):
    """A frozen dataclass whose fields are settings of `[training]`."""

    def transformation(self) -> optax.GradientTransformation:
        """From gradients to steps u, without the learning rate; it must treat every weight alike."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sgd:
    """u = g."""

    def transformation(self) -> optax.GradientTransformation:
        import optax

        return optax.identity()


@dataclass(frozen=True, kw_only=True)
class Momentum:
    """m <- momentum m + g, u = m; with `nesterov`, u = g + momentum m."""

    momentum: float = setting(0.9, low=0, high=1, doc="Share of the last step that is kept.")
    nesterov: bool = setting(False, doc="Look ahead along the momentum.")

    def transformation(self) -> optax.GradientTransformation:
        import optax

        return optax.trace(self.momentum, nesterov=self.nesterov)


@dataclass(frozen=True, kw_only=True)
class Adam:
    """u = m / (sqrt(v) + epsilon), m and v the running means of g and g^2, corrected for their start at zero."""

    beta1: float = setting(0.9, low=0, high=0.999999, doc="Memory of the mean gradient.")
    beta2: float = setting(0.999, low=0, high=0.999999, doc="Memory of the mean squared gradient.")
    epsilon: float = setting(1e-8, above=0, doc="Keeps the division finite.", aliases=("eps",))

    def transformation(self) -> optax.GradientTransformation:
        import optax

        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon)


def transformation_of(training: Training) -> optax.GradientTransformation:
    """Everything between the gradient of a mini-batch and the step of one device.

    As in PyTorch: the gradient is clipped first, then weight decay is added, then the optimiser sees it.
    """
    import optax

    parts = []
    if training.max_gradient_norm is not None:
        parts.append(optax.clip_by_global_norm(training.max_gradient_norm))
    if training.weight_decay is not None:
        parts.append(optax.add_decayed_weights(training.weight_decay))
    return optax.chain(*parts, training.optimiser.transformation())


def refuse_unknown(training: Training) -> None:
    """A sentence for an optimiser that is written for JAX alone."""
    if not isinstance(training.optimiser, Sgd | Momentum | Adam):
        name = OPTIMISERS.name_of(type(training.optimiser))
        raise UserError(f"training.optimiser = '{name}' is not known to PyTorch models; use sgd, momentum or adam")
