"""Delay profiles of frequency-selective channels, the time that OFDM symbols take, and what several subcarriers exclude.

A profile is a list of taps with normalised delays (rms delay spread 1) and powers. `air.delay_spread_s` scales the delays.
The tables TDL-A, B and C are those of 3GPP TR 38.901, Tables 7.7.2-1 to 7.7.2-3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..base.errors import UserError
from ..base.registry import CHANNELS, DIGITAL_UPLINKS, DOWNLINKS, PATH_LOSSES
from .settings import Air

EXPONENTIAL_TAPS = 32
TABLES = {  # normalised delay, power in dB
    "tdl-a": """0 -13.4  0.3819 0  0.4025 -2.2  0.5868 -4  0.4610 -6  0.5375 -8.2  0.6708 -9.9  0.5750 -10.5  0.7618 -7.5
        1.5375 -15.9  1.8978 -6.6  2.2242 -16.7  2.1718 -12.4  2.4942 -15.2  2.5119 -10.8  3.0582 -11.3  4.0810 -12.7
        4.4579 -16.2  4.5695 -18.3  4.7966 -18.9  5.0066 -16.6  5.3043 -19.9  9.6586 -29.7""",
    "tdl-b": """0 0  0.1072 -2.2  0.2155 -4  0.2095 -3.2  0.2870 -9.8  0.2986 -1.2  0.3752 -3.4  0.5055 -5.2  0.3681 -7.6
        0.3697 -3  0.5700 -8.9  0.5283 -9  1.1021 -4.8  1.2756 -5.7  1.5474 -7.5  1.7842 -1.9  2.0169 -7.6
        2.8294 -12.2  3.0219 -9.8  3.6187 -11.4  4.1067 -14.9  4.2790 -9.2  4.7834 -11.3""",
    "tdl-c": """0 -4.4  0.2099 -1.2  0.2219 -3.5  0.2329 -5.2  0.2176 -2.5  0.6366 0  0.6448 -2.2  0.6560 -3.9  0.6584 -7.4
        0.7935 -7.1  0.8213 -10.7  0.9336 -11.1  1.2285 -5.1  1.3083 -6.8  2.1704 -8.7  2.7105 -13.2  4.2589 -13.9
        4.6003 -13.9  5.4902 -15.8  5.6077 -17.1  6.3065 -16  6.6374 -15.7  7.0427 -21.6  8.6523 -22.8""",
}


class Profile(NamedTuple):
    """The taps of a profile."""

    delay: Float[np.ndarray, " L"]  # in units of the rms delay spread
    power: Float[np.ndarray, " L"]  # sums to 1


def profile(name: str) -> Profile:
    """Return a profile by the name that `air.delay_profile` has.

    The exponential profile has taps of equal power. Each one stands at the mean delay of its share of the density
    exp(-tau), and the delays are scaled to an rms of exactly 1.
    """
    if name == "exponential":
        left = np.linspace(1, 0, EXPONENTIAL_TAPS + 1)  # share of the power that arrives later than each edge
        edge = -np.log(np.maximum(left, np.finfo(float).tiny))
        later = left * (edge + 1)  # integral of tau exp(-tau) from the edge to infinity
        delay, power = -np.diff(later) * EXPONENTIAL_TAPS, np.full(EXPONENTIAL_TAPS, 1 / EXPONENTIAL_TAPS)
        return Profile(delay / delay.std(), power)
    delay, power_db = np.array(TABLES[name].split(), float).reshape(-1, 2).T
    power = 10 ** (power_db / 10)
    return Profile(delay, power / power.sum())


def delay_spread_s(air: Air) -> float:
    """Return the rms delay spread in s; it is 300 ns if the settings do not give it."""
    return 300e-9 if air.delay_spread_s is None else air.delay_spread_s


def prefix_samples(air: Air) -> float:
    """Return the samples of a cyclic prefix: those of the settings, or as many as the longest delay of the profile."""
    if air.cyclic_prefix is not None:
        return air.cyclic_prefix
    if not hasattr(air.fading, "draw") and not hasattr(air.fading, "draw_at"):  # channels from a file
        return 0
    longest = float(profile(air.delay_profile or "exponential").delay.max())
    return -(-longest * delay_spread_s(air) * air.bandwidth_hz // 1)


def symbol_rate_hz(air: Air) -> float:
    """Return the symbols per second: B, or with F subcarriers F of them in every F + prefix samples."""
    if air.subcarriers == 1:
        return air.bandwidth_hz
    return air.bandwidth_hz * air.subcarriers / (air.subcarriers + prefix_samples(air))


def block_s(symbols: int, air: Air) -> float:
    """Return the seconds of an analog block, which fills whole OFDM symbols."""
    return -(-symbols // air.subcarriers) * air.subcarriers / symbol_rate_hz(air)


def check_channels(air: Air, *, over_the_air: bool) -> None:
    """Raise a `UserError` for settings that have no effect or are not modelled with these channels.

    Args:
        air: the settings of `[air]`.
        over_the_air: whether the algorithm sends analog signals.
    """
    fading, many = CHANNELS.name_of(type(air.fading)), air.subcarriers > 1
    names = ("delay_profile", "delay_spread_s", "cyclic_prefix", "precoding", "truncation")
    given = [f"air.{name}" for name in names if getattr(air, name) is not None]
    straight = fading in ("rician", "none") or getattr(air.fading, "k_factor_db", None) is not None
    loss, downlink = PATH_LOSSES.name_of(type(air.path_loss)), DOWNLINKS.name_of(type(air.downlink))
    shared = not over_the_air and DIGITAL_UPLINKS.name_of(type(air.digital)) in ("ofdma", "tdma")
    plain = "air.subcarriers = 1, and air.fading that is not 'file'"
    for wrong, sentence in (
        (given and not many, f"{''.join(given[:1])} needs several subcarriers: set air.subcarriers, for example to 64"),
        (
            air.truncation is not None and air.precoding != "truncated",
            "air.truncation needs air.precoding = 'truncated'",
        ),
        (
            many and straight,
            "air.subcarriers > 1 needs air.fading = 'rayleigh', 'jakes' or 'file', without k_factor_db",
        ),
        (many and air.timing_error_symbols is not None, "air.timing_error_symbols needs air.subcarriers = 1"),
        (
            fading == "file" and "air.delay" in "".join(given[:1]),
            f"{''.join(given[:1])} has no effect on air.fading = 'file'",
        ),
        (fading == "file" and loss != "none" and not air.fading.normalise, "air.path_loss needs air.normalise = true"),
        ((many or fading == "file") and downlink == "analog", f"air.downlink = 'analog' needs {plain}"),
        ((many or fading == "file") and shared, f"air.digital = 'ofdma' or 'tdma' needs {plain}"),
    ):
        if wrong:
            raise UserError(sentence)
