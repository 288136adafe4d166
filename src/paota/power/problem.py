"""One power-control instance: the boxes, the two weights, the objective and its certificate.

P1/P2 of the paper over the ready devices, with c1 = L*eps^2*K and c2 = 2*L*d*sigma^2:

    minimise f(p) = (c1*|p|^2 + c2) / (1'p)^2   over lo <= p <= hi, 1'p > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..base.units import dbm_to_w
from . import checks
from .checks import Flags, Vector

PAPER_NUM_PARAMETERS = 8070  # the paper's MLP: 784*10 + 10 + 10*10 + 10 + 10*10 + 10
PAPER_BANDWIDTH_HZ = 20e6
PAPER_N0_DBM_PER_HZ = -174.0


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A checked instance. Arrays have one element per device (K given); only ready devices take part.

    Build it with `problem_from`; the constructor itself checks nothing.
    """

    p_max: Vector
    rho: Vector  # staleness factor Omega/(s + Omega), Eq. asy:power_control
    theta: Vector  # similarity factor (cos + 1)/2, Eq. asy:power_control
    lo: Vector
    hi: Vector
    ready: Flags  # b_k
    smoothness: float  # L
    epsilon2: float  # eps^2
    num_devices: int  # K of term (d)
    num_parameters: int  # d of term (e)
    noise_power_w: float  # sigma^2

    @property
    def c1(self) -> float:
        """Weight of |p|^2: L*eps^2*K."""
        return self.smoothness * self.epsilon2 * self.num_devices

    @property
    def c2(self) -> float:
        """Weight of the noise: 2*L*d*sigma^2."""
        return 2.0 * self.smoothness * self.num_parameters * self.noise_power_w

    @property
    def c(self) -> float:
        """c2/c1, all that the minimiser sees of the constants; infinite where only the noise counts."""
        return self.c2 / self.c1 if self.c1 > 0 else math.inf

    @cached_property
    def ready_lo(self) -> Vector:
        return self.lo[self.ready]

    @cached_property
    def ready_hi(self) -> Vector:
        return self.hi[self.ready]

    @property
    def nobody_ready(self) -> bool:
        return not bool(self.ready.any())

    def spread(self, power: Vector) -> Vector:
        """Powers of the ready devices as an array over all devices, 0 for the others."""
        full = np.zeros_like(self.hi)
        full[self.ready] = power
        return full


def noise_power(*, noise_power_w: Any = None, bandwidth_hz: Any = None, n0_dbm_per_hz: Any = None) -> float:
    """sigma^2 = B*N0 in watt, from sigma^2 itself or from bandwidth and density (the paper's where left out)."""
    if noise_power_w is not None:
        if bandwidth_hz is not None or n0_dbm_per_hz is not None:
            raise UserError("give noise_power_w, or bandwidth_hz and n0_dbm_per_hz, not both")
        return checks.scalar("noise_power_w", noise_power_w, at_least=0)
    bandwidth = PAPER_BANDWIDTH_HZ if bandwidth_hz is None else bandwidth_hz
    density = PAPER_N0_DBM_PER_HZ if n0_dbm_per_hz is None else n0_dbm_per_hz
    bandwidth = checks.scalar("bandwidth_hz", bandwidth, at_least=0)
    density = checks.scalar("n0_dbm_per_hz", density)
    try:
        return bandwidth * float(dbm_to_w(density))
    except OverflowError:
        raise UserError(f"n0_dbm_per_hz = {density:g} is too large") from None


def staleness_factor(staleness: Vector, omega: float) -> Vector:
    """rho = Omega/(s + Omega), Eq. asy:power_control; written so that it cannot overflow."""
    return 1.0 / (1.0 + staleness / omega)


def problem_from(*, lo: Any = None, hi: Any = None, **arguments: Any) -> Problem:
    """A checked instance from the words of an instance file; `paota.power.solve` explains them."""
    if lo is None and hi is None:
        return from_factors(**arguments)
    factors = ("p_max", "staleness", "similarity", "rho", "theta")
    given = [name for name in factors if arguments.pop(name, None) is not None]
    if given:
        raise UserError(f"give lo and hi, or {given[0]} and its companions, not both")
    if lo is None or hi is None:
        raise UserError(f"{'lo' if lo is None else 'hi'} is missing: a box has two bounds")
    arguments.pop("omega", None)  # turns staleness into rho, and there is none
    return from_boxes(lo=lo, hi=hi, **arguments)


