"""The settings of `[faults]` and `[guards]`. None means absent, and then costs nothing."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..base.settings import setting


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Shares are of the devices, for life; probabilities are for every training, broadcast or round anew."""

    dropout: float | None = setting(
        None,
        low=0,
        high=1,
        doc="A training is lost with this probability; its device starts afresh `away_s` later.",
        aliases=("dropouts",),
    )
    away_s: float = setting(20.0, low=0, doc="How long a device stays away after a dropout.")
    lost_broadcasts: float | None = setting(
        None, low=0, high=1, doc="Probability of missing a broadcast and training on from the version at hand."
    )
    stragglers: float | None = setting(
        None, low=0, high=1, doc="Share of the devices that are slower, for life.", aliases=("straggler",)
    )
    slow_factor: float = setting(4.0, low=1, doc="How many times slower stragglers are.")
    stuck: float | None = setting(
        None, low=0, high=1, doc="Share of the devices that never finish any training after their first `stuck_after`."
    )
    stuck_after: int = setting(1, low=0, doc="Trainings that a stuck device still finishes.")
    give_up_s: float = setting(
        60.0, above=0, doc="The server gives a stuck device up after so long.", aliases=("timeout", "timeout_s")
    )
    corrupted: float | None = setting(
        None,
        low=0,
        high=1,
        doc="Share of the devices that send corrupted updates, for life.",
        aliases=("byzantine", "attackers", "malicious"),
    )
    corruption: str = setting(
        "nan",
        options=("nan", "sign-flip", "scale"),
        doc="Not-a-number, the opposite direction, or `scale` times too long.",
        aliases=("attack",),
    )
    scale: float = setting(100.0, doc="How many times too long a scaled update is.")
    deep_fades: float | None = setting(
        None, low=0, high=1, doc="Probability, in a round, that a device's channel is weaker by `fade_db`."
    )
    fade_db: float = setting(30.0, low=0, high=300, doc="Depth of a deep fade.")
    csi_outage: float | None = setting(
        None,
        low=0,
        high=1,
        doc="Probability, in a round, that a device precodes for a channel that has nothing to do with the real one.",
    )

    @property
    def in_timeline(self) -> bool:
        return any(x is not None for x in (self.dropout, self.lost_broadcasts, self.stragglers, self.stuck))

    def in_signals(self) -> Faults:
        """Without what only the timeline knows, so that experiments that differ there share one compiled program."""
        return dataclasses.replace(self, dropout=None, lost_broadcasts=None, stragglers=None, stuck=None, stuck_after=1)


@dataclass(frozen=True, kw_only=True)
class Guards:
    """What a device checks before it transmits. A device that may not transmit still gets the new model."""

    max_update_norm: float | None = setting(
        None, above=0, doc="Longer updates are shortened to this length.", aliases=("clip_update",)
    )
    noise_multiplier: float | None = setting(
        None,
        above=0,
        doc="For privacy: a device adds Gaussian noise to every weight, in units of `max_update_norm`, which it needs.",
        aliases=("dp_noise", "noise_std"),
    )
    reject_non_finite: bool = setting(False, doc="An update with a NaN or an infinity is not sent.")
    max_staleness: int | None = setting(None, low=0, doc="Staler updates are not sent.", aliases=("staleness_limit",))
