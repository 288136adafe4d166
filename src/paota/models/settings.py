"""The settings of `[model]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry import MODELS
from ..settings import choice


def _adapt(thing: Any) -> Any:
    from .own import as_model  # JAX, only where somebody brings a model

    return as_model(thing)


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """What is learned?"""

    name: Any = choice(
        MODELS,
        "mlp",
        adapt=_adapt,
        doc="What is learned: a registered model, or `my_module:build`.",
        also=("model", "network", "arch", "architecture"),
    )
