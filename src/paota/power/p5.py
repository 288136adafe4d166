"""P5: the piecewise-linear 0-1 programme that stands for one Dinkelbach step P3 (Eq. opt5:problem).

P3 maximises F(beta; lambda) = h2 - lambda*h1, a quadratic without mixed terms in suitable coordinates z = T*beta:
F = sum_i a_i z_i^2 + linear. Each z_i^2 becomes its chords between equally spaced points; only where a_i > 0 (a convex
term in a maximisation) are 0-1 variables needed to keep the chords in order. Q has rank one, so that is one term.

Two coordinates are offered:
- "eigen", the print: z = M2'M1*beta in the eigenvectors of M1^-T Q M1^-1. M2 is arbitrary on the null space.
- "sum": z = M1*beta and, as one more coordinate, v'z with Q = (M1'v)(M1'v)'. The same F, no dense matrix, and smaller
  errors, because each concave term then ranges over the narrow interval of one device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .checks import Flags, Vector
from .p2 import Matrix, Quadratics


@dataclass(frozen=True, kw_only=True)
class SquareTerms:
    """sum_i (offset_i - lambda*slope_i) z_i^2 with z = rows @ beta; `rows` is dense, or None for the "sum" form."""

    offset: Vector
    slope: Vector
    rows: Matrix


@dataclass(frozen=True, kw_only=True)
class MixedLinear:
    """maximise cost'x over lower <= x <= upper, row_lower <= A x <= row_upper, x[binary] in {0, 1}; A in CSR form."""

    cost: Vector
    lower: Vector
    upper: Vector
    binary: Flags
    row_start: np.ndarray
    column: np.ndarray
    value: Vector
    row_lower: Vector
    row_upper: Vector


def square_terms(functions: Quadratics, coordinates: str) -> SquareTerms:
    """The coordinates in which h2 - lambda*h1 has no mixed terms."""
    m1 = np.sqrt(functions.G_diagonal)  # G = M1'M1, Eq. P4
    n = m1.size
    v = functions.Q_factor / m1  # M1^-T Q M1^-1 = v v'
    if coordinates == "sum":
        rows = np.vstack([np.diag(m1), functions.Q_factor])
        return SquareTerms(offset=np.r_[np.zeros(n), 1.0], slope=np.r_[np.ones(n), 0.0], rows=rows)
    eigenvalues, m2 = np.linalg.eigh(np.outer(v, v))
    eigenvalues[:-1] = 0.0  # rank one: what eigh leaves there is rounding
    return SquareTerms(offset=eigenvalues, slope=np.ones(n), rows=m2.T * m1)
