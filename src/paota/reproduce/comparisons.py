"""The figures that the paper's claims are about, each with its interval over the seeds."""

from __future__ import annotations

import numpy as np

from ..runs.measures import Estimate, Floats, bootstrap, median
from .evidence import Evidence, NoiseCurve, Setting

TOP_TARGET = 0.8


def distance_to_local_sgd(evidence: Evidence, setting: Setting, method: str) -> Floats:
    """Mean over rounds of |F - F of Local SGD|, one number a seed."""
    reference = evidence.quiet["local-sgd"].objective
    distance: Floats = np.nanmean(np.abs(setting[method].objective - reference), axis=1)
    return distance


def closer_than_cotaf(evidence: Evidence, method: str, setting: Setting) -> Estimate:
    """How much closer to Local SGD's F a method stays than COTAF, on average over rounds."""
    pair = [distance_to_local_sgd(evidence, setting, name) for name in ("cotaf", method)]
    return bootstrap(pair, lambda cotaf, paota: float(np.mean(cotaf) - np.mean(paota)), unit="of F")


def gap_won(evidence: Evidence, method: str) -> Estimate:
    """Local SGD's last F minus that of a method, after equal rounds."""
    pair = [evidence.quiet[name].final_objective() for name in ("local-sgd", method)]
    return bootstrap(pair, lambda local, paota: float(np.mean(local) - np.mean(paota)), unit="of F")


def relative_gap(evidence: Evidence, method: str) -> Estimate:
    """The last gap F - F(w*) of a method, relative to COTAF's: 0 is equal."""
    gaps = [evidence.quiet[name].final_objective() - evidence.optimum for name in (method, "cotaf")]
    return bootstrap(gaps, lambda paota, cotaf: float(np.mean(paota) / np.mean(cotaf) - 1), unit="%")


def ordering(accuracies: tuple[Floats, Floats, Floats]) -> Estimate:
    """The smaller of the two steps of PAOTA > Local SGD > COTAF."""
    return bootstrap(
        accuracies,
        lambda paota, local, cotaf: float(min(np.mean(paota - local), np.mean(local - cotaf))),
        unit="points",
    )


def final_accuracies(setting: Setting, method: str) -> tuple[Floats, Floats, Floats]:
    """Of a method, Local SGD and COTAF, [seeds] each."""
    return tuple(setting[name].final_accuracy() for name in (method, "local-sgd", "cotaf"))  # type: ignore[return-value]


def accuracies_at_equal_time(setting: Setting, method: str) -> tuple[Floats, Floats, Floats]:
    """Of a method, Local SGD and COTAF when the first of them has ended, [seeds] each."""
    names = (method, "local-sgd", "cotaf")
    end_s = min(float(np.nanmin(np.nanmax(setting[name].time_s, axis=1))) for name in names)
    return tuple(setting[name].accuracy_at_s(end_s) for name in names)  # type: ignore[return-value]


def time_saved(setting: Setting, method: str, target: float = TOP_TARGET, rival: str = "local-sgd") -> Estimate:
    """1 - median seconds of PAOTA / median seconds of the rival to the target; -inf if PAOTA never gets there."""
    pair = [setting[name].seconds_to(target) for name in (method, rival)]
    return bootstrap(pair, _saving, unit="%")


def _saving(mine: Floats, other: Floats) -> float:
    a, b = median(mine), median(other)
    if not np.isfinite(a):
        return -np.inf
    return 1 - a / b  # a rival that never arrives: all of the time is saved


def least_advantage(evidence: Evidence, setting: Setting, method: str) -> Estimate:
    """Over all targets: more rounds than Local SGD (excess), less time than both rivals (saving); the least of them."""
    mine, local, cotaf = (setting[name] for name in (method, "local-sgd", "cotaf"))
    columns = []
    for target in evidence.targets:
        columns += [mine.rounds_to(target), local.rounds_to(target)]
        columns += [c.seconds_to(target) for c in (mine, local, cotaf)]

    def least(*drawn: Floats) -> float:
        worst = np.inf
        for i in range(0, len(drawn), 5):
            rounds, local_rounds, seconds, local_s, cotaf_s = drawn[i : i + 5]
            excess = median(rounds) / median(local_rounds) - 1 if np.isfinite(median(local_rounds)) else -np.inf
            worst = min(worst, excess, _saving(seconds, local_s), _saving(seconds, cotaf_s))
        return float(worst)

    return bootstrap(columns, least, unit="%")


def lost_more(evidence: Evidence, method: str) -> Estimate:
    """Accuracy that COTAF loses between -174 and -74 dBm/Hz, minus what PAOTA loses."""
    columns = [
        evidence.quiet["cotaf"].final_accuracy() - evidence.loud["cotaf"].final_accuracy(),
        evidence.quiet[method].final_accuracy() - evidence.loud[method].final_accuracy(),
    ]
    return bootstrap(columns, lambda cotaf, paota: float(np.mean(cotaf) - np.mean(paota)), unit="points")


def breaks_later(evidence: Evidence, mine: str, rival: str) -> Estimate:
    """How many dB more noise `mine` bears than `rival` before it loses 5 points."""
    if mine not in evidence.noise or rival not in evidence.noise:
        return Estimate(value=np.nan, low=np.nan, high=np.nan, unit="dB")
    pair = [_bounded(evidence.noise[name]) for name in (mine, rival)]
    return bootstrap(pair, lambda a, b: median(a) - median(b), unit="dB")


def _bounded(curve: NoiseCurve) -> Floats:
    """Break points, with "never" and "at once" put at the ends of the curve: a cautious difference stays finite."""
    return np.clip(curve.breaks_dbm(), curve.levels_dbm[1], curve.levels_dbm[-1])
