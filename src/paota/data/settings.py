"""The settings of `[data]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import PARTITIONS
from ..base.settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Data:
    """What does each device hold?"""

    dataset: str = setting(
        "mnist", doc="A registered data set, or the path of a folder or file.", aliases=("data", "name")
    )
    devices: int = setting(
        100,
        low=1,
        high=10_000_000,
        doc="Number of devices K.",
        aliases=("clients", "num_clients", "num_devices", "users", "num_users", "workers", "nodes", "K"),
    )
    partition: Any = choice(
        PARTITIONS,
        "paper",
        doc="Who holds which samples.",
        aliases=("split", "non_iid", "noniid", "iid", "heterogeneity"),
    )
    normalise: str = setting(
        "none",
        options=("none", "channel"),
        doc='"channel": mean 0 and standard deviation 1 over the training samples, for each channel.',
        aliases=("normalize",),
    )
