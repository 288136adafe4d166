"""The settings of `[model]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import MODELS
from ..base.settings import choice


def _adapt(thing: object) -> object:
    from .custom import as_model  # start-up time: JAX, only for a model given in Python

    return as_model(thing)


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """The model."""

    name: Any = choice(
        MODELS,
        "mlp",
        adapt=_adapt,
        doc="The model to train: a registered name, or `my_module:build`.",
        aliases=("model", "network", "arch", "architecture"),
    )
