"""Power control of one round (problems P1 and P2 of the paper): the amplitude of each ready device.

    import paota.power
    solution = paota.power.solve(p_max=15.0, staleness=[0, 1, 1], similarity=[0.2, 0.6, 0.9])
    solution.power, solution.kkt_residual

The method "exact" finds the global optimum with a certificate. The method "mip" is the paper's own route: Dinkelbach's
method over a 0-1 programme. docs/power.md explains why they agree. Nothing here imports JAX; the module `p2_jax` is the
compiled form of "exact".
"""

from __future__ import annotations

from dataclasses import fields

from ..base.errors import UserError, unknown_name
from .problem import DEVICE_KEYS, SCALAR_KEYS, Problem, problem_from
from .settings import MipOptions
from .solution import Solution, solve_exact

__all__ = ["METHODS", "Problem", "Solution", "method_options", "problem_from", "solve", "solve_problem"]

METHODS = ("exact", "mip")


def solve(*, method: str = "exact", **arguments: object) -> Solution:
    """Return the optimal amplitudes of one round, with a certificate of optimality.

    Args:
        method: "exact", the optimum in closed form, or "mip", the paper's route.
        arguments: the instance, as `problem_from` documents it, and the options of "mip": segments, tolerance,
            time_limit_s, threads, max_passes, coordinates, stopping.

    Raises:
        paota.UserError: a wrong argument or value, in one sentence.
    """
    method_options(method)  # the sentence for a wrong method comes first
    names = method_options("mip")
    for name in arguments:
        if name not in (known := names + DEVICE_KEYS + SCALAR_KEYS):
            raise unknown_name("argument", name, known)
    options = {name: arguments.pop(name) for name in names if name in arguments}
    return solve_problem(problem_from(**arguments), method=method, **options)


def solve_problem(problem: Problem, *, method: str = "exact", **options: object) -> Solution:
    """Solve a checked instance with the named method; `options` are those of `method_options(method)`."""
    known = method_options(method)
    for name in options:
        if name not in method_options("mip"):
            raise unknown_name("option", name, method_options("mip"))
        if name not in known:
            raise UserError(f"{name} is an option of the method 'mip', not of '{method}'")
    if method == "exact":
        return solve_exact(problem)
    from . import mip  # start-up time

    return mip.solve(problem, **options)


def method_options(method: str) -> tuple[str, ...]:
    """Return the names of the options that a method accepts."""
    if method == "qp":
        raise UserError("the method 'qp' no longer exists: 'exact' finds the same optimum, with a certificate")
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    return tuple(field.name for field in fields(MipOptions)) if method == "mip" else ()
