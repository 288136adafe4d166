"""The paper's own route to the amplitudes: Dinkelbach's method over P3, with each step as the 0-1 programme P5.

It needs seconds where the exact method needs a fraction of a millisecond. Its distance from the optimum is the error of
its chords, which falls with the square of the number of segments. HiGHS solves the programmes.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

import highspy
import numpy as np

from ..base.errors import UserError
from ..base.settings import parse
from .dinkelbach import Pass, Quadratics, maximise_ratio, quadratics
from .level import over_square
from .p5 import COORDINATES, MixedLinear, encode, programme
from .problem import Flags, Problem, Vector
from .settings import MipOptions
from .solution import Solution, certified, nothing_to_solve

if TYPE_CHECKING:
    from jaxtyping import Bool, Float
    from numpy.typing import NDArray

MAX_COLUMNS = 1_000_000
"""The largest 0-1 programme that is tried. Larger ones run out of memory long before a solver makes progress."""


class Outcome(NamedTuple):
    """Result of the solver: the best point or None, a flag for proven optimality, and the solver's status."""

    x: Vector | None
    proven: bool
    status: str


def solve(problem: Problem, **options: object) -> Solution:
    """Solve one instance by the paper's route; the certificate bounds its distance from the optimum."""
    chosen = parse(MipOptions, options, "mip")
    if problem.is_empty:
        return nothing_to_solve(problem, method="mip")
    rho_is_upper = (problem.rho >= problem.theta)[problem.ready]
    power, message = _powers(problem.ready_lo, problem.ready_hi, rho_is_upper, problem.c, chosen)
    return certified(problem, power, method="mip", message=message)


def host_solve(
    rho: Float[NDArray[np.floating], " n"],
    theta: Float[NDArray[np.floating], " n"],
    p_max: Float[NDArray[np.floating], " n"],
    ready: Bool[Flags, " n"],
    c1: float,
    c2: float,
    *,
    options: MipOptions,
) -> Float[NDArray[np.floating], " n"]:
    """Return amplitudes for the compiled engine's call to the host, in the shape and type of `p_max`.

    It never raises for values that training may bring. The result is zero if no device is ready or able to send.
    A not-a-number (a model that diverged) is passed on to the ready devices, as in the compiled solver.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        lo, hi = (p_max * bound(rho, theta) for bound in (np.minimum, np.maximum))
    power = np.zeros(hi.shape, dtype=p_max.dtype)
    ready_lo, ready_hi = lo[ready].astype(np.float64), hi[ready].astype(np.float64)
    if not np.isfinite(ready_hi).all() or not np.isfinite(ready_lo).all():
        power[ready] = np.nan
    elif (ready_hi > 0).any():
        c = float(c2) / float(c1) if float(c1) > 0 else math.inf
        best, _ = _powers(ready_lo, ready_hi, (rho >= theta)[ready], c, options)
        power[ready] = best
    return power


def _powers(lo: Vector, hi: Vector, rho_is_upper: Flags, c: float, options: MipOptions) -> tuple[Vector, str]:
    """Return the amplitudes of ready devices and a sentence about the end of the search."""
    scale = float(hi.max())
    with np.errstate(over="ignore", under="ignore"):
        noise = over_square(c, scale)
    if not math.isfinite(noise):
        return hi, "Only the noise counts (c1 = 0), so every ready device sends at its upper bound; G is 0."
    at_zero = np.where(rho_is_upper, lo, hi) / scale  # beta = 0: the similarity end of the box
    slope = np.where(rho_is_upper, hi - lo, lo - hi) / scale
    active = slope * slope > 0  # G is singular for the others: rho = theta leaves nothing to choose
    if not active.any():
        return at_zero * scale, "Every device has rho = theta, so there is nothing to choose."
    functions = quadratics(at_zero, slope, c1=1.0, c2=noise).only(active)
    beta = np.zeros_like(slope)
    beta[active], message = _best_beta(functions, options)
    return np.clip((at_zero + slope * beta) * scale, lo, hi), message


def _best_beta(functions: Quadratics, options: MipOptions) -> tuple[Vector, str]:
    """Run Algorithm 2 over P5 for the active devices."""
    squares = COORDINATES[options.coordinates](functions)
    n, m = functions.g.size, options.segments
    columns = n + len(squares.rows) * (m + 1) + m
    if columns > MAX_COLUMNS:
        raise UserError(
            f"the integer programme would have {columns} variables, and the most allowed is {MAX_COLUMNS}: "
            "choose fewer segments, or the method 'exact'"
        )
    limit_s = math.inf if options.time_limit_s is None else options.time_limit_s
    deadline = time.monotonic() + limit_s
    too_late = f"The time limit of {limit_s:g} s was reached"

    def maximise(lambda_: float, beta: Vector) -> Pass:
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return Pass(beta=None, give_up=too_late)
        model = programme(functions, squares, lambda_, segments=m, unit=functions.h2(beta))
        start = encode(squares, lambda_, beta, segments=m)
        outcome = highs(model, start, tolerance=options.tolerance, time_limit_s=remaining_s, threads=options.threads)
        found = None if outcome.x is None else np.clip(outcome.x[:n], 0.0, 1.0)
        if outcome.proven:
            return Pass(beta=found)
        if "time" in outcome.status:
            return Pass(beta=found, give_up=too_late)
        return Pass(beta=found, give_up=f"The solver stopped early ({outcome.status})")

    result = maximise_ratio(
        functions,
        maximise,
        np.full(n, 0.5),
        tolerance=options.tolerance,
        max_passes=options.max_passes,
        stopping=options.stopping,
    )
    return result.beta, f"Dinkelbach with {m} segments: {result.message}"


def highs(model: MixedLinear, start: Vector, *, tolerance: float, time_limit_s: float, threads: int) -> Outcome:
    """Solve a 0-1 programme with HiGHS.

    Args:
        model: the programme.
        start: a feasible point.
        tolerance: absolute gap at which a point counts as optimal; the objective is in units of h2.
        time_limit_s: time limit in seconds.
        threads: threads of the solver.
    """
    solver = highspy.Highs()
    options = {
        "output_flag": False,
        "threads": threads,
        "mip_rel_gap": 0.0,  # the objective is in units of h2, so the absolute gap is the meaningful one
        "mip_abs_gap": tolerance,
        "time_limit": max(time_limit_s, 0.0),
        # The searches of smaller programmes inside this one took seven eighths of the time and found nothing: the start
        # is good, and the few 0-1 variables are quickly enumerated. (A HiGHS that lacks a switch ignores it.)
        "mip_heuristic_run_rins": False,
        "mip_heuristic_run_rens": False,
        "mip_heuristic_run_root_reduced_cost": False,
    }
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(_highs_model(model))
    first = highspy.HighsSolution()
    first.col_value = list(start)
    solver.setSolution(first)
    if solver.run() == highspy.HighsStatus.kError:
        # HiGHS keeps one pool of threads for the whole process and refuses to run with more of them than it has.
        highspy.Highs.resetGlobalScheduler(True)
        solver.run()
    status = solver.getModelStatus()
    found = solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return Outcome(
        x=np.array(solver.getSolution().col_value) if found else None,
        proven=status == highspy.HighsModelStatus.kOptimal,
        status=str(solver.modelStatusToString(status)).lower(),
    )


def _highs_model(model: MixedLinear) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = model.cost.size, model.row_lower.size
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, np.zeros(model.cost.size), np.ones(model.cost.size)
    whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    lp.integrality_ = [whole if binary else real for binary in model.binary]
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = model.row_start, model.column, model.value
    return lp
