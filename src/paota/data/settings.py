"""The settings of `[data]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry import PARTITIONS
from ..settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Data:
    """What does each device hold?"""

    dataset: str = "mnist"  # a registered name, or the path of a folder or file
    devices: int = setting(100, low=1, high=10_000_000)
    partition: Any = choice(PARTITIONS, "paper")
    # "channel": mean 0 and standard deviation 1 over the training samples, for each channel.
    normalise: str = setting("none", options=("none", "channel"))
