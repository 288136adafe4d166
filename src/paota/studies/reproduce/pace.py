"""How long must a synchronous round last for Table I to come out? Computed from the latency law; nothing is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ...results.measures import Floats
from . import printed

Quantile = Callable[[Floats], Floats]  # of the latency in seconds, at probabilities
POINTS = 20_000
READY_8_S, READY_6_S, ALL = 59, 45, 100  # devices ready a round at dT = 8 s and 6 s (mean), and all there are


@dataclass(frozen=True, kw_only=True)
class Pace:
    """An assumption about the length of a synchronous round, and how far Table I is from it."""

    assumption: str
    round_s: float
    distance: float  # root mean square of ln(printed seconds / expected seconds) over the synchronous entries
    chosen: str = ""  # what was fitted to the table; nothing: fixed beforehand


def uniform(low_s: float, high_s: float) -> Quantile:
    """U(low, high), the paper's law."""
    return lambda p: low_s + (high_s - low_s) * p


def normal(mean_s: float, std_s: float) -> Quantile:
    """A bell."""
    return lambda p: np.asarray(mean_s + std_s * ndtri(p))


def shifted_exponential(low_s: float, mean_s: float) -> Quantile:
    """At least `low_s`, and a tail."""
    return lambda p: low_s - (mean_s - low_s) * np.log1p(-p)


def longest_s(latency: Quantile, devices: int) -> float:
    """The mean of the longest of so many latencies: the integral of the quantile at u^(1/n) over u from 0 to 1."""
    u = (np.arange(POINTS) + 0.5) / POINTS
    return float(np.mean(latency(u ** (1 / devices))))


def entries(misfits: Mapping[tuple[str, float], int] | None = None) -> list[tuple[float, float]]:
    """(rounds, seconds) of Local SGD and COTAF in Table I, some of them with other rounds."""
    other = misfits or {}
    return [
        (float(other.get((method, target), rounds)), seconds)
        for method in ("local-sgd", "cotaf")
        for target, (rounds, seconds) in zip(printed.TARGETS, printed.TABLE[method], strict=True)
    ]


def distance(round_s: float, table: Iterable[tuple[float, float]]) -> float:
    """Root mean square of ln(printed seconds / expected seconds)."""
    return math.sqrt(float(np.mean([math.log(seconds / (rounds * round_s)) ** 2 for rounds, seconds in table])))


def fitted_s(table: Iterable[tuple[float, float]]) -> float:
    """The seconds a round that come nearest."""
    return math.exp(float(np.mean([math.log(seconds / rounds) for rounds, seconds in table])))


def paces() -> list[Pace]:
    """Assumptions about the length of a synchronous round: as printed first, single ones, then two together."""
    as_printed, mended = entries(), entries(printed.MISFITS)
    law = uniform(5, 15)
    usual_s = longest_s(law, READY_8_S)
    std_s = 10 / math.sqrt(12)
    fixed = [
        (f"as printed: U(5, 15) s, the slowest of {READY_8_S} devices (dT = 8 s)", usual_s),
        (f"the slowest of {READY_6_S} (dT = 6 s)", longest_s(law, READY_6_S)),
        (f"the slowest of all {ALL}", longest_s(law, ALL)),
        ("the slowest of 10", longest_s(law, 10)),
        ("a normal law with the same mean and spread", longest_s(normal(10, std_s), READY_8_S)),
        ("5 s and an exponential tail with the same mean", longest_s(shifted_exponential(5, 10), READY_8_S)),
    ]
    made = [Pace(assumption=words, round_s=s, distance=distance(s, as_printed)) for words, s in fixed]
    best_s, mended_s = fitted_s(as_printed), fitted_s(mended)
    misprints = "rounds misprinted in two entries (78.17 s is 5 rounds, 316.75 s is 21)"
    return [
        *made,
        Pace(
            assumption="any fixed time on top of every round", round_s=best_s, distance=distance(best_s, as_printed),
            chosen=f"{best_s - usual_s:+.2f} s",
        ),
        Pace(assumption=misprints, round_s=usual_s, distance=distance(usual_s, mended), chosen="5 and 21 rounds"),
        Pace(
            assumption="both: misprinted rounds and a fixed time on top", round_s=mended_s,
            distance=distance(mended_s, mended), chosen=f"5 and 21 rounds, {mended_s - usual_s:+.2f} s",
        ),
    ]  # fmt: skip
