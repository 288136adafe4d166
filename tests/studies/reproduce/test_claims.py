"""The rules that make verdicts, on made-up data that flips each of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.studies.reproduce import archive
from paota.studies.reproduce.claims import claims
from paota.studies.reproduce.comparisons import time_saved
from paota.studies.reproduce.evidence import Curves, Evidence, NoiseCurve, Radiated
from paota.studies.reproduce.verdicts import CHANGED, FAILED, FAILS, HOLDS, REPRODUCED, UNDECIDED, judge_all

SEEDS, ROUNDS = 10, 60
WITHIN, BEYOND = Radiated(median_w=7.2, over_budget=0.0), Radiated(median_w=12164.0, over_budget=1.0)


def curves(*, ends=0.85, half_life=8.0, falls=8.0, round_s=8.0, objective_end=0.5, wobble=0.0, radiated=None):
    """Accuracy rises towards `ends`, F falls towards `objective_end`; seeds differ a little, in a known way."""
    r = np.arange(ROUNDS + 1)
    shift = np.linspace(-1, 1, SEEDS)[:, None] * (0.002 + wobble)
    own = np.sin(np.arange(1, SEEDS + 1) * (ends + half_life))[:, None] * 0.001  # what a method adds to a seed
    return Curves(
        accuracy=np.clip(0.1 + (ends - 0.1) * (1 - 0.5 ** (r / half_life)) + shift + own, 0, 1),
        time_s=np.broadcast_to(r * round_s, (SEEDS, ROUNDS + 1)).astype(float),
        objective=objective_end + (2.3 - objective_end) * 0.5 ** (r / falls) + shift + own,
        radiated=radiated,
    )


def noise_curve(breaks_dbm, radiated=WITHIN):
    levels = (-300.0, -174.0, -100.0, -80.0, -74.0, -60.0, -40.0, -20.0, 0.0)
    accuracy = [[0.8 if level < breaks_dbm + 0.1 * seed else 0.1 for seed in range(SEEDS)] for level in levels]
    return NoiseCurve(title="made up", levels_dbm=levels, accuracy=np.array(accuracy), radiated=radiated)


def evidence(*, paota=None, update=None, local=None, cotaf=None, loud=None, six=None, noise=None):
    """The paper as it would like to be: every claim holds. Each argument spoils one thing."""
    quiet = {
        "paota": paota or curves(ends=0.88, half_life=10, round_s=8, objective_end=0.48),
        "paota-update": update or curves(ends=0.89, half_life=9, round_s=8, objective_end=0.47),
        "local-sgd": local or curves(ends=0.86, half_life=8, round_s=15, objective_end=0.50),
        "cotaf": cotaf or curves(ends=0.84, half_life=14, round_s=15, objective_end=0.51),
    }
    hurt = curves(ends=0.70, half_life=14, round_s=15, objective_end=0.9, radiated=WITHIN)
    return Evidence(
        quiet=quiet,
        loud=loud or {**quiet, "paota": replace(quiet["paota"], radiated=WITHIN), "cotaf": hurt},
        six=six or quiet,
        optimum=np.full(SEEDS, 0.1),
        noise=noise or {},
    )


def verdict_of(name, made):
    """Return the verdict on one claim, without the others."""
    (verdict,) = judge_all(made, [claim for claim in claims() if claim.id == name])
    return verdict


def outcomes(verdict):
    return [tried.outcome for tried in verdict.tried]


def test_the_paper_as_it_would_like_to_be():
    assert {v.claim.id: v.status for v in judge_all(evidence(), claims())} == dict.fromkeys(
        ["close", "smaller-gap", "similar", "ordering", "rounds-for-time", "time-saved", "robust"], REPRODUCED
    )


def test_close_is_about_local_sgd_whatever_cotaf_does():
    """Before, COTAF at a distance of 0 from Local SGD made the claim impossible."""
    local = curves(ends=0.86, half_life=8, round_s=15)
    assert verdict_of("close", evidence(local=local, cotaf=local)).status == REPRODUCED
    far = evidence(paota=curves(falls=14))
    assert (verdict_of("close", far).status, verdict_of("close", far).changed.change) == (CHANGED, "payload = update")
    assert verdict_of("close", evidence(paota=curves(falls=14), update=curves(falls=14))).status == FAILED
    assert verdict_of("ordering", evidence(local=local, cotaf=local)).status == UNDECIDED  # no step, up or down


def test_a_smaller_gap_only_with_updates():
    made = evidence(paota=curves(objective_end=0.7))
    verdict = verdict_of("smaller-gap", made)
    assert (verdict.status, verdict.changed.change) == (CHANGED, "payload = update")
    assert verdict.estimate.value == pytest.approx(-0.2, abs=0.02)
    assert verdict.changed.estimate.low > 0
    both = evidence(paota=curves(objective_end=0.7), update=curves(objective_end=0.7))
    assert verdict_of("smaller-gap", both).status == FAILED


def test_similar_needs_an_equivalence_that_is_shown():
    assert verdict_of("similar", evidence()).status == REPRODUCED
    far = evidence(paota=curves(objective_end=0.8), update=curves(objective_end=0.8))
    assert verdict_of("similar", far).status == FAILED
    unsure = evidence(paota=curves(wobble=0.3), update=curves(wobble=0.3))
    assert verdict_of("similar", unsure).status == UNDECIDED  # right on average, but who knows


def test_the_relative_gap_stays_sane_where_the_rival_is_the_lowest_ever_seen():
    """Before, the yardstick was COTAF's last gap: 0 here, so 0.02 of F were infinitely many percent."""
    made = evidence()
    lowest = replace(made, optimum=made.quiet["cotaf"].final_objective().low)
    estimate = verdict_of("similar", lowest).estimate
    assert abs(estimate.value) < 0.1
    assert -0.2 < estimate.low < estimate.high < 0.2


