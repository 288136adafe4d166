"""The paper's claims, each with the rule that decides it. A verdict follows from the data; nothing is typed in.

A claim is tried as printed first. If it fails, the changes that the project offers (payload = update, dT = 6 s, ...)
are tried in their order, and the first under which it holds is named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..runs.measures import Estimate, median
from .comparisons import (
    TOP_TARGET,
    accuracies_at_equal_time,
    breaks_later,
    closer_than_cotaf,
    distance_to_local_sgd,
    final_accuracies,
    gap_won,
    least_advantage,
    lost_more,
    ordering,
    relative_gap,
    time_saved,
)
from .evidence import Curves, Evidence

REPRODUCED, CHANGED, FAILED = "reproduced", "reproduced with a change", "not reproduced"
SIMILAR = 0.10  # "similar convergence": gaps within 10 % of each other
TIME_SAVED = 0.25  # the paper's figure
VISIBLE = 0.01  # a loss of accuracy below one point could not be seen in the paper's figure


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One way to test a claim: what is measured, and when it holds."""

    measure: Callable[[Evidence], Estimate]
    holds: Callable[[Estimate], bool]
    change: str = ""  # nothing: as printed


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says, how it is measured, and the ways to test it, as printed first."""

    id: str
    statement: str
    paper: str  # the paper's own figure
    measured: str  # what our figure is
    rule: str
    trials: tuple[Trial, ...]
    because: Callable[[Evidence, str], str]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a claim."""

    claim: Claim
    status: str
    estimate: Estimate  # as printed
    change: str  # the change under which it holds
    changed_estimate: Estimate | None
    tried: tuple[tuple[str, Estimate, bool], ...]
    reason: str


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    """Try a claim as printed, then under each change, until it holds."""
    tried = []
    for trial in claim.trials:
        estimate = trial.measure(evidence)
        tried.append((trial.change, estimate, bool(trial.holds(estimate))))
        if tried[-1][2]:
            break
    held = tried[-1][2]
    status = FAILED if not held else REPRODUCED if len(tried) == 1 else CHANGED
    return Verdict(
        claim=claim,
        status=status,
        estimate=tried[0][1],
        change=tried[-1][0] if status == CHANGED else "",
        changed_estimate=tried[-1][1] if status == CHANGED else None,
        tried=tuple(tried),
        reason=claim.because(evidence, status),
    )


def judge_all(evidence: Evidence) -> list[Verdict]:
    """Every claim of the paper, judged by the same evidence."""
    return [judge(claim, evidence) for claim in claims()]


def surely_positive(estimate: Estimate) -> bool:
    """Whether the whole interval lies above 0."""
    return estimate.low > 0


def claims() -> tuple[Claim, ...]:
    """The paper's claims, in its order."""
    return (_close(), _smaller_gap(), _similar(), _ordering(), _rounds_for_time(), _time_saved(), _robust())


def _close() -> Claim:
    def because(e: Evidence, status: str) -> str:
        names = ("paota", "paota-update", "cotaf")
        paota, update, cotaf = (float(np.mean(distance_to_local_sgd(e, e.quiet, n))) for n in names)
        return (
            f"F stays within {paota:.3f} of Local SGD's on average (payload = update: {update:.3f}), COTAF's within "
            f"{cotaf:.3f}: at -174 dBm/Hz COTAF's noise is invisible, so it is Local SGD with the same devices."
        )

    return Claim(
        id="close",
        statement="PAOTA converges about as fast as Local SGD, closer to it than COTAF (Fig. 3, -174 dBm/Hz)",
        paper="curves close together",
        measured="distance of COTAF's curve to Local SGD's minus that of PAOTA's",
        rule="the interval lies above 0",
        trials=(
            Trial(measure=lambda e: closer_than_cotaf(e, "paota", e.quiet), holds=surely_positive),
            Trial(
                measure=lambda e: closer_than_cotaf(e, "paota-update", e.quiet),
                holds=surely_positive,
                change="payload = update",
            ),
            Trial(
                measure=lambda e: closer_than_cotaf(e, "paota", e.loud), holds=surely_positive, change="N0 = -74 dBm/Hz"
            ),
        ),
        because=because,
    )


