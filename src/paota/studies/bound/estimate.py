"""The constants of Assumptions 1 to 4, estimated from the models of one run.

Each is the smallest value for which its assumption holds at everything that was looked at. An assumption speaks of all
models and all devices, a run shows some: the estimates are lower bounds of the true constants (mu: an upper bound). The
corrected and the dependent bound grow with every one of them (and fall with mu), so with the estimates they come out too
small: where they hold, they hold with the true constants too; where they are broken, the true ones may still hold. The
printed A is not monotone in L, so nothing carries over from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .landscape import Landscape
from .optimum import Optimum
from .theorem import Constants

Floats = NDArray[np.float64]

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
    """F and its gradient at every one of `models` [R+1, d]."""
    pairs = [landscape.value_and_gradient(w) for w in models]
    return Path(
        models=np.asarray(models, dtype=np.float64),
        values=np.array([value for value, _ in pairs]),
        gradients=np.array([gradient for _, gradient in pairs]),
    )


def constants_of(
    landscape: Landscape, path: Path, optimum: Optimum, *, max_staleness: int, batch_size: int, probes: int = 3
) -> Constants:
    """All constants of one run; `probes` models, spread over the run, get the costly looks."""
    looked_at = [path.models[i] for i in np.unique(np.linspace(0, len(path.models) - 1, probes).astype(int))]
    # The proof needs every F_k to be L-smooth, not only their mean.
    devices = (None, *range(landscape.shards.num_devices))
    curvature = [landscape.largest_curvature(w, device=k) for w in looked_at for k in devices]
    zeta, variance = device_spread(landscape, looked_at)
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
    """The largest change of the gradient for a change of the model between consecutive versions."""
    moved = np.linalg.norm(np.diff(path.models, axis=0), axis=1)
    turned = np.linalg.norm(np.diff(path.gradients, axis=0), axis=1)
    return float(np.max(turned[moved > 0] / moved[moved > 0], initial=0.0))


def device_spread(landscape: Landscape, models: Sequence[Floats]) -> tuple[float, float]:
    """(zeta, the largest variance of one sample's gradient inside a device)."""
    zeta, variance = 0.0, 0.0
    share = landscape.shards.sizes / landscape.shards.sizes.sum()
    for w in models:
        gradients, squares = landscape.device_moments(w)
        off = gradients - share @ gradients  # sum_k D_k/D grad F_k = grad F
        zeta = max(zeta, float(np.max(np.sum(off**2, axis=1))))
        variance = max(variance, float(np.max(squares - np.sum(gradients**2, axis=1))))
    return zeta, variance


def drift(path: Path, max_staleness: int) -> tuple[float, float, float]:
    """(delta, eps, vartheta) of Assumption 3 over all pairs that a stale device can meet."""
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
    """mu: the smallest |grad F|^2 / (2 (F - `best`)) along the path."""
    gap = path.values - best
    return float(np.min(np.sum(path.gradients**2, axis=1)[gap > 0] / (2 * gap[gap > 0]), initial=np.inf))