@pytest.mark.parametrize(("round_s", "status"), [(8.0, REPRODUCED), (16.0, FAILED)])
def test_time_saved_follows_the_length_of_a_round(round_s, status):
    fast = curves(ends=0.88, half_life=8, round_s=round_s)
    rivals = {"local-sgd": curves(round_s=15), "cotaf": curves(round_s=15)}
    made = evidence(paota=fast, update=fast, six={"paota": fast, "paota-update": fast, **rivals})
    assert verdict_of("time-saved", made).status == status


def reaching(round_number, round_s):
    """80 % at this round, give or take one."""
    spread = np.array([-1, 1, 0, 0, 0, 0, 1, -1, 0, 0])[:, None]
    return Curves(
        accuracy=np.where(np.arange(ROUNDS + 1) >= round_number + spread, 0.81, 0.5),
        time_s=np.tile(np.arange(ROUNDS + 1) * float(round_s), (SEEDS, 1)),
        objective=np.ones((SEEDS, ROUNDS + 1)),
    )


def test_time_saved_by_hand():
    """30 rounds of 9 s against 20 of 15 s: 1 - 270/300 = 10 %, surely short of 20 %; 30 of 6 s: 40 %."""
    slow, rival = reaching(30, 9), reaching(20, 15)
    quiet = {"paota": slow, "update": slow, "local": rival, "cotaf": rival}
    six = {"paota": slow, "paota-update": slow, "local-sgd": rival, "cotaf": rival}
    verdict = verdict_of("time-saved", evidence(**quiet, six=six))
    assert verdict.estimate.value == pytest.approx(0.1, abs=0.005)
    assert (verdict.status, outcomes(verdict)) == (FAILED, [FAILS] * 3)
    verdict = verdict_of("time-saved", evidence(**quiet, six={**six, "paota": reaching(30, 6)}))
    assert (verdict.status, verdict.changed.change) == (CHANGED, "dT = 6 s")
    assert verdict.changed.estimate.value == pytest.approx(0.4, abs=0.01)


def test_a_target_that_is_never_reached_is_not_a_saving():
    never = curves(ends=0.6)
    six = {"paota": never, "paota-update": never, "local-sgd": curves(), "cotaf": curves()}
    made = evidence(paota=never, update=never, local=curves(), six=six)
    verdict = verdict_of("time-saved", made)
    assert verdict.status == FAILED  # until the end it was slower already
    assert verdict.estimate.value == -math.inf
    assert verdict_of("rounds-for-time", made).status == FAILED
    nobody = evidence(paota=never, update=never, local=never, six=dict.fromkeys(six, never))
    assert verdict_of("time-saved", nobody).status == UNDECIDED  # before: NaN, and so surely positive


