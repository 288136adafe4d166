"""Power control: how loud each ready device sends (P1/P2 of the paper).

    import paota.power
    solution = paota.power.solve(p_max=15.0, staleness=[0, 1, 1], similarity=[0.2, 0.6, 0.9])
    solution.power, solution.kkt_residual

`exact` finds the global optimum with a certificate, `mip` is the paper's route (Dinkelbach and a 0-1 programme), `qp`
the convex quadratic programme. docs/power.md says why they agree. Nothing here imports JAX; the compiled form of
`exact` is in `p2_jax`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..base.errors import UserError, unknown_name
from .problem import PAPER_NUM_PARAMETERS, Problem, problem_from
from .solution import Solution

__all__ = ["METHODS", "Problem", "Solution", "method_options", "problem_from", "solve", "solve_problem"]

METHODS = ("exact", "mip", "qp")


def solve(
    *,
    p_max: Any = None,
    staleness: Any = None,
    similarity: Any = None,
    rho: Any = None,
    theta: Any = None,
    lo: Any = None,
    hi: Any = None,
    ready: Any = None,
    omega: float = 3.0,
    smoothness: float = 10.0,
    epsilon2: float = 1.0,
    num_devices: int | None = None,
    num_parameters: int = PAPER_NUM_PARAMETERS,
    noise_power_w: float | None = None,
    bandwidth_hz: float | None = None,
    n0_dbm_per_hz: float | None = None,
    method: str = "exact",
    **options: Any,
) -> Solution:
    """Optimal powers of one round. Arrays have one element per device; a single number stands for all devices.

    Args:
        p_max: largest amplitude gain p_k^max, [K].
        staleness: s_k in rounds, [K].
        similarity: theta_k = (cosine + 1)/2 in [0, 1], [K].
        rho: omega/(s_k + omega) itself, in place of `staleness`.
        theta: the same thing as `similarity`.
        lo: lower end of each device's box, in place of p_max, staleness and similarity, [K].
        hi: upper end of each device's box, [K].
        ready: who takes part, [K] (default: all).
        omega: staleness constant of rho.
        smoothness: L of terms (d) and (e).
        epsilon2: eps^2 of term (d).
        num_devices: K of term (d) (default: as many as given).
        num_parameters: d of term (e).
        noise_power_w: sigma^2 (default: the paper's, from the next two).
        bandwidth_hz: of the noise (default: 20 MHz).
        n0_dbm_per_hz: density of the noise (default: -174 dBm/Hz).
        method: "exact", the optimum in closed form; "mip", the paper's route; "qp", a convex programme.
        options: of "mip": segments, tolerance, time_limit_s, threads, max_passes, backend, coordinates, stopping; of
            "qp": backend, time_limit_s.

    Returns:
        The powers, with a certificate that they are the best.

    Raises:
        paota.UserError: one sentence for anything that makes no sense.
    """
    problem = problem_from(
        p_max=p_max,
        staleness=staleness,
        similarity=similarity,
        rho=rho,
        theta=theta,
        lo=lo,
        hi=hi,
        ready=ready,
        omega=omega,
        smoothness=smoothness,
        epsilon2=epsilon2,
        num_devices=num_devices,
        num_parameters=num_parameters,
        noise_power_w=noise_power_w,
        bandwidth_hz=bandwidth_hz,
        n0_dbm_per_hz=n0_dbm_per_hz,
    )
    return solve_problem(problem, method=method, **options)


def solve_problem(problem: Problem, *, method: str = "exact", **options: Any) -> Solution:
    """Solve a checked instance by the named method."""
    known = method_options(method)
    for name in options:
        if name not in known:
            raise _misplaced(name, method)
    if method == "exact":
        from . import p2 as exact

        return exact.solve(problem)
    if method == "mip":
        from . import mip

        return mip.solve(problem, **options)
    from . import qp

    return qp.solve(problem, **options)


def method_options(method: str) -> tuple[str, ...]:
    """Names of the options that a method takes."""
    if method == "exact":
        return ()
    if method == "mip":
        from .mip import MipOptions

        return tuple(field.name for field in fields(MipOptions))
    if method == "qp":
        from .qp import QpOptions

        return tuple(field.name for field in fields(QpOptions))
    raise unknown_name("method", method, METHODS)


def _misplaced(name: str, method: str) -> UserError:
    """The sentence for an option that this method does not have."""
    for other in METHODS:
        if name in method_options(other):
            return UserError(f"{name} is an option of the method '{other}', not of '{method}'")
    return unknown_name("option", name, {option for other in METHODS for option in method_options(other)})
