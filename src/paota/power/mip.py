"""The paper's own route to the powers: Dinkelbach over P3, each step as the 0-1 programme P5.

Kept as a faithful, selectable method. It needs seconds where `exact` needs a fraction of a millisecond, and
comes within the error of its chords, which falls with the square of the number of segments.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError, unknown_name
from . import checks
from .backends import BACKENDS
from .checks import Flags, Vector
from .dinkelbach import STOPPING, Pass, maximise_ratio
from .level import over_square
from .p5 import COORDINATES, encode, programme
from .problem import Problem
from .quadratics import Quadratics, quadratics
from .solution import Solution, certified, nothing_to_solve

MAX_COLUMNS = 1_000_000
"""The largest 0-1 programme that is tried; beyond it memory would run out long before a solver gets anywhere."""


@dataclass(frozen=True, kw_only=True)
class MipOptions:
    """How the integer programme is built and solved."""

    segments: int = 16  # chords for each square
    tolerance: float = 1e-6  # of Dinkelbach's F and of the solver's gap, both relative to h2
    time_limit_s: float = 60.0  # for the whole solve; infinity for none
    threads: int = 1
    max_passes: int = 50
    backend: str = "highs"  # scip, cplex where installed
    coordinates: str = "sum"  # eigen: as printed
    stopping: str = "mended"  # printed: Algorithm 2 to the letter, which ends after one pass

    def __post_init__(self) -> None:
        checks.whole("segments", self.segments, at_least=1)
        checks.scalar("tolerance", self.tolerance, above=0)
        if self.time_limit_s != math.inf:
            checks.scalar("time_limit_s", self.time_limit_s, at_least=0)
        checks.whole("threads", self.threads, at_least=1)
        checks.whole("max_passes", self.max_passes, at_least=1)
        if self.backend not in BACKENDS:
            raise unknown_name("backend", self.backend, BACKENDS)
        if self.coordinates not in COORDINATES:
            raise unknown_name("coordinates", self.coordinates, COORDINATES)
        if self.stopping not in STOPPING:
            raise unknown_name("stopping", self.stopping, STOPPING)


def solve(problem: Problem, **options: Any) -> Solution:
    """One instance by the paper's route; the certificate shows how far from optimal it is."""
    chosen = MipOptions(**options)
    if problem.nobody_ready:
        return nothing_to_solve(problem, method="mip")
    rho_is_upper = (problem.rho >= problem.theta)[problem.ready]
    power, message = _powers(problem.ready_lo, problem.ready_hi, rho_is_upper, problem.c, chosen)
    return certified(problem, power, method="mip", message=message)


def host_solve(
    rho: NDArray[Any],
    theta: NDArray[Any],
    p_max: NDArray[Any],
    ready: NDArray[Any],
    c1: Any,
    c2: Any,
    **options: Any,
) -> NDArray[Any]:
    """Powers for the compiled engine's call to the host: plain arrays in, powers of the same shape and type out.

    Never raises for what the training may bring: nobody ready or nobody able to send gives zeros, and a not-a-number
    (a model that diverged) is handed on to the ready devices, as the compiled solver does.
    """
    chosen = MipOptions(**options)
    ready = np.asarray(ready, dtype=bool)
    with np.errstate(invalid="ignore", over="ignore"):
        lo, hi = (p_max * bound(rho, theta) for bound in (np.minimum, np.maximum))
    power = np.zeros(hi.shape, dtype=np.asarray(p_max).dtype)
    ready_lo, ready_hi = lo[ready].astype(np.float64), hi[ready].astype(np.float64)
    if not np.isfinite(ready_hi).all() or not np.isfinite(ready_lo).all():
        power[ready] = np.nan
    elif (ready_hi > 0).any():
        c = float(c2) / float(c1) if float(c1) > 0 else math.inf
        best, _ = _powers(ready_lo, ready_hi, (np.asarray(rho) >= theta)[ready], c, chosen)
        power[ready] = best
    return power


def _powers(lo: Vector, hi: Vector, rho_is_upper: Flags, c: float, options: MipOptions) -> tuple[Vector, str]:
    """Powers of ready devices and the sentence why the search ended."""
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
    """Algorithm 2 over P5 for the active devices."""
    squares = COORDINATES[options.coordinates](functions)
    n, m = functions.g.size, options.segments
    columns = n + len(squares.rows) * (m + 1) + m
    if columns > MAX_COLUMNS:
        raise UserError(
            f"the integer programme would have {columns} variables, and the most allowed is {MAX_COLUMNS}: "
            "choose fewer segments, or the method 'exact'"
        )
    backend = BACKENDS[options.backend]
    deadline = time.monotonic() + options.time_limit_s

    def maximise(lambda_: float, beta: Vector) -> Pass:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return Pass(beta=None, give_up=f"The time limit of {options.time_limit_s:g} s was reached")
        model = programme(functions, squares, lambda_, segments=m, unit=functions.h2(beta))
        outcome = backend(
            model,
            encode(squares, lambda_, beta, segments=m),
            tolerance=options.tolerance,
            time_limit_s=remaining,
            threads=options.threads,
        )
        found = None if outcome.x is None else np.clip(outcome.x[:n], 0.0, 1.0)
        if outcome.proven:
            return Pass(beta=found)
        if "time" in outcome.status:
            return Pass(beta=found, give_up=f"The time limit of {options.time_limit_s:g} s was reached")
        return Pass(beta=found, give_up=f"The {options.backend} solver stopped early ({outcome.status})")

    start = np.full(n, 0.5)
    result = maximise_ratio(
        functions,
        maximise,
        start,
        tolerance=options.tolerance,
        max_passes=options.max_passes,
        stopping=options.stopping,
    )
    return result.beta, f"Dinkelbach with {m} segments: {result.message}"
