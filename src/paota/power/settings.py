"""The settings of `[power]`, and the options of the paper's route."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.settings import setting


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power budget of the devices and the choice of their amplitudes."""

    max_power_w: float = setting(
        15.0,
        above=0,
        doc="Power budget P_max of a device.",
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
        doc="Choice of PAOTA's amplitudes: the optimum, the paper's route to it, or a fixed rule.",
        aliases=("solver",),
    )
    smoothness: float = setting(10.0, above=0, doc="Smoothness L of the loss in the bound.", aliases=("L",))
    omega: float = setting(
        3.0, above=0, doc="Staleness constant Omega of rho = Omega / (s + Omega).", aliases=("Omega",)
    )
    epsilon2: float = setting(1.0, low=0, doc="eps^2 of Assumption 3.")
    # Options of method = "mip". Algorithm 2 as printed is coordinates = "eigen" with stopping = "printed".
    segments: int = setting(16, low=1, high=1024, doc='Chords per square, for method = "mip".')
    tolerance: float = setting(1e-6, above=0, doc='Tolerance of Dinkelbach\'s method, for method = "mip".')
    coordinates: str = setting("sum", options=("sum", "eigen"), doc='For method = "mip"; "eigen" is as printed.')
    stopping: str = setting("mended", options=("mended", "printed"), doc='For method = "mip"; "printed": one pass.')
    max_passes: int = setting(50, low=1, doc='Largest number of Dinkelbach passes, for method = "mip".')
    time_limit_s: float = setting(
        60.0,
        above=0,
        doc='Time limit of one aggregation, for method = "mip"; a run that reaches it depends on the machine.',
    )
    energy_budget_j: float | None = setting(
        None,
        above=0,
        doc="Energy that a device may radiate in the whole run; it is silent afterwards. Absent: no limit.",
        aliases=("energy_budget", "battery_j"),
    )
    compute_power_w: float = setting(1.0, low=0, doc="Power drawn while training, for the energy account only.")


@dataclass(frozen=True, kw_only=True)
class MipOptions:
    """Options of the method "mip" of `paota.power.solve`."""

    segments: int = setting(16, low=1, doc="Chords per square.")
    tolerance: float = setting(1e-6, above=0, doc="Tolerance of F and of the solver's gap, both relative to h2.")
    time_limit_s: float | None = setting(60.0, low=0, doc="Time limit of the whole solve; None: no limit.")
    threads: int = setting(1, low=1, doc="Threads of the solver.")
    max_passes: int = setting(50, low=1, doc="Largest number of Dinkelbach passes.")
    coordinates: str = setting("sum", options=("sum", "eigen"), doc='"eigen": as printed.')
    stopping: str = setting("mended", options=("mended", "printed"), doc='"printed": Algorithm 2 as printed, one pass.')
