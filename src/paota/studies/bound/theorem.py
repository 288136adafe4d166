"""Theorem 1 in three forms: the contraction A, the terms (a) to (e) of G^r, and the bounds that follow.

`printed`    the formula of the paper, unchanged
`corrected`  the result of the paper's own proof when every step is carried out
`dependent`  the same for weights that depend on the mini-batch noise of the updates that they weigh

The first two forms take expectations as if the weights alpha_k were independent of that noise. PAOTA's similarity
factor violates this, and then only `dependent` is proven. docs/paper.md derives all forms. All functions are plain
arithmetic on numbers or NumPy arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...base.errors import UserError, unknown_name

Floats = NDArray[np.float64]
PerRound = float | Floats  # one number, or one element per round
Form = Literal["printed", "corrected", "dependent"]
FORMS: tuple[Form, ...] = ("printed", "corrected")  # of the theorem itself, for independent weights
ALL_FORMS: tuple[Form, ...] = (*FORMS, "dependent")


@dataclass(frozen=True, kw_only=True)
class Constants:
    """The constants of Assumptions 1 to 4, and mu of the Polyak-Lojasiewicz inequality."""

    smoothness: float  # L, Eq. ass1-2: of F and of every F_k
    heterogeneity: float  # zeta, Eq. ass2-1: a squared norm
    delta: float  # Eq. ass3-1
    epsilon: float  # Eq. ass3-2: the distance that the model moves while a device trains
    vartheta: float  # Eq. ass3-3
    sigma: float  # standard deviation of a mini-batch gradient, Assumption 4
    pl: float  # mu: |grad F|^2 >= 2 mu (F - F*)


@dataclass(frozen=True, kw_only=True)
class System:
    """The quantities of Theorem 1 that the settings of a run determine."""

    learning_rate: float  # eta
    local_steps: int  # M
    devices: int  # K
    parameters: int  # d
    noise_power_w: float  # sigma_n^2 = B N0
    payload: str = "model"  # or "update", where the server adds to w^r; the paper does not cover it
    weight_peak: float = 1.0  # kappa >= n max_k alpha_k in every round with n ready devices; only `dependent` uses it

    def __post_init__(self) -> None:
        if self.payload not in ("model", "update"):
            raise unknown_name("payload", self.payload, ("model", "update"))
        if not self.weight_peak >= 1:
            raise UserError(f"weight_peak = {self.weight_peak:g} must be at least 1: n weights sum to 1")


class Terms(NamedTuple):
    """The five terms of G^r (Eq. G^r). (d), (e) and the (c) of `dependent` change from round to round."""

    a: PerRound  # data heterogeneity
    b: PerRound  # staleness, through the drift of the gradient
    c: PerRound  # mini-batch noise
    d: PerRound  # staleness, through the weights
    e: PerRound  # channel noise

    @property
    def total(self) -> PerRound:
        """G^r, the sum of the terms."""
        return self.a + self.b + self.c + self.d + self.e


def remainder(c: Constants, s: System) -> float:
    """Return D = 1 - 2 (eta M L)^2. Lemma 1, and so the theorem, needs D > 0."""
    return 1.0 - 2.0 * (s.learning_rate * s.local_steps * c.smoothness) ** 2


def applies(c: Constants, s: System) -> bool:
    """Return True if D > 0, so that the theorem applies."""
    return remainder(c, s) > 0


def lemma1(c: Constants, s: System, gradient_square: PerRound, form: Form = "corrected") -> PerRound:
    """Return the bound on sum_tau E|w_g - w_k^tau|^2, the drift of M local steps; NaN where D <= 0."""
    m, eta = s.local_steps, s.learning_rate
    # The statement of Lemma 1 has L^2 zeta; its proof (Eq. prooflemma1-2) gives zeta.
    zeta = c.heterogeneity * (c.smoothness**2 if _checked(form) == "printed" else 1.0)
    above = eta**2 * m**3 * (c.sigma**2 + 4 * zeta + 4 * c.vartheta**2 * gradient_square)
    return above / remainder(c, s) if applies(c, s) else above * math.nan


def terms(
    form: Form,
    c: Constants,
    s: System,
    weight_square_sum: PerRound,
    amplitude_sum: PerRound,
    ready: PerRound | None = None,
) -> Terms:
    """Return the terms (a) to (e) of one round, or of every round.

    Args:
        form: The form of the theorem.
        c: The constants.
        s: The settings of the run.
        weight_square_sum: sum_k alpha_k^2.
        amplitude_sum: sum_k b_k p_k.
        ready: The number n of ready devices. Only `dependent` needs it: its (c) holds the covariance of weights and
            noise, eta chi sigma^2 with chi = n sum_k alpha_k^2 - 1.
    """
    eta, m, big_l = s.learning_rate, s.local_steps, c.smoothness
    wander, share = _wander(form, c, s), _share(form, s)
    if form == "printed":
        zeta_factor = 2 * eta * m + 8 * big_l * eta * m**2 + 4 * eta**2 * m**3 * big_l**2 * wander
    else:  # eta^2 in the second part (from L/2 times A_2), and zeta without L^2 in the third (Lemma 1)
        zeta_factor = 2 * eta * m + 2 * share * big_l * eta**2 * m**2 + 4 * eta**2 * m**3 * wander
    noise: PerRound = share / 2 * big_l * eta**2 * m**2
    if form == "dependent":
        if ready is None:
            raise UserError("the dependent form needs the number of ready devices of each round")
        # The noise is a separate term there, and that of M steps adds up to M sigma^2; then the covariance.
        chi = np.maximum(np.asarray(ready) * weight_square_sum - 1.0, 0.0)
        noise = share / 2 * s.weight_peak * big_l * eta**2 * m + eta * chi
    return Terms(
        a=zeta_factor * c.heterogeneity,
        b=2 * eta * m * big_l**2 * c.epsilon**2,
        c=(noise + wander * eta**2 * m**3) * c.sigma**2,
        d=(big_l if s.payload == "model" else 0.0) * c.epsilon**2 * s.devices * weight_square_sum,
        e=_parts(s) / 2 * big_l * s.parameters * s.noise_power_w / np.square(amplitude_sum),
    )


def descent(c: Constants, s: System, form: Form = "corrected") -> float:
    """Return a: one round lowers E F by at least a E|grad F|^2 - G^r. If a <= 0, the theorem promises no descent.

    `printed` has the same a, although its A differs. For payload = "update" the paper has no a, and the result is NaN.
    """
    eta, m, big_l = s.learning_rate, s.local_steps, c.smoothness
    growth = c.vartheta**2
    gained = eta * m / (4 if form == "dependent" else 2)  # the covariance term takes half of it (Young's inequality)
    pulled_back = c.delta if s.payload == "model" else 0.0
    local = 4 * eta**2 * m**3 * growth * _wander(form, c, s)
    return gained - pulled_back - 2 * _share(form, s) * big_l * eta**2 * m**2 * growth - local


def contraction(form: Form, c: Constants, s: System) -> float:
    """Return A of E[F(w^(r+1)) - F*] <= A E[F(w^r) - F*] + G^r.

    The printed A is not monotone in L: a larger L shrinks 1 - L eta M before it lets the other terms grow.
    """
    eta, m, big_l = s.learning_rate, s.local_steps, c.smoothness
    if form == "printed":
        local = _wander(form, c, s) * 8 * big_l * eta**2 * m**3 * c.vartheta**2
        return 1 + 2 * big_l * c.delta - big_l * eta * m + 8 * big_l**2 * eta**2 * m * c.vartheta**2 + local
    a = descent(c, s, form)
    # -a |grad F|^2 needs a lower bound on the gradient while a > 0 (PL) and an upper one (Lemma 2) when a < 0.
    return 1 - 2 * a * (c.pl if a > 0 else c.smoothness)


def bound(
    form: Form, c: Constants, s: System, first_gap: float, g: Floats, sent: NDArray[np.bool_] | None = None
) -> Floats:
    """Return the bound on E[F(w^r)] - F* for r = 0..R, [R+1]; NaN where the theorem does not apply.

    The printed sum counts the newest G twice ("+ G^R" beside a sum that holds it already). `printed` keeps this.

    Args:
        form: The form. `printed` and `corrected` assume weights that are independent of the mini-batch noise.
        c: The constants.
        s: The settings of the run.
        first_gap: F(w^0) - F*.
        g: G^0 to G^(R-1), [R].
        sent: The rounds with a transmission, [R]; by default all. In other rounds the model and the bound stay.
    """
    rate = contraction(form, c, s)
    gaps, again = [first_gap], [0.0]
    for one, moved in zip(g, np.ones(len(g), bool) if sent is None else sent, strict=True):
        with np.errstate(over="ignore"):
            gaps.append(float(np.float64(rate) * gaps[-1] + one) if moved else gaps[-1])
        again.append(float(one) if moved else again[-1])
    return np.array(gaps) + (np.array(again) if form == "printed" else 0.0)


def averaged_gradient_bound(c: Constants, s: System, first_gap: float, g: Floats, form: Form = "corrected") -> float:
    """Return the bound on (1/R) sum_r E|grad F(w^r)|^2, which needs no PL inequality; infinite unless a > 0.

    The bound is (F(w^0) - F*)/(a R) + mean(G)/a.
    """
    a = descent(c, s, form)
    return (first_gap / len(g) + float(np.mean(g))) / a if a > 0 else math.inf


def largest_learning_rate(c: Constants, s: System, form: Form = "corrected") -> float:
    """Return the largest eta with D > 0 and a > 0 for these constants; 0 if delta alone forbids it."""
    limit = 1 / (math.sqrt(2) * s.local_steps * c.smoothness)
    grid = limit * np.logspace(-6, 0, 4000, endpoint=False)
    good = [eta for eta in grid if descent(c, replace(s, learning_rate=float(eta)), form) > 0]
    return float(max(good, default=0.0))


def _parts(s: System) -> int:
    """Return the number of squares that |w^(r+1) - w^r|^2 is split into: a factor of the updates and of the noise.

    It is 4 with payload = "model", as printed: stale start, updates and noise. It is 1 with "update": no stale start
    is left, and the channel noise has mean zero.
    """
    return 4 if s.payload == "model" else 1


def _share(form: Form, s: System) -> int:
    """Return the factor of `_parts`, doubled for weights that depend on the noise: gradients and noise are separate."""
    return _parts(s) * (2 if form == "dependent" else 1)


def _wander(form: Form, c: Constants, s: System) -> float:
    """Return the factor of Lemma 1 in the proof, (eta L^2 + 4 M eta^2 L^3) / D; NaN where the form does not apply.

    `dependent` multiplies it by kappa, because the weights may favour the devices with the largest drift.
    """
    if _checked(form) == "printed" and s.payload == "update":  # the paper sends models
        return math.nan
    eta, big_l = s.learning_rate, c.smoothness
    peak = s.weight_peak if form == "dependent" else 1.0
    above = peak * (eta * big_l**2 + _share(form, s) * s.local_steps * eta**2 * big_l**3)
    return above / remainder(c, s) if applies(c, s) else math.nan


def _checked(form: str) -> str:
    if form not in ALL_FORMS:
        raise unknown_name("form of Theorem 1", form, ALL_FORMS)
    return form
