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
    """Local training on each device: plain SGD for M steps by default. None means absent."""

    local_steps: int = setting(
        5, low=1, doc="Steps of a local training, M.", aliases=("M", "steps", "num_steps", "local_iterations")
    )
    epochs: int | None = setting(
        None,
        low=1,
        instead_of="local_steps",
        doc="Epochs over the device's own data, in place of `local_steps`.",
        aliases=("local_epochs", "num_epochs", "E"),
    )
    least_steps: int | None = setting(
        None,
        low=1,
        doc="Least number of steps; each training draws its number from here to `local_steps`; absent: always `local_steps`.",
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
        OPTIMISERS, "sgd", doc="Local optimiser: how gradients become steps.", aliases=("optimizer", "client_optimizer")
    )
    weight_decay: float | None = setting(
        None, low=0, doc="Adds weight_decay w to the gradient.", aliases=("l2", "wd", "regularization")
    )
    max_gradient_norm: float | None = setting(
        None,
        above=0,
        doc="Largest norm of a gradient; longer ones are scaled down.",
        aliases=("clip", "grad_clip", "clip_norm"),
    )
    proximal: float | None = setting(
        None, low=0, doc="FedProx's mu: adds mu (w - w_start) to the gradient.", aliases=("mu", "fedprox", "fedprox_mu")
    )
    augment: str = setting(
        "none",
        options=("none", "crop-flip"),
        doc="Augmentation of images, drawn again for every mini-batch.",
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
        """Return the learning rate of devices that start from these versions of the global model; one number if constant."""
        rate: Float[Array, " n"] | float = self.learning_rate * self.schedule.factor(version)
        return rate

    @property
    def beyond_plain_sgd(self) -> str | None:
        """Return the first setting that goes beyond plain SGD with one rate and M steps for all, as a text; else None."""
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
    """Evaluation of the global model: how often, and on which data."""

    every: int = setting(
        1,
        low=1,
        doc="Rounds between two evaluations of the global model.",
        aliases=("eval_every", "eval_interval", "test_every"),
    )
    every_s: float | None = setting(
        None,
        above=0,
        instead_of="every",
        doc="Seconds of simulated time between two evaluations, on one grid for all runs; replaces `every`.",
    )
    devices_every: int = setting(
        0, low=0, doc="Evaluations between two evaluations on each device's own data; 0: only at the last one."
    )
    train_loss: str = setting(
        "objective",
        options=("objective", "batches"),
        doc='"objective": F(w) over all devices\' data; "batches": over the mini-batches of the round.',
    )
    stop_at: float | None = setting(
        None,
        above=0,
        high=1,
        doc="A run ends at this test accuracy; absent: at the horizon.",
        aliases=("target_accuracy", "early_stopping"),
    )
    patience: int | None = setting(
        None, low=1, doc="A run ends after this many evaluations without a better accuracy; absent: never."
    )
