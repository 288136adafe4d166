"""Theorem 1, as printed and as corrected: the contraction A, the terms (a) to (e) of G^r, and what follows from them.

`printed` is the paper's formula to the letter. `corrected` is what its own proof gives when every step is carried out;
docs/paper.md derives each difference. All functions are plain arithmetic on numbers or NumPy arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import unknown_name

Form = Literal["printed", "corrected"]
FORMS: tuple[Form, ...] = ("printed", "corrected")


@dataclass(frozen=True, kw_only=True)
class Constants:
    """L, zeta, delta, eps, vartheta and sigma of Assumptions 1 to 4; and mu of the Polyak-Lojasiewicz inequality."""

    smoothness: float  # L, Eq. ass1-2
    heterogeneity: float  # zeta, Eq. ass2-1: a squared norm
    delta: float  # Eq. ass3-1
    epsilon: float  # Eq. ass3-2: how far the model moves while a device is away
    vartheta: float  # Eq. ass3-3
    sigma: float  # standard deviation of a mini-batch gradient, Assumption 4
    pl: float  # mu: |grad F|^2 >= 2 mu (F - F*)


@dataclass(frozen=True, kw_only=True)
class System:
    """The numbers of Theorem 1 that a run sets."""

    learning_rate: float  # eta
    local_steps: int  # M
    devices: int  # K
    parameters: int  # d
    noise_power_w: float  # sigma_n^2 = B N0


class Terms(NamedTuple):
    """The five terms of G^r (Eq. G^r); (d) and (e) change from round to round."""

    a: Any  # data heterogeneity
    b: Any  # staleness, through the drift of the gradient
    c: Any  # mini-batch noise
    d: Any  # staleness, through the weights
    e: Any  # channel noise

    @property
    def total(self) -> Any:
        return self.a + self.b + self.c + self.d + self.e


def remainder(c: Constants, s: System) -> float:
    """D = 1 - 2 (eta M L)^2: Lemma 1, and so the theorem, needs it positive."""
    return 1.0 - 2.0 * (s.learning_rate * s.local_steps * c.smoothness) ** 2


def applies(c: Constants, s: System) -> bool:
    return remainder(c, s) > 0


def lemma1(c: Constants, s: System, gradient_square: Any, form: Form = "corrected") -> Any:
    """Bound on sum_tau E|w_g - w_k^tau|^2, how far M local steps wander; NaN where D <= 0."""
    m, eta = s.local_steps, s.learning_rate
    # The statement of Lemma 1 has L^2 zeta; its proof (Eq. prooflemma1-2) gives zeta.
    zeta = c.heterogeneity * (c.smoothness**2 if _checked(form) == "printed" else 1.0)
    above = eta**2 * m**3 * (c.sigma**2 + 4 * zeta + 4 * c.vartheta**2 * gradient_square)
    return above / remainder(c, s) if applies(c, s) else above * math.nan


def terms(form: Form, c: Constants, s: System, weight_square_sum: Any, power_sum: Any) -> Terms:
    """(a) to (e) for rounds with sum_k alpha_k^2 = `weight_square_sum` and sum_k b_k p_k = `power_sum`."""
    eta, m, big_l = s.learning_rate, s.local_steps, c.smoothness
    wander = _wander(c, s)
    if _checked(form) == "printed":
        zeta_factor = 2 * eta * m + 8 * big_l * eta * m**2 + 4 * eta**2 * m**3 * big_l**2 * wander
    else:  # eta^2 in the second part (from L/2 times A_2), and zeta without L^2 in the third (Lemma 1)
        zeta_factor = 2 * eta * m + 8 * big_l * eta**2 * m**2 + 4 * eta**2 * m**3 * wander
    return Terms(
        a=zeta_factor * c.heterogeneity,
        b=2 * eta * m * big_l**2 * c.epsilon**2,
        c=(2 * eta**2 * big_l * m**2 + wander * eta**2 * m**3) * c.sigma**2,
        d=big_l * c.epsilon**2 * s.devices * weight_square_sum,
        e=2 * big_l * s.parameters * s.noise_power_w / np.square(power_sum),
    )


def descent(c: Constants, s: System) -> float:
    """a: one round lowers E F by at least a E|grad F|^2 - G^r. It may be negative: then nothing is promised."""
    eta, m, big_l = s.learning_rate, s.local_steps, c.smoothness
    growth = c.vartheta**2
    local = 4 * eta**2 * m**3 * growth * _wander(c, s)
    return eta * m / 2 - c.delta - 8 * big_l * eta**2 * m**2 * growth - local


def contraction(form: Form, c: Constants, s: System) -> float:
    """A of E[F(w^(r+1)) - F*] <= A E[F(w^r) - F*] + G^r."""
    eta, m, big_l = s.learning_rate, s.local_steps, c.smoothness
    if _checked(form) == "printed":
        local = _wander(c, s) * 8 * big_l * eta**2 * m**3 * c.vartheta**2
        return 1 + 2 * big_l * c.delta - big_l * eta * m + 8 * big_l**2 * eta**2 * m * c.vartheta**2 + local
    a = descent(c, s)
    # -a |grad F|^2 needs a lower bound on the gradient while a > 0 (PL) and an upper one (Lemma 2) when a < 0.
    return 1 - 2 * a * (c.pl if a > 0 else c.smoothness)


def bound(form: Form, c: Constants, s: System, first_gap: float, g: NDArray[np.float64]) -> NDArray[np.float64]:
    """Bound on E[F(w^r)] - F* for r = 0..R, from G^0..G^(R-1); NaN where the theorem does not apply.

    The printed sum counts the newest G twice ("+ G^R" beside a sum that holds it already), which is kept in `printed`.
    """
    rate = contraction(form, c, s)
    gaps = [first_gap]
    with np.errstate(over="ignore"):
        for one in g:
            gaps.append(float(np.float64(rate) * gaps[-1] + one))
    made = np.array(gaps)
    if form == "printed":
        made[1:] += g
    return made


def averaged_gradient_bound(c: Constants, s: System, first_gap: float, g: NDArray[np.float64]) -> float:
    """Without PL: (1/R) sum_r E|grad F(w^r)|^2 <= (F(w^0) - F*)/(a R) + mean(G)/a; infinite unless a > 0."""
    a = descent(c, s)
    return (first_gap / len(g) + float(np.mean(g))) / a if a > 0 else math.inf


def largest_learning_rate(c: Constants, s: System) -> float:
    """The largest eta with D > 0 and a > 0, were the constants to stay the same; 0 if delta alone forbids it."""
    limit = 1 / (math.sqrt(2) * s.local_steps * c.smoothness)
    grid = limit * np.logspace(-6, 0, 4000, endpoint=False)
    good = [eta for eta in grid if descent(c, replace(s, learning_rate=float(eta))) > 0]
    return float(max(good, default=0.0))


def _wander(c: Constants, s: System) -> float:
    """(eta L^2 + 4 M eta^2 L^3) / D, what multiplies Lemma 1 in the proof; NaN where D <= 0."""
    eta, big_l = s.learning_rate, c.smoothness
    return (eta * big_l**2 + 4 * s.local_steps * eta**2 * big_l**3) / remainder(c, s) if applies(c, s) else math.nan


def _checked(form: str) -> str:
    if form not in FORMS:
        raise unknown_name("form of Theorem 1", form, FORMS)
    return form
