"""The measured values of the claims, each as a sample over the seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ...results.inference import Bounds, Sample, known
from ...results.measures import Floats
from .catalogue import LOUD_DBM, NO_NOISE_DBM
from .evidence import Evidence, NoiseCurve, Setting

TOP_TARGET = 0.8


def distance(evidence: Evidence, method: str, rival: str) -> Sample:
    """Return the area between two curves of F over the rounds, relative to the area of the rival's gap F - F(w*)."""
    mine, other = evidence.quiet[method].objective_bounds(), evidence.quiet[rival].objective
    # The rival is a reference: without its value there is no distance.
    low, high = (np.mean(np.abs(end - other), axis=1) for end in mine)
    return Sample(values=Bounds(low, high), yardstick=_mean_gap(evidence, rival), unit="%")


def relative_gap(evidence: Evidence, method: str, rival: str) -> Sample:
    """Return the last F of a method minus the rival's, relative to the rival's mean gap over all rounds: 0 is equal.

    The rival's last gap is no useful reference: it is 0 if the rival went lower than every search for F(w*).
    """
    last = evidence.quiet[method].final_objective().minus(evidence.quiet[rival].final_objective())
    return Sample(values=last, yardstick=_mean_gap(evidence, rival), unit="%")


def _mean_gap(evidence: Evidence, method: str) -> Bounds:
    """Return the mean gap; F(w*) lies between 0, the minimum of a cross-entropy, and the best value of all searches."""
    mean: Floats = np.mean(evidence.quiet[method].objective, axis=1)
    return Bounds(mean - evidence.optimum, mean)


def gap_won(evidence: Evidence, method: str) -> Sample:
    """Return Local SGD's last F minus that of a method, after equal rounds."""
    local, mine = (evidence.quiet[name].final_objective() for name in ("local-sgd", method))
    return Sample(values=local.minus(mine), unit="of F")


def accuracy_steps(setting: Setting, method: str, *, equal_time: bool = False) -> tuple[Sample, Sample]:
    """Return the two steps of PAOTA > Local SGD > COTAF, at the end of each or at the end of the shortest run."""
    names = (method, "local-sgd", "cotaf")
    end_s = min(float(np.nanmin(np.nanmax(setting[name].time_s, axis=1))) for name in names) if equal_time else math.inf
    mine, local, cotaf = (known(setting[name].accuracy_at_s(end_s)) for name in names)
    return Sample(values=mine.minus(local), unit="points"), Sample(values=local.minus(cotaf), unit="points")


def time_saved(setting: Setting, method: str, target: float = TOP_TARGET, rival: str = "local-sgd") -> Sample:
    """Return the logarithm of (seconds of the rival / seconds of a method) to the target, shown as the saved share.

    A run that does not reach the target needs at least its whole duration.
    """
    mine, other = (_arrival(setting[name].seconds_to(target), setting[name].seen_until_s()) for name in (method, rival))
    return Sample(values=other.minus(mine), unit="%", shown=lambda log_ratio: 1 - float(np.exp(-log_ratio)))


def more_rounds(setting: Setting, method: str, target: float) -> Sample:
    """Return the logarithm of (rounds of a method / rounds of Local SGD) to the target, shown as the excess."""
    mine, local = (
        _arrival(setting[name].rounds_to(target), setting[name].seen_until_round()) for name in (method, "local-sgd")
    )
    return Sample(values=mine.minus(local), unit="%", shown=lambda figure: float(np.exp(figure)) - 1)


def _arrival(spent: Floats, end: Floats) -> Bounds:
    """Return the logarithm of the time or rounds to a target, [seeds]; infinity means later than `end` [seeds]."""
    with np.errstate(divide="ignore"):
        return Bounds(np.log(np.where(np.isposinf(spent), end, spent)), np.log(spent))


def advantages(evidence: Evidence, setting: Setting, method: str) -> Iterator[Sample]:
    """Yield for every target: more rounds than Local SGD, less time than Local SGD, less time than COTAF."""
    for target in evidence.targets:
        yield more_rounds(setting, method, target)
        for rival in ("local-sgd", "cotaf"):
            yield time_saved(setting, method, target, rival)


def lost_more(evidence: Evidence, method: str) -> Sample:
    """Return the accuracy that COTAF loses between -174 and -74 dBm/Hz, minus the loss of a method."""
    cotaf, mine = (
        known(evidence.quiet[name].final_accuracy() - evidence.loud[name].final_accuracy())
        for name in ("cotaf", method)
    )
    return Sample(values=cotaf.minus(mine), unit="points")


def swept_lost_more(mine: NoiseCurve, rival: NoiseCurve) -> Sample:
    """Return the same difference for two lines of the noise sweep, relative to no noise."""
    losses = [known(curve.lost(NO_NOISE_DBM, LOUD_DBM)) for curve in (rival, mine)]
    return Sample(values=losses[0].minus(losses[1]), unit="points")


def breaks_later(mine: NoiseCurve, rival: NoiseCurve) -> Sample:
    """Return the additional noise in dB that `mine` tolerates before it loses 5 points, compared with `rival`."""
    return Sample(values=mine.break_bounds_dbm().minus(rival.break_bounds_dbm()), unit="dB")
