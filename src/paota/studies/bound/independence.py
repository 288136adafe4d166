"""Is Theorem 1 about an algorithm? It takes a weighted mean, with weights that are independent of the mini-batch noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...air.uplink import Uplink
from ...base.errors import UserError
from ...experiment.experiment import AlgorithmConfig
from .recording import Record

if TYPE_CHECKING:
    from ...engine import RoundOutcome

Floats = NDArray[np.float64]
DRAWS, PARAMETERS = 4, 8
STALENESS = np.array([0, 0, 1, 1, 2, 3])
NUM_SAMPLES = np.array([300.0, 900.0, 600.0, 300.0, 1200.0, 600.0])


def weights_depend_on_updates(entry: AlgorithmConfig) -> bool:
    """Whether alpha_k changes when nothing but the updates changes: same devices, staleness, samples, air and models.

    The rule itself is asked, with a few made-up updates. PAOTA's similarity factor depends on them, and so does any
    power cap that is made from |payload_k|; staleness, samples and channels do not.
    """
    weights = np.array([np.asarray(served.weight) for _, _, served in _asked(entry, noise_power_w=1e-3)])
    return bool(np.ptp(weights, axis=0).max() > 1e-5)


def takes_weighted_mean(entry: AlgorithmConfig) -> bool:
    """Whether, without noise, w^(r+1) = w^r + sum_k alpha_k dw_k where nobody starts elsewhere; the rule itself is asked."""
    return all(
        np.allclose(served.model, model + np.asarray(served.weight) @ updates, rtol=1e-3, atol=1e-3)
        for model, updates, served in _asked(entry, noise_power_w=0.0)
    )


def _asked(entry: AlgorithmConfig, *, noise_power_w: float) -> Iterator[tuple[Floats, Floats, RoundOutcome]]:
    """(w^r, updates [n, d], what the rule makes of them) for a few made-up updates in otherwise equal rounds."""
    from ...engine.testing import (
        aggregate_by_hand,  # the engine, which `paota.studies.bound` needs for nothing else here
    )

    rng = np.random.default_rng(0)
    step = rng.standard_normal(PARAMETERS)
    model = rng.standard_normal(PARAMETERS)
    n = len(STALENESS)
    channel = jnp.asarray(rng.standard_normal(n) + 1j * rng.standard_normal(n), complex)
    uplink = Uplink(channel, jnp.ones(n, bool), jnp.asarray(noise_power_w), jnp.asarray(15.0), jax.random.key(0))
    for _ in range(DRAWS):
        # Some along the last global step and some against it, of different lengths: no rule can miss the difference.
        along = rng.choice([-1.0, 1.0], n) * rng.uniform(0.1, 2.0, n)
        updates = along[:, None] * step + 0.1 * rng.standard_normal((n, PARAMETERS))
        served = aggregate_by_hand(
            entry.algorithm, updates, uplink=uplink, power=entry.power,
            model=model, previous_model=model - step, staleness=STALENESS, num_samples=NUM_SAMPLES, round=5,
        )  # fmt: skip
        yield model, updates, served


def check_weights(kept: Record) -> None:
    """Refuse a run whose weights do not sum to 1 in every round: Theorem 1 is not about it."""
    label = kept.entry.label
    sums = weight_sums(kept)
    off = np.abs(sums - 1.0)
    if len(sums) and off.max() > 1e-3:
        raise UserError(
            f"Theorem 1 is about weights that sum to 1, and those of '{label}' sum to {sums[off.argmax()]:.3g} "
            "in a round: there is no bound to compare with"
        )


def weight_sums(kept: Record) -> Floats:
    """sum_k alpha_k of every round in which somebody sends."""
    weight = kept.trajectory.devices["weight"].astype(np.float64)
    rounds = kept.trajectory.devices["round"]
    sums: Floats = np.bincount(rounds, weight).astype(np.float64)
    return sums[np.bincount(rounds, weight != 0) > 0]


def weight_peak(kept: Record) -> float:
    """kappa: the largest n max_k alpha_k of all rounds, n devices being ready; at least 1."""
    devices = kept.trajectory.devices
    ready = np.bincount(devices["round"])[devices["round"]]
    return float(np.max(ready * devices["weight"].astype(np.float64), initial=1.0))
