"""The settings of `[training]` and `[evaluation]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.registry import OPTIMISERS, SCHEDULES
from ..base.settings import choice, setting

if TYPE_CHECKING:  # the settings of an experiment are read without JAX
    from jaxtyping import Array, Float, Int


@dataclass(frozen=True, kw_only=True)
class Training:
    """Local training on each device: plain SGD for M steps, unless something else is asked for. None means absent."""

    local_steps: int = setting(
        5, low=1, doc="Steps of a local training, M.", aliases=("M", "steps", "num_steps", "local_iterations")
    )
    epochs: int | None = setting(
        None,
        low=1,
        instead_of="local_steps",
        doc="Passes over the device's own data, in place of `local_steps`.",
        aliases=("local_epochs", "num_epochs", "E"),
    )
    least_steps: int | None = setting(
        None,
        low=1,
        doc="Every training makes a number of steps from here to `local_steps`; absent: always `local_steps`.",
        aliases=("min_steps",),
    )
    batch_size: int = setting(32, low=1, doc="Samples of a mini-batch.", aliases=("batch", "bs", "B", "minibatch"))
    learning_rate: float = setting(
        0.1,
        above=0,
        doc="Step size eta of the local training.",
        aliases=("lr", "eta", "step_size", "client_lr", "local_lr"),
    )
    schedule: Any = choice(
        SCHEDULES,
        "constant",
        doc="How the learning rate changes with the round.",
        aliases=("lr_schedule", "scheduler", "lr_decay"),
    )
    optimiser: Any = choice(
        OPTIMISERS, "sgd", doc="From gradients to steps.", aliases=("optimizer", "client_optimizer")
    )
    weight_decay: float | None = setting(
        None, low=0, doc="Adds weight_decay w to the gradient.", aliases=("l2", "wd", "regularization")
    )
    max_gradient_norm: float | None = setting(
        None, above=0, doc="Longer gradients are shortened to this length.", aliases=("clip", "grad_clip", "clip_norm")
    )
    proximal: float | None = setting(
        None, low=0, doc="FedProx's mu: adds mu (w - w_start) to the gradient.", aliases=("mu", "fedprox", "fedprox_mu")
    )
    augment: str = setting(
        "none",
        options=("none", "crop-flip"),
        doc="Of images, drawn anew for every mini-batch.",
        aliases=("augmentation",),
    )

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

    every: int = setting(
        1,
        low=1,
        doc="Rounds between two looks at the global model.",
        aliases=("eval_every", "eval_interval", "test_every"),
    )
    every_s: float | None = setting(
        None,
        above=0,
        instead_of="every",
        doc="Simulated time between two looks, on a grid that is the same for all, in place of `every`.",
    )
    devices_every: int = setting(
        0, low=0, doc="Looks between two at each device's own kind of data; 0: at the last look only."
    )
    train_loss: str = setting(
        "objective",
        options=("objective", "batches"),
        doc='"objective": F(w) over all devices\' data; "batches": of the mini-batches just trained on.',
    )
    stop_at: float | None = setting(
        None,
        above=0,
        high=1,
        doc="An algorithm and seed ends at this test accuracy; absent: at the horizon.",
        aliases=("target_accuracy", "early_stopping"),
    )
    patience: int | None = setting(
        None, low=1, doc="... or when so many looks in a row bring no better accuracy; absent: never."
    )
