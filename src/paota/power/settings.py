"""The settings of `[power]`."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.settings import setting


@dataclass(frozen=True, kw_only=True)
class Power:
    """How loud is each device?"""

    max_power_w: float = setting(
        15.0,
        above=0,
        doc="Budget P_max of a device.",
        aliases=("p_max", "pmax", "P_max", "max_power", "transmit_power"),
    )
    cap: str = setting(
        "physical",
        options=("physical", "paper"),
        doc='Limit of the amplitude: "physical" keeps |phi_k w_k|^2 <= P_max (Eq. individual_power), "paper" takes '
        "p_k^max = P_max as printed, which may radiate far more.",
    )
    method: str = setting(
        "exact",
        options=("exact", "mip", "uniform", "staleness", "similarity"),
        doc="How PAOTA's powers are chosen: the optimum, the paper's route to it, or a fixed rule.",
        aliases=("solver",),
    )
    smoothness: float = setting(10.0, above=0, doc="Smoothness L of the loss, as the bound assumes it.", aliases=("L",))
    omega: float = setting(
        3.0, above=0, doc="Staleness constant Omega of rho = Omega / (s + Omega).", aliases=("Omega",)
    )
    epsilon2: float = setting(1.0, low=0, doc="eps^2 of Assumption 3.")
    # Of the paper's route, method = "mip"; Algorithm 2 as printed is coordinates = "eigen" with stopping = "printed".
    segments: int = setting(16, low=1, high=1024, doc='Chords for each square, of method = "mip".')
    tolerance: float = setting(1e-6, above=0, doc='Of Dinkelbach\'s iteration, of method = "mip".')
    coordinates: str = setting("sum", options=("sum", "eigen"), doc='Of method = "mip"; "eigen" is as printed.')
    stopping: str = setting("mended", options=("mended", "printed"), doc='Of method = "mip"; "printed" makes one pass.')
    max_passes: int = setting(50, low=1, doc='Of Dinkelbach\'s iteration, of method = "mip".')
    time_limit_s: float = setting(60.0, above=0, doc="Of one aggregation; a run that meets it depends on the machine.")
    energy_budget_j: float | None = setting(
        None,
        above=0,
        doc="That a device may radiate in the whole run; one that has used it up is silent. Absent: no limit.",
        aliases=("energy_budget", "battery_j"),
    )
    compute_power_w: float = setting(1.0, low=0, doc="Drawn while training; for the energy account only.")