def test_a_seed_that_never_arrives_needs_at_least_until_its_own_end():
    """Before, until the end of the longest run: a rival's short run made a saving out of nothing."""
    mine, rival = reaching(30, 9), reaching(20, 15)
    time_s = rival.time_s.copy()
    time_s[0] /= 3
    rival = replace(rival, accuracy=np.where(np.arange(SEEDS)[:, None] == 0, 0.5, rival.accuracy), time_s=time_s)
    low, high = time_saved({"paota": mine, "local-sgd": rival}, "paota").values
    assert (np.exp(low[0]), high[0]) == (pytest.approx(ROUNDS * 5.0 / (29 * 9.0)), math.inf)
    gone = replace(rival, diverged=np.arange(SEEDS) == 0)  # it does not arrive after its end either
    assert gone.seen_until_s()[0] == ROUNDS * 15.0
    assert (gone.seen_until_round() == ROUNDS).all()


def test_what_no_search_has_proven_refutes_nothing():
    """F(w*) is the best that was found. PAOTA is 0.13 above COTAF, whose mean gap is 0.9 with it and 1.6 with F(w*) = 0."""
    cotaf = curves(objective_end=0.9, falls=20, round_s=15)
    above = replace(cotaf, objective=cotaf.objective + 0.13)
    made = replace(evidence(paota=above, update=above, cotaf=cotaf), optimum=np.full(SEEDS, 0.7))
    verdict = verdict_of("similar", made)
    assert verdict.estimate.value > 0.11
    assert verdict.estimate.low < 0.1
    assert verdict.status == UNDECIDED
    assert verdict_of("similar", replace(made, optimum=np.full(SEEDS, 1e-3))).status == REPRODUCED


def test_a_rival_of_nan_decides_nothing():
    lost = replace(curves(), objective=np.full((SEEDS, ROUNDS + 1), np.nan))
    made = evidence(local=lost)
    for name in ("close", "smaller-gap"):
        assert verdict_of(name, made).status == UNDECIDED, name


def test_a_run_that_diverged_is_no_better_than_its_first_model():
    gone = curves()
    objective = gone.objective.copy()
    objective[:, 3:] = np.nan
    gone = replace(gone, objective=objective, diverged=np.ones(SEEDS, bool))
    made = evidence(paota=gone, update=gone)
    assert verdict_of("smaller-gap", made).status == FAILED
    assert verdict_of("close", made).status == FAILED


def test_fewer_rounds_than_local_sgd_is_not_what_the_paper_says():
    quick = curves(ends=0.88, half_life=4, round_s=8)
    made = evidence(paota=quick, update=quick, six={**evidence().six, "paota": quick, "paota-update": quick})
    assert verdict_of("rounds-for-time", made).status == FAILED


def test_robustness_is_a_visible_difference_of_losses():
    same = evidence().quiet
    assert verdict_of("robust", evidence(loud=same)).status == FAILED
    hardly = evidence(loud={**same, "cotaf": curves(ends=0.835, half_life=14, round_s=15)})  # by half a point
    assert verdict_of("robust", hardly).estimate.low > 0
    assert verdict_of("robust", hardly).status == FAILED


def test_robustness_is_decided_within_the_same_power_budget():
    """Before, the first trial that held decided: PAOTA with 12 kW against COTAF with 7 W."""
    same = evidence().quiet
    unequal = {"paota-paper": noise_curve(-30, BEYOND), "cotaf": noise_curve(-70)}
    verdict = verdict_of("robust", evidence(loud=same, noise=unequal))
    assert verdict.status == FAILED
    assert outcomes(verdict) == [FAILS, HOLDS]  # it holds, but not on equal terms
    assert not verdict.tried[1].terms.equal
    assert str(verdict.tried[1].terms) == (
        "12,164 W against 7.2 W (+32 dB); unequal: the budget is exceeded in 100% of the transmissions"
    )
    fair = {
        "paota-physical": noise_curve(-70),
        "cotaf-fading": noise_curve(-50),
        "paota-update-physical": noise_curve(-30),
    }
    verdict = verdict_of("robust", evidence(loud=same, noise={**unequal, **fair}))
    assert verdict.status == CHANGED
    assert verdict.changed.change.startswith("payload = update")
    assert verdict.changed.terms.equal
    assert "both within the budget" in str(verdict.changed.terms)
    as_printed = {**evidence().loud, "paota": replace(same["paota"], radiated=BEYOND)}
    assert verdict_of("robust", evidence(loud=as_printed)).status == UNDECIDED  # COTAF is hurt, but by a louder rival


