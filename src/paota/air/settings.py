"""The settings of `[air]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import CHANNELS, DIGITAL_UPLINKS, DOWNLINKS, PATH_LOSSES
from ..base.settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Air:
    """What does the channel do?"""

    fading: Any = choice(CHANNELS, "rayleigh", doc="What the channel does from round to round.", aliases=("channel",))
    bandwidth_hz: float = setting(20e6, above=0, doc="Bandwidth B.", aliases=("bandwidth",))
    n0_dbm_per_hz: float = setting(
        -174.0,
        low=-400,
        high=300,
        doc="Noise density N0.",
        aliases=("N0", "noise", "noise_density", "noise_power", "snr", "snr_db"),
    )
    path_loss: Any = choice(PATH_LOSSES, "none", doc="What distance and obstacles cost.", aliases=("pathloss",))
    antennas: int = setting(1, low=1, high=1024, doc="Receive antennas of the server.", aliases=("num_antennas",))
    combiner: str = setting(
        "sum",
        options=("sum", "max-min", "mmse"),
        doc="What makes one signal of several antennas.",
        aliases=("beamforming",),
    )
    packing: str = setting("real", options=("real", "complex"), doc="One or two weights a symbol.")
    # Imperfections, absent unless given: a number is an input of the compiled program, its absence a simpler program.
    csi_error: float | None = setting(
        None, low=0, doc="Error of the channel estimate, E|estimate - h_k|^2 / E|h_k|^2.", aliases=("csi",)
    )
    phase_error_rad: float | None = setting(None, low=0, doc="Standard deviation of the error of a device's phase.")
    timing_error_symbols: float | None = setting(
        None, low=0, high=1, doc="Offsets between devices are uniform in +- this."
    )
    # What the paper takes as free: the scalars of the control channel.
    scalar_bits: int = setting(32, low=1, high=64, doc="Of a number on the control channel.")
    control_mbit_per_s: float | None = setting(
        None, above=0, doc="Rate of the control channel; absent: it is free and not counted, as in the paper."
    )
    digital: Any = choice(
        DIGITAL_UPLINKS,
        "ideal",
        doc="What an upload costs an algorithm that does not compute over the air.",
        aliases=("uplink",),
    )
    downlink: Any = choice(
        DOWNLINKS, "ideal", doc="What it costs a device to hear the new model.", aliases=("broadcast", "download")
    )
