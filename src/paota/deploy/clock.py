"""When things happen in a deployment: a clock, and the few numbers that set the pace."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float: ...
    def sleep_until(self, when: float) -> None: ...


class RealClock:
    def now(self) -> float:
        return time.monotonic()

    def sleep_until(self, when: float) -> None:
        time.sleep(max(0.0, when - time.monotonic()))


@dataclass(frozen=True, kw_only=True)
class Pace:
    """When things happen, in seconds of the experiment except where it says real."""

    rounds: int | None  # the experiment ends after so many aggregations
    updates: int | None  # or after so many trainings, for a scheme whose rounds are of any size
    duration_s: float | None  # or then
    participants: int  # devices of a synchronous round, where the experiment does not say how many
    period_s: float  # dT
    patience_s: float
    time_scale: float = 1.0
    poll_real_s: float = 0.5
    join_real_s: float = 120.0
    min_devices: int = 1
