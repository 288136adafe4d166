"""The settings of `[air]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.registry import CHANNELS, DIGITAL_UPLINKS, DOWNLINKS, PATH_LOSSES
from ..base.settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Air:
    """The radio channel: fading, path loss, noise, antennas, imperfections, digital uplink and downlink."""

    fading: Any = choice(CHANNELS, "rayleigh", doc="Small-scale fading from round to round.", aliases=("channel",))
    bandwidth_hz: float = setting(20e6, above=0, doc="Bandwidth B.", aliases=("bandwidth",))
    n0_dbm_per_hz: float = setting(
        -174.0,
        low=-400,
        high=300,
        doc="Noise density N0.",
        aliases=("N0", "noise", "noise_density", "noise_power", "snr", "snr_db"),
    )
    path_loss: Any = choice(PATH_LOSSES, "none", doc="Loss by distance and obstacles.", aliases=("pathloss",))
    antennas: int = setting(1, low=1, high=1024, doc="Receive antennas of the server.", aliases=("num_antennas",))
    combiner: str = setting(
        "sum",
        options=("sum", "max-min", "mmse"),
        doc="How receive antennas are combined.",
        aliases=("beamforming",),
    )
    subcarriers: int = setting(
        1, low=1, high=65536, doc="OFDM subcarriers F of the uplink; 1: one flat channel.", aliases=("fft_size",)
    )
    # The following need several subcarriers, and are refused without them.
    delay_profile: str | None = setting(
        None, options=("exponential", "tdl-a", "tdl-b", "tdl-c"),
        doc="Delay profile of the channel; absent: exponential.", aliases=("tdl", "power_delay_profile"),
    )  # fmt: skip
    delay_spread_s: float | None = setting(
        None, low=0, high=1, doc="Rms delay spread; absent: 300 ns.", aliases=("delay_spread", "rms_delay_spread")
    )
    cyclic_prefix: int | None = setting(
        None, low=0, doc="Samples of the cyclic prefix; absent: as many as the longest delay of the profile."
    )
    precoding: str | None = setting(
        None, options=("full", "truncated", "phase"),
        doc="What a device inverts: every subcarrier, those that are strong enough, or the phases alone; absent: full.",
    )  # fmt: skip
    truncation: float | None = setting(
        None, above=0,
        doc="With truncated precoding, subcarriers with |h|^2 below this share of its mean are silent; absent: 0.1.",
    )  # fmt: skip
    packing: str = setting("real", options=("real", "complex"), doc="One or two weights per symbol.")
    # Imperfections, absent unless given: a number is an input of the compiled program, its absence a simpler program.
    csi_error: float | None = setting(
        None, low=0, doc="Error of the channel estimate, E|estimate - h_k|^2 / E|h_k|^2.", aliases=("csi",)
    )
    phase_error_rad: float | None = setting(None, low=0, doc="Standard deviation of a device's phase error.")
    timing_error_symbols: float | None = setting(
        None, low=0, high=1, doc="Timing offsets of devices are uniform between minus and plus this value."
    )
    # The scalars of the control channel, which the paper takes as free.
    scalar_bits: int = setting(32, low=1, high=64, doc="Bits of a number on the control channel.")
    control_mbit_per_s: float | None = setting(
        None, above=0, doc="Rate of the control channel; absent: it is free and not counted, as in the paper."
    )
    digital: Any = choice(
        DIGITAL_UPLINKS,
        "ideal",
        doc="Cost of an upload for algorithms that do not compute over the air.",
        aliases=("uplink",),
    )
    downlink: Any = choice(
        DOWNLINKS, "ideal", doc="Cost and errors of receiving the new model.", aliases=("broadcast", "download")
    )