def _smaller_gap() -> Claim:
    def because(e: Evidence, status: str) -> str:
        gaps = {
            n: float(np.mean(e.quiet[n].final_objective() - e.optimum)) for n in ("paota", "paota-update", "local-sgd")
        }
        return (
            f"The last gaps are {gaps['paota']:.3f} (PAOTA), {gaps['paota-update']:.3f} (payload = update) and "
            f"{gaps['local-sgd']:.3f} (Local SGD): sending whole models pulls the average back to stale versions."
        )

    return Claim(
        id="smaller-gap",
        statement="As rounds go on, PAOTA reaches a smaller gap than Local SGD (Fig. 3)",
        paper="smaller",
        measured="Local SGD's last F minus PAOTA's, after equal rounds",
        rule="the interval lies above 0",
        trials=(
            Trial(measure=lambda e: gap_won(e, "paota"), holds=surely_positive),
            Trial(measure=lambda e: gap_won(e, "paota-update"), holds=surely_positive, change="payload = update"),
        ),
        because=because,
    )


def _similar() -> Claim:
    def within(estimate: Estimate) -> bool:
        return estimate.low >= -SIMILAR and estimate.high <= SIMILAR

    return Claim(
        id="similar",
        statement="COTAF and PAOTA converge alike at -174 dBm/Hz (Fig. 3)",
        paper="similar",
        measured="PAOTA's last gap relative to COTAF's",
        rule=f"the interval lies within +-{SIMILAR:.0%}",
        trials=(
            Trial(measure=lambda e: relative_gap(e, "paota"), holds=within),
            Trial(measure=lambda e: relative_gap(e, "paota-update"), holds=within, change="payload = update"),
        ),
        because=lambda e, status: (
            f"After equal rounds PAOTA's gap is {1 + relative_gap(e, 'paota').value:.2f} times COTAF's, and "
            f"{1 + relative_gap(e, 'paota-update').value:.2f} times with payload = update."
        ),
    )


def _ordering() -> Claim:
    def because(e: Evidence, status: str) -> str:
        words = ", ".join(
            f"{title} {np.mean(e.quiet[name].final_accuracy()):.1%}"
            for name, title in (
                ("paota", "PAOTA"),
                ("paota-update", "PAOTA (update)"),
                ("local-sgd", "Local SGD"),
                ("cotaf", "COTAF"),
            )
        )
        return f"Measured at the end: {words}; without visible noise COTAF computes the same average as Local SGD."

    return Claim(
        id="ordering",
        statement="Final accuracy: PAOTA above Local SGD above COTAF (Fig. 4)",
        paper="83.5 / 82.4 / 81 %",
        measured="the smaller of the two steps PAOTA - Local SGD and Local SGD - COTAF",
        rule="the interval lies above 0",
        trials=(
            Trial(measure=lambda e: ordering(final_accuracies(e.quiet, "paota")), holds=surely_positive),
            Trial(
                measure=lambda e: ordering(final_accuracies(e.quiet, "paota-update")),
                holds=surely_positive,
                change="payload = update",
            ),
            Trial(
                measure=lambda e: ordering(accuracies_at_equal_time(e.quiet, "paota-update")),
                holds=surely_positive,
                change="payload = update, at equal simulated time",
            ),
        ),
        because=because,
    )


def _rounds(e: Evidence, method: str) -> str:
    needed = median(e.quiet[method].rounds_to(TOP_TARGET))
    return f"{needed:.0f}" if np.isfinite(needed) else "more than all"


def _rounds_for_time() -> Claim:
    def because(e: Evidence, status: str) -> str:
        def pace(c: Curves) -> float:
            return float(np.nanmean(np.nanmax(c.time_s, axis=1) / (c.time_s.shape[1] - 1)))

        return (
            f"A round of PAOTA takes {pace(e.quiet['paota']):.1f} s and one of Local SGD "
            f"{pace(e.quiet['local-sgd']):.1f} s, but PAOTA needs {_rounds(e, 'paota')} rounds to {TOP_TARGET:.0%} and "
            f"Local SGD {_rounds(e, 'local-sgd')}."
        )

    return Claim(
        id="rounds-for-time",
        statement="PAOTA needs more rounds than Local SGD but less time than Local SGD and COTAF, at every target "
        "(Table I)",
        paper="yes, at 50, 60, 70 and 80 %",
        measured="the least, over targets, of: excess of rounds, time saved against each rival",
        rule="the interval lies above 0",
        trials=(
            Trial(measure=lambda e: least_advantage(e, e.quiet, "paota"), holds=surely_positive),
            Trial(measure=lambda e: least_advantage(e, e.six, "paota"), holds=surely_positive, change="dT = 6 s"),
            Trial(
                measure=lambda e: least_advantage(e, e.quiet, "paota-update"),
                holds=surely_positive,
                change="payload = update",
            ),
            Trial(
                measure=lambda e: least_advantage(e, e.six, "paota-update"),
                holds=surely_positive,
                change="payload = update and dT = 6 s",
            ),
        ),
        because=because,
    )


