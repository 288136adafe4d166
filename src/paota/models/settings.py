"""The settings of `[model]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import MODELS
from ..base.settings import choice


def _adapt(thing: Any) -> Any:
    from .custom import as_model  # JAX, only where somebody brings a model

    return as_model(thing)


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """What is learned?"""

    name: Any = choice(
        MODELS,
        "mlp",
        adapt=_adapt,
        doc="What is learned: a registered model, or `my_module:build`.",
        aliases=("model", "network", "arch", "architecture"),
    )