def from_factors(
    *,
    p_max: Any = None,
    staleness: Any = None,
    similarity: Any = None,
    rho: Any = None,
    theta: Any = None,
    ready: Any = None,
    omega: Any = 3.0,
    **constants: Any,
) -> Problem:
    """The instance in the paper's words: caps, staleness (or rho) and similarity theta in [0, 1]."""
    if p_max is None:
        raise UserError("p_max is missing (or give lo and hi)")
    _exactly_one("staleness", staleness, "rho", rho)
    _exactly_one("similarity", similarity, "theta", theta)
    theta_name, theta_value = ("theta", theta) if similarity is None else ("similarity", similarity)
    stale_name, stale_value = ("rho", rho) if staleness is None else ("staleness", staleness)
    omega = checks.scalar("omega", omega, above=0)
    arrays = checks.same_length(
        {
            "p_max": checks.vector("p_max", p_max),
            stale_name: checks.vector(stale_name, stale_value, at_most=1 if staleness is None else math.inf),
            theta_name: checks.vector(theta_name, theta_value, at_most=1),
            "ready": checks.flags("ready", True if ready is None else ready),
        }
    )
    caps, similar = arrays["p_max"], arrays[theta_name]
    with np.errstate(over="ignore"):  # s/omega may overflow to infinity: rho is 0 then, which is right
        fresh = arrays["rho"] if staleness is None else staleness_factor(arrays["staleness"], omega)
    return _finished(
        p_max=caps,
        rho=fresh,
        theta=similar,
        lo=caps * np.minimum(fresh, similar),
        hi=caps * np.maximum(fresh, similar),
        ready=arrays["ready"],
        **constants,
    )


def from_boxes(*, lo: Any, hi: Any, ready: Any = None, **constants: Any) -> Problem:
    """The instance from bounds given directly; then beta_k is the place of p_k between lo_k (0) and hi_k (1)."""
    arrays = checks.same_length(
        {
            "lo": checks.vector("lo", lo),
            "hi": checks.vector("hi", hi),
            "ready": checks.flags("ready", True if ready is None else ready),
        }
    )
    low, high = arrays["lo"], arrays["hi"]
    crossed = low > high
    if crossed.any():
        k = int(np.argmax(crossed))
        raise UserError(f"lo[{k}] = {low[k]:g} is greater than hi[{k}] = {high[k]:g}")
    theta = np.divide(low, high, out=np.ones_like(low), where=high > 0)
    return _finished(
        p_max=high, rho=np.ones_like(low), theta=theta, lo=low, hi=high, ready=arrays["ready"], **constants
    )


def _exactly_one(first: str, first_value: Any, second: str, second_value: Any) -> None:
    if first_value is not None and second_value is not None:
        raise UserError(f"give {first} or {second}, not both")
    if first_value is None and second_value is None:
        raise UserError(f"{first} is missing (or give {second})")


def _finished(
    *,
    p_max: Vector,
    rho: Vector,
    theta: Vector,
    lo: Vector,
    hi: Vector,
    ready: Flags,
    smoothness: Any = 10.0,
    epsilon2: Any = 1.0,
    num_devices: Any = None,
    num_parameters: Any = PAPER_NUM_PARAMETERS,
    noise_power_w: Any = None,
    bandwidth_hz: Any = None,
    n0_dbm_per_hz: Any = None,
) -> Problem:
    """Check the constants and what only shows once everything is together."""
    problem = Problem(
        p_max=p_max,
        rho=rho,
        theta=theta,
        lo=lo,
        hi=hi,
        ready=ready,
        smoothness=checks.scalar("smoothness", smoothness, at_least=0),
        epsilon2=checks.scalar("epsilon2", epsilon2, at_least=0),
        num_devices=checks.whole("num_devices", len(lo) if num_devices is None else num_devices, at_least=1),
        num_parameters=checks.whole("num_parameters", num_parameters, at_least=1),
        noise_power_w=noise_power(noise_power_w=noise_power_w, bandwidth_hz=bandwidth_hz, n0_dbm_per_hz=n0_dbm_per_hz),
    )
    if not (math.isfinite(problem.c1) and math.isfinite(problem.c2)):
        raise UserError("smoothness, epsilon2, num_devices, num_parameters and noise_power_w overflow a float64")
    if not problem.nobody_ready and not (problem.ready_hi > 0).any():
        raise UserError("no ready device can send: every upper power bound p_max*max(rho, theta) is 0")
    return problem
