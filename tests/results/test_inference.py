"""Intervals that cover what they say, and tests whose error does not grow when data shrink."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paota.results.inference import (
    Bounds,
    Estimate,
    Sample,
    Statement,
    holm,
    known,
    mean_interval,
    p_all_hold,
    p_some_fails,
)

WORLDS = 2000


def test_the_interval_of_a_mean_by_hand():
    """1, 2, 3: mean 2, standard error 1/sqrt(3), t of 2 degrees of freedom at 97.5 % is 4.3027."""
    low, high = mean_interval([1.0, 2.0, 3.0])
    assert (low, high) == pytest.approx((2 - 4.3027 / math.sqrt(3), 2 + 4.3027 / math.sqrt(3)), abs=1e-4)


@pytest.mark.parametrize(
    ("draw", "least"), [("normal", 0.94), ("uniform", 0.92), ("skewed", 0.92)], ids=["normal", "uniform", "skewed"]
)
def test_intervals_of_five_seeds_cover_95_percent(draw, least):
    """Measured over 2,000 worlds; percentile intervals of the bootstrap cover .83 here."""
    rng = np.random.default_rng(1)
    worlds = {
        "normal": (rng.normal(0, 1, (WORLDS, 5)), 0.0),
        "uniform": (rng.uniform(-1, 1, (WORLDS, 5)), 0.0),
        "skewed": (np.log(rng.gamma(4, 1, (WORLDS, 5))), 1.25612),  # the mean of log Gamma(4) is digamma(4)
    }
    values, truth = worlds[draw]
    ends = np.array([mean_interval(row) for row in values])
    covered = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    assert least <= covered <= 0.965


def test_the_interval_of_a_ratio_covers_and_agrees_with_the_test():
    rng = np.random.default_rng(2)
    scale = rng.uniform(0.5, 1.5, (WORLDS, 5))
    values = 0.3 * scale + rng.normal(0, 0.2, (WORLDS, 5))
    covered = 0
    for row, yardstick in zip(values, scale, strict=True):
        sample = Sample(values=known(row), yardstick=known(yardstick))
        estimate = sample.estimate()
        inside = estimate.low <= 0.3 <= estimate.high
        covered += inside
        assert inside == (min(sample.p_above(0.3), sample.p_below(0.3)) >= 0.025)
    assert covered / WORLDS == pytest.approx(0.95, abs=0.015)


def test_a_yardstick_that_may_be_zero_bounds_nothing():
    yardstick = known([-1.0, 1.0, -1.0, 1.0, 0.1])
    made = Sample(values=known([1.0, 2.0, 1.0, 2.0, 1.0]), yardstick=yardstick).estimate()
    assert (made.low, made.high) == (-math.inf, math.inf)


@pytest.mark.parametrize("unknown", [math.nan, math.inf, -math.inf])
def test_what_is_unknown_is_never_evidence(unknown):
    """Before, NaN became +inf, and a rival of NaN made a difference surely positive."""
    sample = Sample(values=known([1.0, 1.1, 0.9, 1.0, 1.2]).minus(known([0.0, 0.0, unknown, 0.0, 0.0])))
    assert sample.p_above(0.0) == 1.0
    assert sample.p_below(5.0) == 1.0
    estimate = sample.estimate()
    assert (estimate.low, estimate.high) == (-math.inf, math.inf)
    both = known([math.inf] * 5).minus(known([math.inf] * 5))
    assert np.isnan(both.low).all()
    assert Sample(values=both).p_above(0.0) == 1.0


def test_a_bounded_value_counts_with_the_end_that_opposes_the_claim():
    """The third value is unknown beyond its lower bound 2; the test can still show that the mean is above 1."""
    sample = Sample(values=Bounds(np.array([2.0, 2.1, 2.0, 1.9, 2.2]), np.array([2.0, 2.1, math.inf, 1.9, 2.2])))
    assert sample.p_above(1.0) < 0.001
    assert sample.p_below(3.0) == 1.0
    assert sample.estimate().low > 1.5
    assert sample.estimate().high == math.inf


def test_few_seeds_decide_nothing():
    assert Sample(values=known([1.0, 1.0, 1.0, 1.0])).p_above(0.0) == 1.0
    assert Sample(values=known([0.0, 0.0, 0.0, 0.0, 0.0])).p_above(0.0) == 1.0


def test_seeds_that_agree_by_chance_prove_no_more_than_as_many_heads_in_a_row():
    """Seconds come in whole rounds. Before, equal values had p = 0, whatever the level."""
    assert Sample(values=known(np.ones(5))).p_above(0.0) == 1 / 32
    rng = np.random.default_rng(4)
    whole = rng.choice([-1.0, 1.0], (WORLDS, 5))  # the mean is 0: nothing is above it
    wrong = np.mean([Sample(values=known(row)).p_above(0.0) <= 0.01 for row in whole])
    assert wrong <= 0.01


def test_a_yardstick_that_is_only_bounded_counts_with_the_end_that_speaks_against():
    """0.3 relative to something between 1 and 2: at least 0.15, at most 0.3."""
    values = known(0.3 + 0.01 * np.array([-1.0, 1.0, 0.0, 0.5, -0.5]))
    made = Sample(values=values, yardstick=Bounds(np.ones(5), 2 * np.ones(5)))
    assert made.p_above(0.2) > 0.99 < made.p_below(0.2)
    assert made.p_above(0.1) < 1e-4 > made.p_below(0.4)
    assert made.estimate().value == pytest.approx(0.3)
    assert made.estimate().low < 0.15 < 0.3 < made.estimate().high


@pytest.mark.parametrize("seeds", [3, 5, 10, 20])
def test_the_error_of_every_test_stays_below_its_level_at_any_number_of_seeds(seeds):
    """At the worst place, the border of the hypothesis. The rule before said yes more often the fewer seeds there were."""
    rng = np.random.default_rng(seeds)
    wrong = {"superiority": 0, "equivalence": 0, "failure": 0}
    for row in rng.normal(1.0, 1.0, (WORLDS, seeds)):
        sample = Sample(values=known(row))
        wrong["superiority"] += Statement(sample=sample, above=1.0).p_holds <= 0.05
        wrong["equivalence"] += Statement(sample=sample, above=-1.0, below=1.0).p_holds <= 0.05
        wrong["failure"] += Statement(sample=sample, above=-1.0, below=1.0).p_fails <= 0.05
    assert all(count / WORLDS < 0.066 for count in wrong.values()), wrong


def test_all_must_hold_and_one_failure_is_enough():
    good, bad = (
        Statement(sample=Sample(values=known(np.full(6, mean) + np.linspace(-0.1, 0.1, 6))), above=0.0)
        for mean in (1, -1)
    )
    assert p_all_hold([good, good]) == good.p_holds < 1e-5
    assert p_all_hold([good, bad]) == bad.p_holds > 0.99
    assert p_some_fails([good, bad]) == pytest.approx(2 * bad.p_fails)


def test_holm_by_hand():
    """Sorted .01, .02, .03, .5: 4 x .01, 3 x .02, then 2 x .03 (no less than before), .5."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_estimates_read_as_people_write_them():
    assert str(Estimate(value=0.254, low=-0.1, high=0.3, unit="%")) == "25.4 [-10.0, 30.0] %"
    assert str(Estimate(value=math.nan, low=-math.inf, high=math.inf, unit="s")) == "? [-∞, ∞] s"
