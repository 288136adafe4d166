"""The solution of P2 by one scalar: the level of the optimum, and a lower bound of the objective.

The optimum is p_k = clip(tau, lo_k, hi_k), where tau is the root of the continuous, nondecreasing, piecewise-linear

    psi(tau) = sum_k [ hi_k*(tau - hi_k)+  -  lo_k*(lo_k - tau)+ ] - c,

and for every tau the dual of the convex form gives f* >= c1*tau^2/(|p(tau)|^2 + (psi(tau) + c)+^2/c), with equality at
the root. docs/power.md derives both.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .problem import Vector


def level(lo: Vector, hi: Vector, c: float) -> float:
    """Return the largest root tau of psi in O(K log K).

    Without noise psi can be flat at 0. The largest root is the limit of vanishing noise.

    Args:
        lo: lower bounds of the amplitudes, [n], 0 <= lo <= hi.
        hi: upper bounds, [n], at least one of them positive.
        c: c2/c1 >= 0, or infinity.
    """
    lo, hi = np.sort(lo), np.sort(hi)
    least = min(points[index] for points in (lo, hi) if (index := np.searchsorted(points, 0.0, "right")) < points.size)
    scale = _power_of_two_near(float(hi[-1]))  # exact to divide by, and keeps the squares in range
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        tau = _level_in_range(lo / scale, hi / scale, over_square(c, scale)) * scale
        for _ in range(10):
            # Far below the largest bound products may underflow: solve again in the unit of the answer.
            if tau >= scale or (least / scale) * (tau / scale) > 2.0**-900:
                break
            scale = _power_of_two_near(tau)
            tau = _level_in_range(lo / scale, hi / scale, over_square(c, scale)) * scale
    return tau


def lower_bound(lo: Vector, hi: Vector, c: float, tau: float) -> float:
    """Return a lower bound of (|p|^2 + c)/(1'p)^2 over the box for any tau > 0; it is tight at the level.

    It is the dual bound tau^2/(|p(tau)|^2 + (psi(tau) + c)+^2/c). The function evaluates it at tau and slightly below,
    because rounding can make psi too large at tau if c is tiny.
    """
    scale = _power_of_two_near(tau)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        lo, hi, c, tau = lo / scale, hi / scale, over_square(c, scale), tau / scale
        bounds = [_dual_value(lo, hi, c, tau * (1.0 - shift)) for shift in (0.0, 1e-14)]
    return float(max(bounds))


def over_square(c: float, scale: float) -> float:
    """Return c/scale^2 without computing scale^2, which may underflow."""
    return float(np.float64(c) / scale / scale)


def _dual_value(lo: Vector, hi: Vector, c: float, tau: float) -> float:
    pull = float((hi * np.maximum(tau - hi, 0.0)).sum() - (lo * np.maximum(lo - tau, 0.0)).sum())  # psi + c
    square = float(np.square(np.clip(tau, lo, hi)).sum())
    if pull > 0:
        square += float(np.float64(pull) / c * pull)  # infinite without noise: the bound is 0 there
    return tau * tau / square if square > 0 else 0.0


def _level_in_range(lo: Vector, hi: Vector, c: float) -> float:
    """Return the level for ascending bounds whose squares are in range.

    psi is a sum of differences that all have one sign. The form tau*b0 - a0 would lose a c of 1e-11 beside amplitudes
    of 1e2.
    """

    def psi(tau: float) -> float:
        above_hi = hi[: np.searchsorted(hi, tau)]
        below_lo = lo[np.searchsorted(lo, tau, side="right") :]
        return float((above_hi * (tau - above_hi)).sum() - (below_lo * (below_lo - tau)).sum() - c)

    # The last bound at which psi is not yet positive starts the segment of the root. psi(lo[0]) <= 0 always, and only
    # the upper bounds between that lo and the next one are still in question.
    last = _last_not_positive(psi, lo, 1, lo.size)
    first = int(np.searchsorted(hi, lo[last], side="right"))
    end = int(np.searchsorted(hi, lo[last + 1])) if last + 1 < lo.size else hi.size
    last_hi = _last_not_positive(psi, hi, first, end)
    start = float(hi[last_hi] if last_hi >= first else lo[last])
    clamped_hi = hi[: np.searchsorted(hi, start, side="right")]
    clamped_lo = lo[np.searchsorted(lo, start, side="right") :]
    slope = float(clamped_hi.sum() + clamped_lo.sum())
    return start - psi(start) / slope if slope > 0 else start


def _last_not_positive(function: Callable[[float], float], points: Vector, first: int, end: int) -> int:
    """Return the last index in [first, end) at which the nondecreasing function is <= 0, or first - 1."""
    while first < end:
        middle = (first + end) // 2
        if function(float(points[middle])) <= 0:
            first = middle + 1
        else:
            end = middle
    return first - 1


def _power_of_two_near(value: float) -> float:
    return float(np.ldexp(1.0, np.frexp(value)[1] - 1))
