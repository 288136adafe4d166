"""Everybody at full power: only the phase is corrected, so the air weighs each device by its channel.

The baseline of Cao, Zhu, Xu, Huang: "Optimized Power Control for Over-the-Air Computation in Fading Channels", 2020.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..air.uplink import Uplink
from ..base.settings import setting
from ..power.policy import amplitude_cap
from ..power.settings import Power
from .base import Amplitudes, Event, SynchronousAlgorithm, average


@dataclass(frozen=True, kw_only=True)
class FullPower(SynchronousAlgorithm):
    """p_k = |h_k| sqrt(P) / |payload_k|, weights p_k / sum p: the physical budget, whatever `power.cap` says."""

    payload: str = setting("model", options=("model", "update"), doc="What a device sends.")

    def amplitudes(self, event: Event, uplink: Uplink, power: Power) -> Amplitudes:
        return average(amplitude_cap(uplink, event.energy, "physical"), event)
