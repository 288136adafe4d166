"""How a claim is judged: what is tested, on whose terms, and when the seeds decide.

A claim is tried as printed, then under the changes that the project offers. Every trial is tested twice: does it hold,
does it fail? All these tests form one family: Holm's correction keeps the probability of any wrong decision below 5 %,
whatever the dependence. Where neither is shown, the trial is open.

Noise hurts who is quiet, so trials about noise measure what both rivals radiate. One in which a rival exceeds the power
budget is shown, but never makes a claim reproduced.
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
    """What two rivals radiate in a trial that noise decides."""

    mine: Radiated
    rival: Radiated

    @property
    def equal(self) -> bool:
        """Whether both keep to the same power budget, in every transmission."""
        return self.mine.over_budget == self.rival.over_budget == 0

    def __str__(self) -> str:
        more_db = 10 * math.log10(self.mine.median_w / self.rival.median_w)
        budget = "both within the budget" if self.equal else "unequal: the budget is exceeded"
        over = max(self.mine.over_budget, self.rival.over_budget)
        share = "" if self.equal else f" in {over:.0%} of the transmissions"
        return f"{watts(self.mine.median_w)} against {watts(self.rival.median_w)} ({more_db:+.0f} dB); {budget}{share}"


def watts(power_w: float) -> str:
    """A power as people read it."""
    return f"{power_w:,.0f} W" if power_w >= 100 else f"{power_w:.2g} W"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One way to test a claim: it holds if all its statements do. No statements: what it needs was not run."""

    statements: Callable[[Evidence], Sequence[Statement]]
    change: str = ""  # nothing: as printed
    terms: Callable[[Evidence], Terms | None] = lambda evidence: None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What the paper says, how it is measured, and the ways to test it: as printed first, then the smaller changes."""

    id: str
    statement: str
    paper: str  # the paper's own figure
    measured: str  # what our figure is
    rule: str
    trials: tuple[Trial, ...]
    because: Callable[[Evidence], str]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What came of a trial; both p-values are adjusted for all tests of the family."""

    change: str
    estimate: Estimate  # of the statement that is hardest to show
    p_holds: float
    p_fails: float
    terms: Terms | None = None

    @property
    def outcome(self) -> str:
        """HOLDS, FAILS or OPEN."""
        return HOLDS if self.p_holds <= LEVEL else FAILS if self.p_fails <= LEVEL else OPEN

    @property
    def decides(self) -> bool:
        """Whether it holds on equal terms."""
        return self.outcome == HOLDS and (self.terms is None or self.terms.equal)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What became of a claim: `tried` as printed first."""

    claim: Claim
    tried: tuple[Tried, ...]
    reason: str

    @property
    def estimate(self) -> Estimate:
        """As printed."""
        return self.tried[0].estimate

    @property
    def changed(self) -> Tried | None:
        """The first change under which it holds, on equal terms, if it does not hold as printed."""
        return None if self.tried[0].decides else next((trial for trial in self.tried[1:] if trial.decides), None)

    @property
    def status(self) -> str:
        """REPRODUCED, CHANGED, UNDECIDED or FAILED. What was refuted as printed stays so while changes are open."""
        if self.tried[0].decides:
            return REPRODUCED
        if self.changed:
            return CHANGED
        return FAILED if self.tried[0].outcome == FAILS else UNDECIDED


def judge_all(evidence: Evidence, claims: Sequence[Claim]) -> list[Verdict]:
    """Every claim judged by the same evidence, all tests of all trials corrected together."""
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