def _percent(value: float) -> str:
    return f"{value:.0%}" if np.isfinite(value) else "none (80 % is not reached)"


def _time_saved() -> Claim:
    def reaches(estimate: Estimate) -> bool:
        return estimate.low > 0 and estimate.high >= TIME_SAVED

    def because(e: Evidence, status: str) -> str:
        shown = [
            f"{_percent(time_saved(setting, name).value)} {words}"
            for setting, name, words in (
                (e.quiet, "paota", "at dT = 8 s"),
                (e.six, "paota", "at the 6 s of Table I"),
                (e.quiet, "paota-update", "with payload = update"),
            )
        ]
        printed = "the printed 25 % is 342 s = 57 rounds of 6 s, at 8 s those are 456 s"
        return f"Time saved at 80 %: {', '.join(shown)}; {printed}."

    return Claim(
        id="time-saved",
        statement="PAOTA saves 25 % of the time to 80 % accuracy against Local SGD (Table I)",
        paper="25 % (342 s against 451.62 s)",
        measured="1 - median time of PAOTA / median time of Local SGD, to 80 %",
        rule="the interval lies above 0 and reaches 25 %",
        trials=(
            Trial(measure=lambda e: time_saved(e.quiet, "paota"), holds=reaches),
            Trial(measure=lambda e: time_saved(e.six, "paota"), holds=reaches, change="dT = 6 s"),
            Trial(measure=lambda e: time_saved(e.quiet, "paota-update"), holds=reaches, change="payload = update"),
        ),
        because=because,
    )


def _robust() -> Claim:
    def because(e: Evidence, status: str) -> str:
        lost = {n: float(np.mean(e.quiet[n].final_accuracy() - e.loud[n].final_accuracy())) for n in ("paota", "cotaf")}
        words = (
            f"Going from -174 to -74 dBm/Hz costs PAOTA {lost['paota'] * 100:.2f} points and COTAF "
            f"{lost['cotaf'] * 100:.2f}"
        )
        breaks = ", ".join(
            f"{curve.title} at {curve.break_of_median_dbm():.0f}"
            for name, curve in e.noise.items()
            if name in ("paota-paper", "paota-physical", "cotaf", "cotaf-fading")
            and np.isfinite(curve.break_of_median_dbm())
        )
        return words + (f"; without path loss they break only at (dBm/Hz): {breaks}." if breaks else ".")

    def visibly(estimate: Estimate) -> bool:
        return estimate.low > 0 and estimate.value >= VISIBLE

    return Claim(
        id="robust",
        statement="At -74 dBm/Hz PAOTA is more robust than COTAF (Fig. 3)",
        paper="COTAF hurt, PAOTA not",
        measured="accuracy lost by COTAF minus that lost by PAOTA (under a change: dB more noise until 5 are lost)",
        rule=f"the interval lies above 0 and the difference is at least {VISIBLE * 100:.0f} point",
        trials=(
            Trial(measure=lambda e: lost_more(e, "paota"), holds=visibly),
            Trial(
                measure=lambda e: breaks_later(e, "paota-paper", "cotaf"),
                holds=surely_positive,
                change="noise far louder than -74 dBm/Hz, PAOTA not held to its 15 W",
            ),
            Trial(
                measure=lambda e: breaks_later(e, "paota-physical", "cotaf-fading"),
                holds=surely_positive,
                change="noise far louder than -74 dBm/Hz, both in fading and inside their power budgets",
            ),
            Trial(
                measure=lambda e: breaks_later(e, "paota-update-physical", "cotaf-fading"),
                holds=surely_positive,
                change="the same, and payload = update",
            ),
        ),
        because=because,
    )
