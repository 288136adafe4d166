"""The constants of Assumptions 1 to 4, estimated from the models of one run.

Each estimate is the smallest value for which its assumption holds at all evaluated models. An assumption covers all
models, a run visits only some. The estimates are therefore lower bounds of the true constants (mu: an upper bound). The
corrected and the dependent bound grow with each of them and fall with mu, so the estimated bounds are too small. A bound
that holds with the estimates also holds with the true constants. A bound that is violated may still hold with them. The
printed A is not monotone in L, so neither conclusion is possible for the printed form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .landscape import Floats, Landscape, Optimum
from .theorem import Constants

ESTIMATORS = {
    "L": "largest |grad F(x) - grad F(y)| / |x - y| over consecutive models, and |largest Hessian eigenvalue| "
    "of F and of every F_k at the probes",
    "zeta": "largest |grad F_k - grad F|^2 over all devices at the probes",
    "delta": "largest (w^(r-n) - w^r)' grad F(w^r) / |grad F(w^r)|^2 over rounds r and n up to the largest staleness; "
    "at least 0",
    "epsilon": "largest |w^(r-n) - w^r| over rounds r and n up to the largest staleness",
    "vartheta": "largest |grad F(w^(r-n))| / |grad F(w^r)| over the same pairs; at least 1",
    "sigma": "sqrt of the largest variance of a mini-batch gradient over all devices at the probes (exact for drawing "
    "with replacement: the variance of one sample's gradient over the batch size)",
    "mu": "smallest |grad F(w^r)|^2 / (2 (F(w^r) - F*)) over rounds",
}


@dataclass(frozen=True, kw_only=True)
class Path:
    """F and its gradient at every model of a run."""

    models: Floats  # [R+1, d]
    values: Floats  # [R+1]
    gradients: Floats  # [R+1, d]


def walk(landscape: Landscape, models: Floats) -> Path:
    """Return F and its gradient at every one of `models` [R+1, d]."""
    pairs = [landscape.value_and_gradient(w) for w in models]
    return Path(
        models=np.asarray(models, dtype=np.float64),
        values=np.array([value for value, _ in pairs]),
        gradients=np.array([gradient for _, gradient in pairs]),
    )


def constants_of(
    landscape: Landscape, path: Path, optimum: Optimum, *, max_staleness: int, batch_size: int, probes: int = 3
) -> Constants:
    """Estimate all constants of one run.

    Args:
        landscape: The objective.
        path: The models of the run, with F and its gradient.
        optimum: The best value known.
        max_staleness: The largest staleness of the run, in rounds.
        batch_size: Samples in a mini-batch.
        probes: Number of models, spread over the run, at which curvature and per-device gradients are computed.
    """
    probed = [path.models[i] for i in np.unique(np.linspace(0, len(path.models) - 1, probes).astype(int))]
    # The proof needs every F_k to be L-smooth, not only their mean.
    devices = (None, *range(landscape.shards.num_devices))
    curvature = [landscape.largest_curvature(w, device=k) for w in probed for k in devices]
    zeta, variance = device_spread(landscape, probed)
    delta, epsilon, vartheta = drift(path, max_staleness)
    return Constants(
        smoothness=max(secant_smoothness(path), *curvature),
        heterogeneity=zeta,
        delta=delta,
        epsilon=epsilon,
        vartheta=vartheta,
        sigma=float(np.sqrt(variance / batch_size)),
        pl=pl_constant(path, optimum.value),
    )


def secant_smoothness(path: Path) -> float:
    """Return the largest |change of grad F| / |change of w| between consecutive models."""
    moved = np.linalg.norm(np.diff(path.models, axis=0), axis=1)
    turned = np.linalg.norm(np.diff(path.gradients, axis=0), axis=1)
    return float(np.max(turned[moved > 0] / moved[moved > 0], initial=0.0))


def device_spread(landscape: Landscape, models: Sequence[Floats]) -> tuple[float, float]:
    """Return zeta, and the largest variance of one sample's gradient within a device."""
    zeta, variance = 0.0, 0.0
    share = landscape.shards.sizes / landscape.shards.sizes.sum()
    for w in models:
        gradients, squares = landscape.device_moments(w)
        off = gradients - share @ gradients  # sum_k D_k/D grad F_k = grad F
        zeta = max(zeta, float(np.max(np.sum(off**2, axis=1))))
        variance = max(variance, float(np.max(squares - np.sum(gradients**2, axis=1))))
    return zeta, variance


def drift(path: Path, max_staleness: int) -> tuple[float, float, float]:
    """Return delta, epsilon and vartheta of Assumption 3 over all pairs of models up to the largest staleness."""
    delta, epsilon, vartheta = 0.0, 0.0, 1.0
    lengths = np.linalg.norm(path.gradients, axis=1)
    for n in range(1, min(max_staleness, len(path.models) - 1) + 1):
        back = path.models[:-n] - path.models[n:]
        along = np.sum(back * path.gradients[n:], axis=1) / lengths[n:] ** 2
        delta = max(delta, float(along.max()))
        epsilon = max(epsilon, float(np.linalg.norm(back, axis=1).max()))
        vartheta = max(vartheta, float(np.max(lengths[:-n] / lengths[n:])))
    return delta, epsilon, vartheta


def pl_constant(path: Path, best: float) -> float:
    """Return mu: the smallest |grad F|^2 / (2 (F - `best`)) along the path."""
    gap = path.values - best
    return float(np.min(np.sum(path.gradients**2, axis=1)[gap > 0] / (2 * gap[gap > 0]), initial=np.inf))
