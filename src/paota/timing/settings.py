"""The settings of `[timing]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry import LATENCIES
from ..settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long does a local training take, and when does the server aggregate?"""

    period_s: float = setting(
        8.0, above=0, doc="Time between two aggregations of a periodic scheme, dT.", also=("dT", "period", "interval")
    )
    latency: Any = choice(LATENCIES, "uniform", doc="How long a local training takes.", also=("delay", "compute_time"))
