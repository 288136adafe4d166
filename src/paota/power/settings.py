"""The settings of `[power]`."""

from __future__ import annotations

from dataclasses import dataclass

from ..settings import setting


@dataclass(frozen=True, kw_only=True)
class Power:
    """How loud is each device?"""

    max_power_w: float = setting(15.0, above=0)
    cap: str = setting("paper", options=("paper", "physical"))
    method: str = setting("exact", options=("exact", "mip", "uniform", "staleness", "similarity"))
    smoothness: float = setting(10.0, above=0)  # L
    omega: float = setting(3.0, above=0)
    epsilon2: float = setting(1.0, low=0)  # eps^2 of Assumption 3
    # Of the paper's route, method = "mip"; Algorithm 2 as printed is coordinates = "eigen" with stopping = "printed".
    segments: int = setting(16, low=1, high=1024)  # chords for each square
    tolerance: float = setting(1e-6, above=0)  # of Dinkelbach's iteration
    coordinates: str = setting("sum", options=("sum", "eigen"))
    stopping: str = setting("mended", options=("mended", "printed"))
    max_passes: int = setting(50, low=1)
    time_limit_s: float = setting(60.0, above=0)  # an aggregation; a run that meets it depends on the machine
    compute_power_w: float = setting(1.0, low=0)  # drawn while training; for the energy account only
