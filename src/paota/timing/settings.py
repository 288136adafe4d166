"""The settings of `[timing]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import LATENCIES
from ..base.settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long does a local training take, who is there, and when does the server aggregate?"""

    period_s: float = setting(
        8.0,
        above=0,
        doc="Time between two aggregations of a periodic scheme, dT.",
        aliases=("dT", "period", "interval"),
    )
    latency: Any = choice(
        LATENCIES, "uniform", doc="How long a local training takes.", aliases=("delay", "compute_time")
    )
    fleet_file: str | None = setting(
        None,
        doc="A CSV or Parquet file that says when devices are there, how fast, and at what rates; absent: all, always.",
        aliases=("fleet", "availability", "devices_file"),
    )
    fleet_repeat_s: float | None = setting(
        None, above=0, doc="The fleet's file starts over after so long; absent: its last rows hold for good."
    )
    when_leaving: str = setting(
        "suspend",
        options=("suspend", "restart"),
        doc='A training whose device leaves: "suspend" goes on when it is back, "restart" is lost and begins anew.',
    )
