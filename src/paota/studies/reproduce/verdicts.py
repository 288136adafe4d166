"""Verdicts: each follows from tests of a claim over the seeds.

A claim is tried as printed, then under the changes that the project offers. Every trial has two tests: one shows that it
holds, the other that it fails. All these tests form one family. Holm's correction keeps the probability of any wrong
decision below 5 %, for any dependence between the tests. A trial is open if neither test succeeds.

Noise hurts low-power transmitters most. Trials about noise therefore measure the radiated power of both rivals. A trial
in which a rival exceeds the power budget is shown, but never makes a claim reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...results.inference import Estimate, Statement, holm, p_all_hold, p_some_fails
from .evidence import Evidence, Radiated

REPRODUCED, CHANGED = "reproduced", "reproduced with a change"
UNDECIDED, FAILED = "undecided", "not reproduced"
HOLDS, OPEN, FAILS = "holds", "open", "fails"
LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The radiated power of two rivals in a trial about noise."""

    mine: Radiated
    rival: Radiated

    @property
    def equal(self) -> bool:
        """True if all transmissions of both rivals keep the same power budget."""
        return self.mine.over_budget == self.rival.over_budget == 0

    def __str__(self) -> str:
        more_db = 10 * math.log10(self.mine.median_w / self.rival.median_w)
        budget = "both within the budget" if self.equal else "unequal: the budget is exceeded"
        over = max(self.mine.over_budget, self.rival.over_budget)
        share = "" if self.equal else f" in {over:.0%} of the transmissions"
        return f"{watts(self.mine.median_w)} against {watts(self.rival.median_w)} ({more_db:+.0f} dB); {budget}{share}"


def watts(power_w: float) -> str:
    """Return the text of a power."""
    return f"{power_w:,.0f} W" if power_w >= 100 else f"{power_w:.2g} W"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One way to test a claim. It holds if all its statements hold; without statements its data were not computed."""

    statements: Callable[[Evidence], Sequence[Statement]]
    change: str = ""  # empty: as printed
    terms: Callable[[Evidence], Terms | None] = lambda evidence: None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper, its measure, and the ways to test it: first as printed, then with changes."""

    id: str
    statement: str
    paper: str  # the paper's own figure
    measured: str  # definition of the measured value
    rule: str
    trials: tuple[Trial, ...]
    because: Callable[[Evidence], str]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """The result of a trial; both p-values are adjusted for all tests of the family."""

    change: str
    estimate: Estimate  # of the statement with the largest p-value
    p_holds: float
    p_fails: float
    terms: Terms | None = None

    @property
    def outcome(self) -> str:
        """One of HOLDS, FAILS and OPEN."""
        return HOLDS if self.p_holds <= LEVEL else FAILS if self.p_fails <= LEVEL else OPEN

    @property
    def decides(self) -> bool:
        """True if the trial holds, with the same power budget for both rivals."""
        return self.outcome == HOLDS and (self.terms is None or self.terms.equal)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a claim. The first element of `tried` is the trial as printed."""

    claim: Claim
    tried: tuple[Tried, ...]
    reason: str

    @property
    def estimate(self) -> Estimate:
        """The measured value as printed."""
        return self.tried[0].estimate

    @property
    def changed(self) -> Tried | None:
        """The first change under which the claim holds on equal terms, unless it holds as printed."""
        return None if self.tried[0].decides else next((trial for trial in self.tried[1:] if trial.decides), None)

    @property
    def status(self) -> str:
        """One of REPRODUCED, CHANGED, UNDECIDED and FAILED. A claim refuted as printed stays FAILED while changes are open."""
        if self.tried[0].decides:
            return REPRODUCED
        if self.changed:
            return CHANGED
        return FAILED if self.tried[0].outcome == FAILS else UNDECIDED


def judge_all(evidence: Evidence, claims: Sequence[Claim]) -> list[Verdict]:
    """Return the verdicts on all claims from the same evidence, with one correction over all tests of all trials."""
    tested = [
        (claim, trial, statements)
        for claim in claims
        for trial in claim.trials
        if (statements := trial.statements(evidence))
    ]
    adjusted = holm([p for *_, s in tested for p in (p_all_hold(s), p_some_fails(s))])
    tried: dict[str, list[Tried]] = {claim.id: [] for claim in claims}
    for i, (claim, trial, statements) in enumerate(tested):
        hardest = max(statements, key=lambda statement: (statement.p_holds, -statement.p_fails))
        tried[claim.id].append(
            Tried(
                change=trial.change,
                estimate=hardest.sample.estimate(),
                p_holds=adjusted[2 * i],
                p_fails=adjusted[2 * i + 1],
                terms=trial.terms(evidence),
            )
        )
    return [Verdict(claim=claim, tried=tuple(tried[claim.id]), reason=claim.because(evidence)) for claim in claims]
