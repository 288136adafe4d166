"""The settings of `[air]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..registry import CHANNELS, DIGITAL_UPLINKS, PATH_LOSSES
from ..settings import choice, setting


@dataclass(frozen=True, kw_only=True)
class Air:
    """What does the channel do?"""

    fading: Any = choice(CHANNELS, "rayleigh")
    bandwidth_hz: float = setting(20e6, above=0)
    n0_dbm_per_hz: float = setting(-174.0, low=-400, high=300)
    path_loss: Any = choice(PATH_LOSSES, "none")
    antennas: int = setting(1, low=1, high=1024)  # of the server
    combiner: str = setting("sum", options=("sum", "max-min", "mmse"))  # what makes one signal of several antennas
    packing: str = setting("real", options=("real", "complex"))  # one or two weights a symbol
    # Imperfections, absent unless given: a number is an input of the compiled program, its absence a simpler program.
    csi_error: float | None = setting(None, low=0)  # E|estimate - h_k|^2 / E|h_k|^2
    phase_error_rad: float | None = setting(None, low=0)  # standard deviation
    timing_error_symbols: float | None = setting(None, low=0, high=1)  # offsets are uniform in +- this
    digital: Any = choice(DIGITAL_UPLINKS, "ideal")  # for algorithms that do not compute over the air
