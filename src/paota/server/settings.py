"""The settings of `[server]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import SERVER_OPTIMISERS
from ..base.settings import choice


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Does the server go where the rule says, or does an optimiser of its own take that as a gradient?"""

    optimiser: Any = choice(
        SERVER_OPTIMISERS,
        "none",
        doc="What the server does with the movement that the rule proposes.",
        aliases=("optimizer", "server_optimizer", "server_optimiser"),
    )
