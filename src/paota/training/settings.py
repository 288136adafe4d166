"""The settings of `[training]` and `[evaluation]`."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import setting


@dataclass(frozen=True, kw_only=True)
class Training:
    """Local SGD on each device."""

    local_steps: int = setting(5, low=1)  # M
    batch_size: int = setting(32, low=1)
    learning_rate: float = setting(0.1, above=0)  # eta


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How often is the global model judged, and on what?"""

    every: int = setting(1, low=1)  # rounds
    # "objective": F(w) over all devices' data (Eq. sys_FL_task); "batches": mean loss of the mini-batches just trained on.
    train_loss: str = setting("objective", options=("objective", "batches"))
