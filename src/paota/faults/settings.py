"""The settings of `[faults]` and `[guards]`. None means absent, and then costs nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..settings import setting


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Shares are of the devices, for life; probabilities are for every training, broadcast or round anew."""

    # A training is lost with this probability: the device vanishes, comes back `away_s` later and starts afresh.
    dropout: float | None = setting(None, low=0, high=1)
    away_s: float = setting(20.0, low=0)
    # A device misses the broadcast with this probability, and trains on from the version that it has.
    lost_broadcasts: float | None = setting(None, low=0, high=1)
    # This share of the devices is slower by a factor.
    stragglers: float | None = setting(None, low=0, high=1)
    slow_factor: float = setting(4.0, low=1)
    # This share never finishes any training after its first `stuck_after`; the server gives one up after `give_up_s`.
    stuck: float | None = setting(None, low=0, high=1)
    stuck_after: int = setting(1, low=0)
    give_up_s: float = setting(60.0, above=0)
    # This share sends corrupted updates: not-a-number, the opposite direction, or `scale` times too long.
    corrupted: float | None = setting(None, low=0, high=1)
    corruption: str = setting("nan", options=("nan", "sign-flip", "scale"))
    scale: float = setting(100.0)
    # In a round, a device's channel is weaker by `fade_db` with this probability ...
    deep_fades: float | None = setting(None, low=0, high=1)
    fade_db: float = setting(30.0, low=0, high=300)
    # ... or what it believes of its channel has nothing to do with the truth.
    csi_outage: float | None = setting(None, low=0, high=1)

    @property
    def in_timeline(self) -> bool:
        return any(x is not None for x in (self.dropout, self.lost_broadcasts, self.stragglers, self.stuck))

    def in_signals(self) -> Faults:
        """Without what only the timeline knows, so that experiments that differ there share one compiled program."""
        return dataclasses.replace(self, dropout=None, lost_broadcasts=None, stragglers=None, stuck=None, stuck_after=1)


@dataclass(frozen=True, kw_only=True)
class Guards:
    """What a device checks before it transmits. A device that may not transmit still gets the new model."""

    max_update_norm: float | None = setting(None, above=0)  # longer updates are shortened to this length
    reject_non_finite: bool = False  # an update with a NaN or an infinity is not sent
    max_staleness: int | None = setting(None, low=0)  # staler updates are not sent
