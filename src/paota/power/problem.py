"""One power-control instance: the boxes, the two weights and the checks of what a user gives.

P1/P2 of the paper over the ready devices, with c1 = L*eps^2*K and c2 = 2*L*d*sigma^2:

    minimise f(p) = (c1*|p|^2 + c2) / (1'p)^2   over lo <= p <= hi, 1'p > 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..base.errors import UserError, unknown_name
from ..base.settings import parse, setting
from ..base.units import dbm_to_w

if TYPE_CHECKING:
    from jaxtyping import Bool, Float

Vector: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Arrays: TypeAlias = dict[str, NDArray[Any]]  # numbers, and flags under "ready"


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The numbers of an instance that all devices share."""

    omega: float = setting(3.0, above=0, doc="Staleness constant Omega of rho = Omega / (s + Omega).")
    smoothness: float = setting(10.0, low=0, doc="Smoothness L of the loss.")
    epsilon2: float = setting(1.0, low=0, doc="eps^2 of the bound.")
    num_devices: int | None = setting(None, low=1, doc="K of term (d); absent: the devices of the instance.")
    num_parameters: int = setting(8070, low=1, doc="Model size d of term (e); default: the paper's MLP.")
    noise_power_w: float | None = setting(None, low=0, doc="Noise power sigma^2 in W; absent: bandwidth times density.")
    bandwidth_hz: float = setting(20e6, low=0, doc="Bandwidth B in Hz.")
    n0_dbm_per_hz: float = setting(-174.0, low=-400, high=300, doc="Noise density N0 in dBm/Hz.")


DEVICE_KEYS = ("p_max", "staleness", "similarity", "rho", "theta", "lo", "hi", "ready")
SCALAR_KEYS = tuple(field.name for field in fields(Constants))


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A checked instance of K given devices, of which only the ready ones take part. Build it with `problem_from`."""

    p_max: Float[Vector, " K"]
    rho: Float[Vector, " K"]  # staleness factor Omega/(s + Omega), Eq. asy:power_control
    theta: Float[Vector, " K"]  # similarity factor (cos + 1)/2, Eq. asy:power_control
    lo: Float[Vector, " K"]
    hi: Float[Vector, " K"]
    ready: Bool[Flags, " K"]  # b_k
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
        """The ratio c2/c1, which alone decides the minimiser; infinite if only the noise counts."""
        return self.c2 / self.c1 if self.c1 > 0 else math.inf

    @cached_property
    def ready_lo(self) -> Vector:
        return self.lo[self.ready]

    @cached_property
    def ready_hi(self) -> Vector:
        return self.hi[self.ready]

    @property
    def is_empty(self) -> bool:
        """True if no device is ready."""
        return not bool(self.ready.any())

    def spread(self, power: Vector) -> Vector:
        """Return the amplitudes of the ready devices as an array over all devices, 0 for the others."""
        full = np.zeros_like(self.hi)
        full[self.ready] = power
        return full


def problem_from(**arguments: object) -> Problem:
    """Check the arguments of an instance and return its problem; None means absent.

    Arguments of devices hold one value per device, [K], or a single value for all devices. Give p_max with staleness
    (or rho) and similarity (or theta), or give lo and hi.

    Args:
        p_max: largest amplitude p_k^max, [K].
        staleness: s_k in rounds, [K].
        similarity: theta_k = (cosine + 1)/2 in [0, 1], [K].
        rho: staleness factor omega/(s_k + omega), in place of staleness, [K].
        theta: another name of similarity, [K].
        lo: lower bound of each amplitude, in place of p_max, staleness and similarity, [K].
        hi: upper bound of each amplitude, [K].
        ready: the devices that take part, [K] (default: all).
        omega: staleness constant of rho (default: 3).
        smoothness: L of terms (d) and (e) (default: 10).
        epsilon2: eps^2 of term (d) (default: 1).
        num_devices: K of term (d) (default: the number of given devices).
        num_parameters: d of term (e) (default: 8070).
        noise_power_w: sigma^2 in W (default: bandwidth times density).
        bandwidth_hz: bandwidth B (default: 20 MHz).
        n0_dbm_per_hz: noise density N0 (default: -174 dBm/Hz).

    Raises:
        paota.UserError: a wrong argument or value, in one sentence.
    """
    for name in arguments:
        if name not in DEVICE_KEYS + SCALAR_KEYS:
            raise unknown_name("argument", name, DEVICE_KEYS + SCALAR_KEYS)
    given = {name: value for name, value in arguments.items() if value is not None}
    values = {name: given.pop(name) for name in DEVICE_KEYS if name in given}
    if "noise_power_w" in given and given.keys() & {"bandwidth_hz", "n0_dbm_per_hz"}:
        raise UserError("give noise_power_w, or bandwidth_hz and n0_dbm_per_hz, not both")
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    constants = parse(Constants, plain, "instance")
    arrays = _boxes(values) if values.keys() & {"lo", "hi"} else _factors(values, constants.omega)
    noise_power_w = constants.noise_power_w
    if noise_power_w is None:
        noise_power_w = constants.bandwidth_hz * float(dbm_to_w(constants.n0_dbm_per_hz))
    problem = Problem(
        **arrays,
        smoothness=constants.smoothness,
        epsilon2=constants.epsilon2,
        num_devices=constants.num_devices or arrays["lo"].size,
        num_parameters=constants.num_parameters,
        noise_power_w=noise_power_w,
    )
    if not problem.is_empty and not (problem.ready_hi > 0).any():
        raise UserError("no ready device can send: every upper power bound p_max*max(rho, theta) is 0")
    return problem


def staleness_factor(staleness: Vector, omega: float) -> Vector:
    """Return rho = Omega/(s + Omega), Eq. asy:power_control, in a form that cannot overflow."""
    return 1.0 / (1.0 + staleness / omega)


def _factors(given: dict[str, object], omega: float) -> Arrays:
    """Return the arrays of an instance in the paper's terms: caps, staleness (or rho) and similarity (or theta)."""
    if "p_max" not in given:
        raise UserError("p_max is missing (or give lo and hi)")
    for one, other in (("staleness", "rho"), ("similarity", "theta")):
        if one in given and other in given:
            raise UserError(f"give {one} or {other}, not both")
        if one not in given and other not in given:
            raise UserError(f"{one} is missing (or give {other})")
    arrays = _arrays({"ready": True, **given}, shares=("similarity", "rho", "theta"))
    caps, theta = arrays["p_max"], arrays["similarity" if "similarity" in arrays else "theta"]
    with np.errstate(over="ignore"):  # s/omega may overflow to infinity, which gives the right rho, 0
        rho = arrays["rho"] if "rho" in arrays else staleness_factor(arrays["staleness"], omega)
    lo, hi = caps * np.minimum(rho, theta), caps * np.maximum(rho, theta)
    return {"p_max": caps, "rho": rho, "theta": theta, "lo": lo, "hi": hi, "ready": arrays["ready"]}


