"""F(w*), honestly: centralised training on the very objective that the devices share, until it hardly moves.

F is not convex, so this is the best value found from one start, not a proven minimum. `Optimum` says how good it is:
the gradient that is left and how much the last stretch still gained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize

from ...base.rng import Purpose, host_rng
from .landscape import Landscape

BATCH = 1000
FIRST_STEP = 0.01  # of Adam; falls to zero along a cosine
LAST_STRETCH = 0.2  # the share of the polishing whose gain is reported


@dataclass(frozen=True, kw_only=True)
class Optimum:
    """The best value of F found, and how finished the search was."""

    value: float
    gradient_norm: float
    last_gain: float  # by how much the last fifth of the polishing still lowered F
    model: NDArray[np.float64]


def minimise(landscape: Landscape, *, seed: int, epochs: int = 60, polish: int = 20) -> Optimum:
    """Adam on large batches with falling steps from the run's own initial model, then L-BFGS on all data."""
    start = landscape.initial_model(seed)
    near = _adam(landscape, start, seed, epochs)
    history: list[float] = []

    def value_and_gradient(w: Any) -> tuple[float, NDArray[np.float64]]:
        value, gradient = landscape.value_and_gradient(jnp.asarray(w, float))
        history.append(value)
        return value, gradient

    options = {"maxiter": polish, "maxfun": polish, "ftol": 0.0, "gtol": 0.0}
    found = scipy_minimize(value_and_gradient, np.asarray(near, float), jac=True, method="L-BFGS-B", options=options)
    best = np.minimum.accumulate(history)
    before = best[int((1 - LAST_STRETCH) * (len(best) - 1))]
    value, gradient = landscape.value_and_gradient(jnp.asarray(found.x, float))
    return Optimum(
        value=value,
        gradient_norm=float(np.linalg.norm(gradient)),
        last_gain=float(before - best[-1]),
        model=np.asarray(found.x),
    )


def _adam(landscape: Landscape, w: jax.Array, seed: int, epochs: int) -> jax.Array:
    """F is the plain mean over all entries of the shards, so shuffled batches of them are unbiased."""
    entries = np.asarray(landscape.shards.indices)
    batch = min(BATCH, len(entries))
    steps = len(entries) // batch
    equal = jnp.full(batch, 1.0 / batch)

    def step(carry: Any, rows: jax.Array) -> tuple[Any, None]:
        w, mean, square, count = carry
        gradient = jax.grad(landscape._loss)(w, landscape.x[rows], landscape.y[rows], equal)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        size = FIRST_STEP * 0.5 * (1 + jnp.cos(jnp.pi * count / (epochs * steps)))
        move = mean / (1 - 0.9 ** (count + 1)) / (jnp.sqrt(square / (1 - 0.999 ** (count + 1))) + 1e-8)
        return (w - size * move, mean, square, count + 1), None

    one_epoch = jax.jit(lambda carry, order: jax.lax.scan(step, carry, order)[0])
    carry = (w, jnp.zeros_like(w), jnp.zeros_like(w), jnp.zeros(()))
    for epoch in range(epochs):
        order = host_rng(seed, Purpose.BATCH, epoch).permutation(entries)[: steps * batch]
        carry = one_epoch(carry, jnp.asarray(order.reshape(steps, batch)))
    return carry[0]
