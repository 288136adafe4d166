"""P5: the piecewise-linear 0-1 programme that approximates one Dinkelbach step P3 (Eq. opt5:problem).

P3 maximises F(beta; lambda) = h2 - lambda*h1. In suitable coordinates z = T*beta it has no mixed terms:
F = sum_i a_i*z_i^2 + linear. Chords between equally spaced points replace each z_i^2. A term with a_i > 0 is convex, and
only such a term needs 0-1 variables to keep its chords in order. Q has rank one, so there is one such term.

Two sets of coordinates exist:
- "eigen", as printed: z = M2'*M1*beta, in the eigenvectors of M1^-T Q M1^-1. M2 is arbitrary on the null space.
- "sum": z = M1*beta and, as one more coordinate, r'beta with Q = r*r'. F is the same and sparse. The errors are smaller,
  because each concave term ranges over the narrow interval of one device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dinkelbach import Quadratics
from .problem import Flags, Vector

Indices = NDArray[np.int64]
SparseRow = tuple[Indices, Vector]


@dataclass(frozen=True, kw_only=True)
class Squares:
    """The quadratic part of F: sum_i (gain_i - lambda*cost_i)*z_i^2, with z_i = rows_i*beta."""

    gain: Vector
    cost: Vector
    rows: tuple[SparseRow, ...]

    def weight(self, lambda_: float) -> Vector:
        return self.gain - lambda_ * self.cost

    def z(self, beta: Vector) -> Vector:
        return np.array([float((values * beta[columns]).sum()) for columns, values in self.rows])

    def ranges(self) -> tuple[Vector, Vector]:
        """Return z_i1 and z_i(rho+1), the smallest and largest z_i over beta in [0, 1]^n."""
        least = np.array([float(np.minimum(values, 0).sum()) for _, values in self.rows])
        most = np.array([float(np.maximum(values, 0).sum()) for _, values in self.rows])
        return least, most


@dataclass(frozen=True, kw_only=True)
class MixedLinear:
    """Maximise cost'x with 0 <= x <= 1, row_lower <= A*x <= row_upper, x whole where `binary`; A by rows (CSR)."""

    cost: Vector
    binary: Flags
    row_start: Indices
    column: Indices
    value: Vector
    row_lower: Vector
    row_upper: Vector


def in_sum_coordinates(functions: Quadratics) -> Squares:
    """Return z = (M1*beta, r'beta): n concave terms and one convex term."""
    n = functions.g.size
    m1 = np.sqrt(functions.G_diagonal)  # G = M1'*M1
    own = tuple((np.array([k]), m1[k : k + 1]) for k in range(n))
    total = (np.arange(n), functions.Q_factor)
    return Squares(gain=np.r_[np.zeros(n), 1.0], cost=np.r_[np.ones(n), 0.0], rows=(*own, total))


def in_eigen_coordinates(functions: Quadratics) -> Squares:
    """Return z = M2'*M1*beta as printed below Eq. opt4:problem, with N - lambda*I on the diagonal."""
    n = functions.g.size
    m1 = np.sqrt(functions.G_diagonal)
    v = functions.Q_factor / m1  # S = M1^-T Q M1^-1 = v*v'
    eigenvalues, m2 = np.linalg.eigh(np.outer(v, v))
    eigenvalues[:-1] = 0.0  # rank one: what is left there is rounding
    m = m2.T * m1  # M = M2'*M1
    return Squares(gain=eigenvalues, cost=np.ones(n), rows=tuple((np.arange(n), row) for row in m))


COORDINATES = {"sum": in_sum_coordinates, "eigen": in_eigen_coordinates}


def programme(functions: Quadratics, squares: Squares, lambda_: float, *, segments: int, unit: float) -> MixedLinear:
    """Return P5 at lambda, its objective divided by `unit`. Columns: beta, gamma_ij by rows i, c_ij of the convex terms.

    Every row is divided by the range of its z, so the solver's absolute tolerances mean the same for all devices.
    """
    n, weight = functions.g.size, squares.weight(lambda_)
    least, most = squares.ranges()
    width = most - least
    share = np.linspace(0.0, 1.0, segments + 1)
    points = least[:, None] + width[:, None] * share  # z_ij
    convex = np.flatnonzero(weight > 0)
    first_binary = n + points.size
    cost = np.r_[
        functions.q - lambda_ * functions.g, (weight[:, None] * points**2).ravel(), np.zeros(convex.size * segments)
    ]
    rows = _Rows()
    for i, (columns, values) in enumerate(squares.rows):
        gamma = n + i * (segments + 1) + np.arange(segments + 1)
        offset = -least[i] / width[i]
        rows.add(np.r_[gamma, columns], np.r_[share, -values / width[i]], offset, offset)  # Eq. pla1
        rows.add(gamma, np.ones(segments + 1), 1.0, 1.0)  # Eq. pla2
    for place, i in enumerate(convex.tolist()):
        gamma = n + i * (segments + 1) + np.arange(segments + 1)
        c = first_binary + place * segments + np.arange(segments)
        _keep_neighbours(rows, gamma, c)
    return MixedLinear(
        cost=cost / unit,
        binary=np.arange(cost.size) >= first_binary,
        row_start=np.cumsum([0, *map(len, rows.columns)]),
        column=np.concatenate(rows.columns),
        value=np.concatenate(rows.values),
        row_lower=np.array(rows.lower),
        row_upper=np.array(rows.upper),
    )


def encode(squares: Squares, lambda_: float, beta: Vector, *, segments: int) -> Vector:
    """Return the point of P5 that belongs to beta, for a warm start."""
    least, most = squares.ranges()
    place = np.clip((squares.z(beta) - least) / (most - least) * segments, 0, segments)
    left = np.minimum(place.astype(np.int64), segments - 1)  # the chord on which z_i lies
    gamma = np.zeros((left.size, segments + 1))
    terms = np.arange(left.size)
    gamma[terms, left], gamma[terms, left + 1] = 1.0 - (place - left), place - left
    convex = np.flatnonzero(squares.weight(lambda_) > 0)
    chosen = np.zeros((convex.size, segments))
    chosen[np.arange(convex.size), left[convex]] = 1.0
    return np.concatenate([beta, gamma.ravel(), chosen.ravel()])


def _keep_neighbours(rows: _Rows, gamma: Indices, c: Indices) -> None:
    """Allow only the two ends of the one chosen chord (Eq. 01var). The paper omits the last inequality."""
    rows.add(np.r_[gamma[0], c[0]], np.array([1.0, -1.0]), -np.inf, 0.0)
    for j in range(1, c.size):
        rows.add(np.r_[gamma[j], c[j - 1], c[j]], np.array([1.0, -1.0, -1.0]), -np.inf, 0.0)
    rows.add(np.r_[gamma[-1], c[-1]], np.array([1.0, -1.0]), -np.inf, 0.0)
    rows.add(c, np.ones(c.size), 1.0, 1.0)


class _Rows:
    """A growing list of sparse rows."""

    def __init__(self) -> None:
        self.columns: list[Indices] = []
        self.values: list[Vector] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, columns: NDArray[np.integer], values: Vector, lower: float, upper: float) -> None:
        self.columns.append(np.asarray(columns, dtype=np.int64))
        self.values.append(values)
        self.lower.append(lower)
        self.upper.append(upper)
