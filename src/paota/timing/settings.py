"""The settings of `[timing]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import LATENCIES
from ..base.settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Duration of local trainings, availability of devices, and aggregation period."""

    period_s: float = setting(8.0, above=0, doc="Aggregation period dT.", aliases=("dT", "period", "interval"))
    latency: Any = choice(LATENCIES, "uniform", doc="Latency of a training.", aliases=("delay", "compute_time"))
    fleet_file: str | None = setting(
        None,
        doc="A CSV file with the availability, speed and rates of devices; absent: all devices are always available.",
        aliases=("fleet", "availability", "devices_file"),
    )
    fleet_repeat_s: float | None = setting(
        None, above=0, doc="Period after which the fleet's file repeats; absent: its last rows stay valid."
    )
    when_leaving: str = setting(
        "suspend",
        options=("suspend", "restart"),
        doc='Training whose device leaves: "suspend" resumes when the device is back, "restart" repeats it.',
    )
