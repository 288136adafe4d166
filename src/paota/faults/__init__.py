"""Faults of the simulated world and the guards against them: the settings of `[faults]` and `[guards]`.

`[faults]` breaks things: devices drop out, get stuck or send corrupted updates, broadcasts get lost, the channel fades.
`[guards]` are checks that an honest device makes before it transmits. None means absent, and then costs nothing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..base.settings import setting


@dataclass(frozen=True, kw_only=True)
class Faults:
    """Faults. A share selects devices for the whole run; a probability holds for each training, broadcast or round."""

    dropout: float | None = setting(
        None,
        low=0,
        high=1,
        doc="Probability that a training is lost; its device starts the next one `away_s` later.",
        aliases=("dropouts",),
    )
    away_s: float = setting(20.0, low=0, doc="Seconds until a device returns after a dropout.")
    lost_broadcasts: float | None = setting(
        None, low=0, high=1, doc="Probability that a device misses a broadcast and continues with the version it has."
    )
    stragglers: float | None = setting(
        None, low=0, high=1, doc="Share of the devices that are slower in the whole run.", aliases=("straggler",)
    )
    slow_factor: float = setting(4.0, low=1, doc="Factor by which stragglers are slower.")
    stuck: float | None = setting(
        None, low=0, high=1, doc="Share of the devices that finish no training after their first `stuck_after`."
    )
    stuck_after: int = setting(1, low=0, doc="Trainings that a stuck device still finishes.")
    give_up_s: float = setting(
        60.0, above=0, doc="Seconds after which the server gives up a stuck device.", aliases=("timeout", "timeout_s")
    )
    corrupted: float | None = setting(
        None,
        low=0,
        high=1,
        doc="Share of the devices that send corrupted updates in the whole run.",
        aliases=("byzantine", "attackers", "malicious"),
    )
    corruption: str = setting(
        "nan",
        options=("nan", "sign-flip", "scale"),
        doc="Kind of corruption: not-a-number, the opposite direction, or `scale` times too long.",
        aliases=("attack",),
    )
    scale: float = setting(100.0, doc="Factor of a scaled update.")
    deep_fades: float | None = setting(
        None, low=0, high=1, doc="Probability per round that a device's channel is weaker by `fade_db`."
    )
    fade_db: float = setting(30.0, low=0, high=300, doc="Depth of a deep fade.")
    csi_outage: float | None = setting(
        None,
        low=0,
        high=1,
        doc="Probability per round that a device precodes for a channel that is unrelated to the real one.",
    )

    @property
    def in_timeline(self) -> bool:
        """True if a fault changes the timeline."""
        return any(x is not None for x in (self.dropout, self.lost_broadcasts, self.stragglers, self.stuck))

    def in_signals(self) -> Faults:
        """Return the faults without those of the timeline, so experiments that differ only there share a compiled program."""
        return dataclasses.replace(self, dropout=None, lost_broadcasts=None, stragglers=None, stuck=None, stuck_after=1)


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Checks of a device before it transmits. A device that may not transmit still gets the new model."""

    max_update_norm: float | None = setting(
        None, above=0, doc="Largest norm of an update; longer ones are scaled down.", aliases=("clip_update",)
    )
    noise_multiplier: float | None = setting(
        None,
        above=0,
        doc="Gaussian noise that a device adds to every weight for privacy, in units of `max_update_norm`, which it needs.",
        aliases=("dp_noise", "noise_std"),
    )
    reject_non_finite: bool = setting(False, doc="Devices do not send updates with a NaN or an infinity.")
    max_staleness: int | None = setting(
        None, low=0, doc="Devices do not send updates that are staler than this.", aliases=("staleness_limit",)
    )
