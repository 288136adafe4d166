"""s(x): how much an update that is x versions old still counts; 1 for a fresh one. The three functions of FedAsync."""

from __future__ import annotations

import jax
import jax.numpy as jnp

FUNCTIONS = ("constant", "polynomial", "hinge")


def staleness_weight(function: str, staleness: jax.Array, a: float, b: float) -> jax.Array:
    """What an update that is x versions stale counts.

    Args:
        function: "constant": 1; "polynomial": (1 + x)^-a; "hinge": 1 up to x = b, then 1 / (a (x - b) + 1).
        staleness: x, [n].
        a: steepness.
        b: where the hinge begins.
    """
    x = staleness.astype(float)
    if function == "constant":
        return jnp.ones_like(x)
    if function == "polynomial":
        return (1.0 + x) ** -a
    return 1.0 / (a * jnp.maximum(x - b, 0.0) + 1.0)
