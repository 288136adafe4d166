"""The exact optimum of P2 inside a compiled program: masked, safe in float32, without data-dependent control flow.

Only the engine imports this module, so `import paota` does not load JAX. A bisection over the bit patterns of the
floating-point numbers finds the level. Nonnegative floats have the order of their bits, so 30 halvings (62 in float64) end
at the very float where psi changes sign, at any scale. On a CPU this is several times faster than a sort with cumulative
sums. Each psi is a sum of differences of one sign, so a c of 1e-11 beside amplitudes of 1e2 keeps its meaning in float32.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

_BITS = {jnp.dtype("float32"): (jnp.int32, 30), jnp.dtype("float64"): (jnp.int64, 62)}  # halvings of [0.0, 1.0]


@jax.jit
def solve(lo: ArrayLike, hi: ArrayLike, ready: ArrayLike, c: ArrayLike) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """Return the optimal amplitudes p = clip(tau, lo, hi), 0 where not ready, and the level tau.

    No device ready, or no device able to send, gives p = 0 and tau = 0.

    Args:
        lo: lower bounds, 0 <= lo <= hi, [n]. Values of devices that are not ready have no effect.
        hi: upper bounds, [n].
        ready: the devices that take part, bool [n].
        c: c2/c1 >= 0. Infinity (c1 = 0) and not-a-number (c1 = c2 = 0) both give p = hi.
    """
    lo, hi, ready = jnp.asarray(lo), jnp.asarray(hi), jnp.asarray(ready, dtype=bool)
    dtype = jnp.promote_types(jnp.promote_types(lo.dtype, hi.dtype), jnp.float32)
    lo, hi = jnp.where(ready, lo, 0).astype(dtype), jnp.where(ready, hi, 0).astype(dtype)
    largest = jnp.max(hi, initial=0)
    able = largest > 0
    scale = jnp.where(able, largest, 1)
    c = jnp.asarray(c, dtype)
    c = jnp.where(jnp.isnan(c), jnp.inf, c) / scale / scale  # divided twice: scale^2 could underflow
    tau = jnp.where(able, _level(lo / scale, hi / scale, c) * scale, 0)
    return jnp.clip(tau, lo, hi), tau


def _level(lo: Float[Array, " n"], hi: Float[Array, " n"], c: Float[Array, ""]) -> Float[Array, ""]:
    """Return the largest root of psi, for boxes scaled into [0, 1]."""
    integer, halvings = _BITS[lo.dtype]

    def psi(tau: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.sum(hi * jnp.maximum(tau - hi, 0)) - jnp.sum(lo * jnp.maximum(lo - tau, 0)) - c

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        first, last = bounds  # psi(first) <= 0, and psi > 0 beyond last
        middle = first + (last - first + 1) // 2
        below = psi(jax.lax.bitcast_convert_type(middle, lo.dtype)) <= 0
        return jnp.where(below, middle, first), jnp.where(below, last, middle - 1)

    one = jax.lax.bitcast_convert_type(jnp.ones((), lo.dtype), integer)
    bits, _ = jax.lax.fori_loop(0, halvings, halve, (jnp.zeros_like(one), one))
    start = jax.lax.bitcast_convert_type(bits, lo.dtype)
    # The step from the last float below the root to the root matters if the root lies beyond the largest bound.
    slope = jnp.sum(jnp.where(hi <= start, hi, 0)) + jnp.sum(jnp.where(lo > start, lo, 0))
    return start - jnp.where(slope > 0, psi(start) / jnp.where(slope > 0, slope, 1), 0)
