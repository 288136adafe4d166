"""The settings of `[data]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry import PARTITIONS
from ..settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Data:
    """What does each device hold?"""

    dataset: str = "mnist"  # a registered name, a folder of IDX files, or an .npz
    devices: int = setting(100, low=1, high=10_000_000)
    partition: Any = choice(PARTITIONS, "paper")
