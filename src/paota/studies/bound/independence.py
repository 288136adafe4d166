"""Tests whether Theorem 1 covers an algorithm: a weighted mean, with weights independent of the mini-batch noise."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ...air.uplink import Uplink
from ...engine import RoundOutcome
from ...engine.testing import aggregate_by_hand
from ...experiment.experiment import AlgorithmConfig

DRAWS, PARAMETERS = 4, 8
STALENESS = np.array([0, 0, 1, 1, 2, 3])
NUM_SAMPLES = np.array([300.0, 900.0, 600.0, 300.0, 1200.0, 600.0])


def weights_depend_on_updates(entry: AlgorithmConfig) -> bool:
    """Return True if alpha_k changes when only the updates change.

    Devices, staleness, samples, channel and models stay the same. The algorithm is called with a few synthetic
    updates. PAOTA's similarity factor depends on them, and so does a power cap that is made from |payload_k|.
    """
    weights = np.array([np.asarray(outcome.weight) for _, _, outcome in _outcomes(entry, noise_power_w=1e-3)])
    return bool(np.ptp(weights, axis=0).max() > 1e-5)


def takes_weighted_mean(entry: AlgorithmConfig) -> bool:
    """Return True if w^(r+1) = w^r + sum_k alpha_k dw_k without noise and with equal start models."""
    return all(
        np.allclose(outcome.model, model + np.asarray(outcome.weight) @ updates, rtol=1e-3, atol=1e-3)
        for model, updates, outcome in _outcomes(entry, noise_power_w=0.0)
    )


def _outcomes(
    entry: AlgorithmConfig, *, noise_power_w: float
) -> Iterator[tuple[Float[np.ndarray, " d"], Float[np.ndarray, "n d"], RoundOutcome]]:
    """Yield w^r, synthetic updates and the outcome of their round, in otherwise equal rounds."""
    rng = np.random.default_rng(0)
    step = rng.standard_normal(PARAMETERS)
    model = rng.standard_normal(PARAMETERS)
    n = len(STALENESS)
    channel = jnp.asarray(rng.standard_normal(n) + 1j * rng.standard_normal(n), complex)
    uplink = Uplink(channel, jnp.ones(n, bool), jnp.asarray(noise_power_w), jnp.asarray(15.0), jax.random.key(0))
    for _ in range(DRAWS):
        # Some along the last global step and some against it, of different lengths: every algorithm sees a difference.
        along = rng.choice([-1.0, 1.0], n) * rng.uniform(0.1, 2.0, n)
        updates = along[:, None] * step + 0.1 * rng.standard_normal((n, PARAMETERS))
        outcome = aggregate_by_hand(
            entry.algorithm, updates, uplink=uplink, power=entry.power,
            model=model, previous_model=model - step, staleness=STALENESS, num_samples=NUM_SAMPLES, round=5,
        )  # fmt: skip
        yield model, updates, outcome
