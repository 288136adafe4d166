"""Server optimisers and the settings of `[server]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import SERVER_OPTIMISERS
from ..base.settings import choice


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Server optimiser, which takes the movement that an algorithm proposes as a gradient."""

    optimiser: Any = choice(
        SERVER_OPTIMISERS,
        "none",
        doc="Optimiser that turns the proposed movement of the global model into a step.",
        aliases=("optimizer", "server_optimizer", "server_optimiser"),
    )
