"""P2 in the paper's matrix form: f = h1(beta)/h2(beta), two quadratics over beta in [0, 1]^K.

    h1 = beta'G beta + g'beta + g0,    h2 = beta'Q beta + q'beta + q0

`printed` builds them literally, matrix by matrix; `Quadratics` keeps what they really are: G is diagonal and Q has
rank one. The print calls G positive definite: that holds only for devices that are ready and have rho != theta, so
the others are dropped before anything is inverted (`Quadratics.only`). Their share stays in q, g0 and q0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .checks import Flags, Vector

Matrix = NDArray[np.float64]


class PrintedMatrices(NamedTuple):
    """The symbols below Eq. opt2:problem."""

    G: Matrix
    Q: Matrix
    g: Vector
    q: Vector
    g0: float
    q0: float


def printed(p_max: Vector, rho: Vector, theta: Vector, ready: Flags, *, c1: float, c2: float) -> PrintedMatrices:
    """The matrices as the paper writes them, with P = diag(p_max), D = diag(rho - theta), Theta = c1*diag(b).

    The bold Theta is not defined in the print; c1*diag(b) = L*eps^2*K*diag(b) is the only matrix that turns P1 into P2.
    """
    b = ready.astype(np.float64)
    P, D, Theta = np.diag(p_max), np.diag(rho - theta), c1 * np.diag(b)
    bb = np.outer(b, b)
    return PrintedMatrices(
        G=D.T @ P.T @ Theta.T @ P @ D,
        Q=D.T @ P.T @ bb @ P @ D,
        g=2.0 * theta @ P.T @ Theta.T @ P @ D,
        q=2.0 * theta @ P.T @ bb @ P @ D,
        g0=float(theta @ P.T @ Theta.T @ P @ theta) + c2,
        q0=float(theta @ P.T @ bb @ P @ theta),
    )


@dataclass(frozen=True, kw_only=True)
class Quadratics:
    """h1 and h2 with G = diag(`G_diagonal`) and Q = `Q_factor` `Q_factor`'."""

    G_diagonal: Vector
    Q_factor: Vector
    g: Vector
    q: Vector
    g0: float
    q0: float

    def h1(self, beta: Vector) -> float:
        return float((self.G_diagonal * beta * beta).sum() + (self.g * beta).sum()) + self.g0

    def h2(self, beta: Vector) -> float:
        return float((self.Q_factor * beta).sum()) ** 2 + float((self.q * beta).sum()) + self.q0

    def only(self, active: Flags) -> Quadratics:
        """The same functions of the active devices alone, beta = 0 (hence p = p_max*theta) for the others."""
        return replace(
            self,
            G_diagonal=self.G_diagonal[active],
            Q_factor=self.Q_factor[active],
            g=self.g[active],
            q=self.q[active],
        )


def quadratics(at_zero: Vector, slope: Vector, *, c1: float, c2: float) -> Quadratics:
    """h1 and h2 for ready devices whose power is p = at_zero + slope*beta, i.e. P*theta and P*D of the print."""
    total = float(at_zero.sum())
    return Quadratics(
        G_diagonal=c1 * slope * slope,
        Q_factor=slope,
        g=2.0 * c1 * at_zero * slope,
        q=2.0 * total * slope,
        g0=c1 * float((at_zero * at_zero).sum()) + c2,
        q0=total * total,
    )