def test_all_trials_of_all_claims_are_corrected_together():
    made = evidence()
    alone, together = verdict_of("time-saved", made), judge_all(made, claims())
    among = next(v for v in together if v.claim.id == "time-saved")
    for one, many in zip(alone.tried, among.tried, strict=True):
        assert many.p_holds >= one.p_holds
    every = [p for v in together for tried in v.tried for p in (tried.p_holds, tried.p_fails)]
    assert len(every) == 2 * sum(len(v.tried) for v in together) == 2 * 17
    assert {v.status for v in judge_all(first_seeds(made, 4), claims())} == {UNDECIDED}  # few seeds decide nothing


def first_seeds(made, n):
    def cut(setting):
        return {
            name: replace(c, accuracy=c.accuracy[:n], time_s=c.time_s[:n], objective=c.objective[:n])
            for name, c in setting.items()
        }

    quiet, loud, six = (cut(setting) for setting in (made.quiet, made.loud, made.six))
    return replace(made, quiet=quiet, loud=loud, six=six, optimum=made.optimum[:n])


def test_every_verdict_gives_a_reason_and_its_rule():
    for verdict in judge_all(evidence(), claims()):
        assert verdict.reason.endswith(".")
        assert any(digit in verdict.reason for digit in "0123456789")
        assert verdict.claim.rule
        assert verdict.estimate.low <= verdict.estimate.value <= verdict.estimate.high


def arrivals(rng, worlds, seeds, saved):
    """Seconds to 80 % of both methods, [worlds, seeds] each: as in the runs, single seeds differ by some 10 %."""
    common = rng.normal(0, 0.08, (worlds, seeds))
    local, mine = (np.exp(common + rng.normal(0, 0.1, (worlds, seeds))) for _ in range(2))
    return 350.0 * (1 - saved) * mine, 350.0 * local


def status_of_arrivals(mine_s, local_s):
    def arrives(at_s):
        levels = np.broadcast_to([0.1, 0.81], (len(at_s), 2))
        return Curves(accuracy=levels, time_s=np.stack([np.zeros(len(at_s)), at_s], axis=1), objective=levels)

    setting = {"paota": arrives(mine_s), "paota-update": arrives(mine_s), "local-sgd": arrives(local_s)}
    made = Evidence(quiet=setting, loud=setting, six=setting, optimum=np.zeros(len(mine_s)))
    return verdict_of("time-saved", made).status


@pytest.mark.slow
@pytest.mark.parametrize(("saved", "holds"), [(0.11, False), (0.20, False), (0.25, True), (0.40, True)])
def test_more_seeds_never_turn_reproduced_into_not(saved, holds):
    """400 worlds for each true saving, seeds added one by one. Before: at 11 %, *reproduced* in .17 of the worlds with
    3 seeds and .02 with 20."""
    worlds, counts = 400, (3, 5, 10, 15, 20, 30)
    mine, local = arrivals(np.random.default_rng(7), worlds, max(counts), saved)
    status = np.array([[status_of_arrivals(m[:n], o[:n]) for n in counts] for m, o in zip(mine, local, strict=True)])
    reproduced, refuted = (status == REPRODUCED), (status == FAILED)
    turned = (reproduced & (np.cumsum(refuted[:, ::-1], axis=1)[:, ::-1] > 0)).any(axis=1)
    assert turned.mean() <= 0.005
    wrong = refuted if holds else reproduced
    assert wrong.mean(axis=0).max() <= 0.06
    if saved != 0.20:  # on the border nothing is ever decided
        right = (reproduced if holds else refuted).mean(axis=0)
        assert (np.diff(right) > -0.03).all()  # more seeds, more decisions
        assert right[-1] > (0.4 if saved == 0.25 else 0.9)


def test_evidence_that_was_kept_gives_the_same_verdicts(tmp_path):
    """One file judges again: nothing need be run for a rule to be questioned."""
    noise = {"paota-physical": noise_curve(-70), "cotaf-fading": noise_curve(-50, None)}
    made = evidence(loud=evidence().quiet, noise=noise)
    archive.write(tmp_path / archive.FILE, made)
    kept = archive.read(tmp_path / archive.FILE)
    assert kept.noise["paota-physical"].levels_dbm == noise["paota-physical"].levels_dbm
    assert [(v.status, v.tried, v.reason) for v in judge_all(kept, claims())][:6] == [
        (v.status, v.tried, v.reason) for v in judge_all(made, claims())
    ][:6]
    assert {v.status for v in judge_all(kept, claims())} >= {REPRODUCED, FAILED}
    np.savez(tmp_path / "other.npz", optimum=np.zeros(2))
    with pytest.raises(UserError, match="not the evidence of a reproduction"):
        archive.read(tmp_path / "other.npz")
