"""The rules that make verdicts, on made-up data that flips each of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paota.reproduce.claims import CHANGED, FAILED, REPRODUCED, claims, judge, judge_all
from paota.reproduce.evidence import Curves, Evidence, NoiseCurve

SEEDS, ROUNDS = 10, 60


def curves(*, ends=0.85, half_life=8.0, round_s=8.0, objective_end=0.5, wobble=0.0):
    """Accuracy rises towards `ends`, F falls towards `objective_end`; seeds differ a little, in a known way."""
    r = np.arange(ROUNDS + 1)
    shift = np.linspace(-1, 1, SEEDS)[:, None] * (0.002 + wobble)
    rise = 1 - 0.5 ** (r / half_life)
    return Curves(
        accuracy=np.clip(0.1 + (ends - 0.1) * rise + shift, 0, 1),
        time_s=np.broadcast_to(r * round_s, (SEEDS, ROUNDS + 1)).astype(float),
        objective=objective_end + (2.3 - objective_end) * (1 - rise) + shift,
    )


def noise_curve(breaks_dbm):
    levels = (-300.0, -100.0, -80.0, -60.0, -40.0, -20.0, 0.0)
    accuracy = [[0.8 if level < breaks_dbm + 0.1 * seed else 0.1 for seed in range(SEEDS)] for level in levels]
    return NoiseCurve(title="made up", levels_dbm=levels, accuracy=np.array(accuracy))


def evidence(*, paota=None, update=None, local=None, cotaf=None, loud=None, six=None, noise=None):
    """The paper as it would like to be: every claim holds. Each argument spoils one thing."""
    quiet = {
        "paota": paota or curves(ends=0.88, half_life=10, round_s=8, objective_end=0.45),
        "paota-update": update or curves(ends=0.89, half_life=9, round_s=8, objective_end=0.44),
        "local-sgd": local or curves(ends=0.86, half_life=8, round_s=15, objective_end=0.50),
        "cotaf": cotaf or curves(ends=0.84, half_life=14, round_s=15, objective_end=0.37),
    }
    return Evidence(
        quiet=quiet,
        loud=loud or {**quiet, "cotaf": curves(ends=0.70, half_life=14, round_s=15, objective_end=0.9)},
        six=six or quiet,
        optimum=np.full(SEEDS, 0.1),
        noise=noise or {},
    )


def verdict_of(name, made):
    claim = next(c for c in claims() if c.id == name)
    return judge(claim, made)


def test_the_paper_as_it_would_like_to_be():
    assert {v.claim.id: v.status for v in judge_all(evidence())} == dict.fromkeys(
        ["close", "smaller-gap", "similar", "ordering", "rounds-for-time", "time-saved", "robust"], REPRODUCED
    )


def test_cotaf_that_equals_local_sgd_is_closer_to_it():
    local = curves(ends=0.86, half_life=8, round_s=15)
    made = evidence(local=local, cotaf=local)
    verdict = verdict_of("close", made)
    # At -74 dBm/Hz the made-up COTAF is hurt, so the claim holds there: a change, and it is named.
    assert (verdict.status, verdict.change) == (CHANGED, "N0 = -74 dBm/Hz")
    unhurt = evidence(local=local, cotaf=local, loud={**made.quiet})
    assert verdict_of("close", unhurt).status == FAILED
    assert verdict_of("close", unhurt).estimate.high < 0
    assert verdict_of("ordering", made).status == FAILED  # no step between Local SGD and COTAF


def test_a_smaller_gap_only_with_updates():
    made = evidence(paota=curves(objective_end=0.7))
    verdict = verdict_of("smaller-gap", made)
    assert (verdict.status, verdict.change) == (CHANGED, "payload = update")
    assert verdict.estimate.value == pytest.approx(-0.2, abs=0.02)
    assert verdict.changed_estimate.low > 0
    both = evidence(paota=curves(objective_end=0.7), update=curves(objective_end=0.7))
    assert verdict_of("smaller-gap", both).status == FAILED


def test_similar_needs_the_whole_interval_inside_the_margin():
    # Gaps: COTAF 0.27 + 1.93/2^(60/14) = 0.37, PAOTA 0.35 + 1.85/2^6 = 0.38. With 0.7 + ... PAOTA is far off.
    assert verdict_of("similar", evidence()).status == REPRODUCED
    far = evidence(paota=curves(objective_end=0.8), update=curves(objective_end=0.8))
    assert verdict_of("similar", far).status == FAILED
    unsure = evidence(paota=curves(half_life=10, objective_end=0.45, wobble=0.3), update=curves(objective_end=0.8))
    assert verdict_of("similar", unsure).status == FAILED  # right on average, but who knows


@pytest.mark.parametrize(
    ("round_s", "status"),
    [
        (8.0, REPRODUCED),
        (10.0, REPRODUCED),  # 14 % saved or so on average would not do; see the next test for the figure
        (16.0, FAILED),
    ],
)
def test_time_saved_follows_the_length_of_a_round(round_s, status):
    fast = curves(ends=0.88, half_life=8, round_s=round_s)
    made = evidence(
        paota=fast,
        update=fast,
        six={"paota": fast, "paota-update": fast, "local-sgd": curves(round_s=15), "cotaf": curves(round_s=15)},
    )
    assert verdict_of("time-saved", made).status == status


def test_time_saved_by_hand():
    """30 rounds of 8 s against 20 of 15 s: 1 - 240/300 = 20 %, surely above 0 but short of 25 %."""

    def reaching(round_number, round_s):
        accuracy = np.where(np.arange(ROUNDS + 1) >= round_number, 0.81, 0.5)
        return Curves(
            accuracy=np.tile(accuracy, (SEEDS, 1)),
            time_s=np.tile(np.arange(ROUNDS + 1) * float(round_s), (SEEDS, 1)),
            objective=np.ones((SEEDS, ROUNDS + 1)),
        )

    slow = {
        "paota": reaching(30, 8),
        "paota-update": reaching(30, 8),
        "local-sgd": reaching(20, 15),
        "cotaf": reaching(20, 15),
    }
    made = evidence(
        paota=slow["paota"], update=slow["paota-update"], local=slow["local-sgd"], cotaf=slow["cotaf"], six=slow
    )
    verdict = verdict_of("time-saved", made)
    assert verdict.estimate.value == pytest.approx(0.2)
    assert verdict.status == FAILED
    shorter = {**slow, "paota": reaching(30, 6)}  # 180 s: 40 %
    verdict = verdict_of(
        "time-saved",
        evidence(
            **{k.replace("local-sgd", "local").replace("paota-update", "update"): v for k, v in slow.items()},
            six=shorter,
        ),
    )
    assert (verdict.status, verdict.change) == (CHANGED, "dT = 6 s")
    assert verdict.changed_estimate.value == pytest.approx(0.4)


def test_a_target_that_is_never_reached_is_not_a_saving():
    never = curves(ends=0.6)
    made = evidence(
        paota=never, update=never, six={"paota": never, "paota-update": never, "local-sgd": curves(), "cotaf": curves()}
    )
    verdict = verdict_of("time-saved", made)
    assert verdict.status == FAILED
    assert verdict.estimate.value == -math.inf
    assert verdict_of("rounds-for-time", made).status == FAILED


def test_fewer_rounds_than_local_sgd_is_not_what_the_paper_says():
    quick = curves(ends=0.88, half_life=4, round_s=8)
    made = evidence(paota=quick, update=quick, six={**evidence().six, "paota": quick, "paota-update": quick})
    assert verdict_of("rounds-for-time", made).status == FAILED


def test_robustness_is_a_difference_of_losses():
    same = evidence().quiet
    nobody_hurt = evidence(loud=same)
    assert verdict_of("robust", nobody_hurt).status == FAILED
    hardly = evidence(
        loud={**same, "cotaf": curves(ends=0.835, half_life=14, round_s=15)}
    )  # surely worse, by half a point
    assert verdict_of("robust", hardly).estimate.low > 0
    assert verdict_of("robust", hardly).status == FAILED
    louder = evidence(loud=same, noise={"paota-paper": noise_curve(-30), "cotaf": noise_curve(-70)})
    verdict = verdict_of("robust", louder)
    assert (verdict.status, verdict.change) == (CHANGED, "noise far louder than -74 dBm/Hz, PAOTA not held to its 15 W")
    assert verdict.changed_estimate.value > 20
    reverse = evidence(loud=same, noise={"paota-paper": noise_curve(-70), "cotaf": noise_curve(-30)})
    assert verdict_of("robust", reverse).status == FAILED


def test_every_verdict_gives_a_reason_and_its_rule():
    for verdict in judge_all(evidence()):
        assert verdict.reason.endswith(".")
        assert any(digit in verdict.reason for digit in "0123456789")
        assert verdict.claim.rule
        assert verdict.estimate.low <= verdict.estimate.value <= verdict.estimate.high
