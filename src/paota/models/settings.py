"""The settings of `[model]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry import MODELS
from ..settings import choice


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """What is learned?"""

    name: Any = choice(MODELS, "mlp")
