"""The exact optimum of P2 inside a compiled program: masked, float32-safe, without data-dependent control flow.

Only the engine imports this module, so that `import paota` does not load JAX. The level is found by bisection over
the bit patterns of the floating-point numbers themselves: nonnegative floats are ordered as their bits are, so 30
halvings (62 in float64) end at the very float where psi changes sign, whatever the scale. Beside a sort with
cumulative sums this is several times faster on a CPU, and each psi is a sum of same-sign differences, so a c of
1e-11 beside powers of 1e2 keeps its meaning in float32.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

_BITS = {jnp.dtype("float32"): (jnp.int32, 30), jnp.dtype("float64"): (jnp.int64, 62)}  # halvings of [0.0, 1.0]


@jax.jit
def solve(lo: ArrayLike, hi: ArrayLike, ready: ArrayLike, c: ArrayLike) -> tuple[Array, Array]:
    """Optimal powers p = clip(tau, lo, hi), 0 where not ready, and the level tau.

    `lo`, `hi` and `ready` have one element per device, 0 <= lo <= hi; values of devices that are not ready are never
    looked at. `c` = c2/c1 >= 0; infinite (c1 = 0) and not-a-number (c1 = c2 = 0) both give p = hi. Nobody ready, or
    nobody able to send: p = 0 and tau = 0.
    """
    lo, hi, ready = jnp.asarray(lo), jnp.asarray(hi), jnp.asarray(ready, dtype=bool)
    dtype = jnp.promote_types(jnp.promote_types(lo.dtype, hi.dtype), jnp.float32)
    lo, hi = jnp.where(ready, lo, 0).astype(dtype), jnp.where(ready, hi, 0).astype(dtype)
    largest = jnp.max(hi, initial=0)
    anybody = largest > 0
    scale = jnp.where(anybody, largest, 1)
    c = jnp.asarray(c, dtype)
    c = jnp.where(jnp.isnan(c), jnp.inf, c) / scale / scale  # divided twice: scale^2 could underflow
    tau = jnp.where(anybody, _level(lo / scale, hi / scale, c) * scale, 0)
    return jnp.clip(tau, lo, hi), tau


@jax.jit
def solve_batch(lo: Array, hi: Array, ready: Array, c: ArrayLike) -> tuple[Array, Array]:
    """`solve` for many instances at once: arrays [instances, devices], and one c for all or one for each."""
    power, tau = jax.vmap(solve)(lo, hi, ready, jnp.broadcast_to(c, lo.shape[:1]))
    return power, tau


@jax.jit
def kkt_residual(power: ArrayLike, lo: ArrayLike, hi: ArrayLike, ready: ArrayLike, c: ArrayLike) -> Array:
    """max_k |p_k - clip((|p|^2 + c)/1'p, lo_k, hi_k)| / hi_k over the ready devices, 0 if there are none."""
    power, lo, hi = (jnp.where(jnp.asarray(ready), value, 0) for value in (power, lo, hi))
    scale = jnp.where(power.max(initial=0) > 0, power.max(initial=0), 1)
    share = power / scale
    total = share.sum()
    noise = jnp.where(jnp.isnan(jnp.asarray(c)), jnp.inf, c) / scale / scale
    tau = jnp.where(total > 0, (jnp.square(share).sum() + noise) / jnp.where(total > 0, total, 1), 0)
    gap = jnp.abs(power - jnp.clip(tau * scale, lo, hi))
    return jnp.max(jnp.where(hi > 0, gap / jnp.where(hi > 0, hi, 1), 0), initial=0)


def _level(lo: Array, hi: Array, c: Array) -> Array:
    """The largest root of psi, for boxes scaled into [0, 1]."""
    integer, halvings = _BITS[lo.dtype]

    def psi(tau: Array) -> Array:
        return jnp.sum(hi * jnp.maximum(tau - hi, 0)) - jnp.sum(lo * jnp.maximum(lo - tau, 0)) - c

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        first, last = bounds  # psi(first) <= 0, and psi > 0 beyond last
        middle = first + (last - first + 1) // 2
        below = psi(jax.lax.bitcast_convert_type(middle, lo.dtype)) <= 0
        return jnp.where(below, middle, first), jnp.where(below, last, middle - 1)

    one = jax.lax.bitcast_convert_type(jnp.ones((), lo.dtype), integer)
    bits, _ = jax.lax.fori_loop(0, halvings, halve, (jnp.zeros_like(one), one))
    start = jax.lax.bitcast_convert_type(bits, lo.dtype)
    # From the last float below the root to the root: it matters where the root lies beyond the largest bound.
    slope = jnp.sum(jnp.where(hi <= start, hi, 0)) + jnp.sum(jnp.where(lo > start, lo, 0))
    return start - jnp.where(slope > 0, psi(start) / jnp.where(slope > 0, slope, 1), 0)
