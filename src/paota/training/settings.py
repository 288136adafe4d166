"""The settings of `[training]` and `[evaluation]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..registry import OPTIMISERS, SCHEDULES
from ..settings import choice, setting

if TYPE_CHECKING:  # the settings of an experiment are read without JAX
    from jaxtyping import Array, Float, Int


@dataclass(frozen=True, kw_only=True)
class Training:
    """Local training on each device: plain SGD for M steps, unless something else is asked for. None means absent."""

    local_steps: int = setting(5, low=1)  # M
    epochs: int | None = setting(None, low=1, instead_of="local_steps")  # passes over the device's own data
    least_steps: int | None = setting(None, low=1)  # every training makes a number of steps from here to local_steps
    batch_size: int = setting(32, low=1)
    learning_rate: float = setting(0.1, above=0)  # eta
    schedule: Any = choice(SCHEDULES, "constant")
    optimiser: Any = choice(OPTIMISERS, "sgd")
    weight_decay: float | None = setting(None, low=0)  # adds weight_decay w to the gradient
    max_gradient_norm: float | None = setting(None, above=0)  # longer gradients are shortened to this length
    proximal: float | None = setting(None, low=0)  # FedProx's mu: adds mu (w - w_start) to the gradient
    augment: str = setting("none", options=("none", "crop-flip"))  # of images, drawn anew for every mini-batch

    def __post_init__(self) -> None:
        if self.least_steps is not None and self.epochs is not None:
            raise UserError("give training.epochs or training.least_steps, not both")
        if self.least_steps is not None and self.least_steps > self.local_steps:
            raise UserError(
                f"training.least_steps must be at most training.local_steps = {self.local_steps}, not {self.least_steps}"
            )

    def rate(self, version: Int[Array, " n"]) -> Float[Array, " n"] | float:
        """The learning rate of devices that start from these versions of the global model; one for all if constant."""
        rate: Float[Array, " n"] | float = self.learning_rate * self.schedule.factor(version)
        return rate

    @property
    def beyond_plain_sgd(self) -> str | None:
        """The first setting that plain SGD with one rate and M steps for all has not, as a text; None if there is none."""
        names = {
            "optimiser": OPTIMISERS.name_of(type(self.optimiser)),
            "schedule": SCHEDULES.name_of(type(self.schedule)),
            "augment": self.augment,
        }
        for key, plain in (("optimiser", "sgd"), ("schedule", "constant"), ("augment", "none")):
            if names[key] != plain:
                return f"training.{key} = '{names[key]}'"
        rest = ("weight_decay", "max_gradient_norm", "proximal", "epochs", "least_steps")
        return next((f"training.{key}" for key in rest if getattr(self, key) is not None), None)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How often is the global model judged, and on what?"""

    every: int = setting(1, low=1)  # rounds
    # Every so many of these looks, how well the model does on each device's own kind of data; 0: at the last one only.
    devices_every: int = setting(0, low=0)
    # "objective": F(w) over all devices' data (Eq. sys_FL_task); "batches": mean loss of the mini-batches just trained on.
    train_loss: str = setting("objective", options=("objective", "batches"))