def _boxes(given: dict[str, object]) -> Arrays:
    """Return the arrays of an instance given by bounds; beta_k is then the place of p_k between lo_k (0) and hi_k (1)."""
    if others := [name for name in given if name not in ("lo", "hi", "ready")]:
        raise UserError(f"give lo and hi, or {others[0]} and its companions, not both")
    if missing := {"lo", "hi"} - given.keys():
        raise UserError(f"{missing.pop()} is missing: a box has two bounds")
    arrays = _arrays({"ready": True, **given})
    lo, hi = arrays["lo"], arrays["hi"]
    if (lo > hi).any():
        k = int(np.argmax(lo > hi))
        raise UserError(f"lo[{k}] = {lo[k]:g} is greater than hi[{k}] = {hi[k]:g}")
    theta = np.divide(lo, hi, out=np.ones_like(lo), where=hi > 0)
    return arrays | {"p_max": hi, "rho": np.ones_like(lo), "theta": theta}


def _arrays(given: dict[str, object], shares: tuple[str, ...] = ()) -> Arrays:
    """Return checked arrays of the one length that the lists share; a single value stands for every device."""
    arrays = {name: _flags(value) if name == "ready" else _vector(name, value) for name, value in given.items()}
    for name in shares:
        if name in arrays:
            _refuse(name, arrays[name], arrays[name] > 1, "lie in [0, 1]")
    lists = {name: array for name, array in arrays.items() if array.ndim}
    first = min(lists, key=DEVICE_KEYS.index, default="")
    size = lists[first].size if lists else 1
    for name, array in lists.items():
        if array.size != size:
            raise UserError(f"{name} has {array.size} values, but {first} has {size}")
    return {name: np.broadcast_to(array, (size,)) for name, array in arrays.items()}


def _vector(name: str, value: object) -> Vector:
    """Return finite, nonnegative numbers as float64 with at most one axis."""
    array = _flat(name, value, "iuf", "a number")
    numbers = array.astype(np.float64)
    _refuse(name, array, np.isnan(numbers), "be a number")
    _refuse(name, array, ~np.isfinite(numbers), "be finite")
    _refuse(name, array, numbers < 0, "not be negative")
    return numbers


def _flags(value: object) -> Flags:
    """Return the values of `ready` as booleans; 0 and 1 are accepted."""
    array = _flat("ready", value, "biuf", "true or false")
    _refuse("ready", array, (array != 0) & (array != 1), "be true or false (1 or 0)")
    return array.astype(np.bool_)


def _flat(name: str, value: object, kinds: str, what: str) -> NDArray[np.generic]:
    """Return `value` as an array of at most one axis whose NumPy kind is one of `kinds`."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError):  # ragged or too deeply nested
        raise UserError(f"{name} must be {what} or a flat list of them") from None
    if array.ndim > 1:
        raise UserError(f"{name} must be a flat list, not {array.ndim} lists inside each other")
    if array.size == 0:
        raise UserError(f"{name} is empty: give at least one device")
    if isinstance(value, list) and "b" not in kinds and bool in set(map(type, value)):  # NumPy reads True as 1
        _refuse(name, np.array(value, dtype=object), np.array([type(item) is bool for item in value]), f"be {what}")
    if array.dtype.kind not in kinds:
        raise UserError(f"{name} must be {what} or a flat list of them")
    return array


def _refuse(name: str, array: NDArray[np.generic], wrong: Flags, must: str) -> None:
    """Raise the sentence for the first wrong element, if any."""
    if wrong.any():
        index = int(np.argmax(wrong))
        place = name if array.ndim == 0 else f"{name}[{index}]"
        raise UserError(f"{place} = {array.flat[index]} must {must}")
