"""The settings of `[data]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import PARTITIONS
from ..base.settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Data:
    """Data set, and its partition among the devices."""

    dataset: str = setting("mnist", doc="Name of a data set, or path of a folder or file.", aliases=("data", "name"))
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
        doc="Partition of the samples among the devices.",
        aliases=("split", "non_iid", "noniid", "iid", "heterogeneity"),
    )
    normalise: str = setting(
        "none",
        options=("none", "channel"),
        doc='"channel": scale each channel to mean 0 and standard deviation 1 over the training samples.',
        aliases=("normalize",),
    )
