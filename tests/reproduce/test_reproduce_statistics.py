"""Intervals, quartiles that know "never", and where a curve breaks: all by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paota.reproduce.statistics import (
    Estimate,
    bootstrap,
    break_point,
    first_reach,
    last_known,
    median,
    quartiles,
    value_at,
)


def test_bootstrap_of_a_constant_has_no_width_and_pairs_stay_together():
    a = np.arange(10.0)
    made = bootstrap([a + 0.5, a], lambda x, y: float(np.mean(x) - np.mean(y)))
    assert (made.value, made.low, made.high) == pytest.approx((0.5, 0.5, 0.5))  # unpaired draws would spread
    again = bootstrap([a], lambda x: float(np.mean(x)))
    assert again == bootstrap([a], lambda x: float(np.mean(x)))
    # The mean of 10 draws from 0..9 has standard deviation sqrt(8.25/10) = 0.908.
    assert again.high - again.low == pytest.approx(2 * 1.96 * 0.908, rel=0.1)


def test_never_is_not_averaged():
    assert median(np.array([1.0, math.inf])) == math.inf
    assert median(np.array([1.0, 3.0, math.inf, math.inf, 2.0])) == 3.0
    assert quartiles(np.array([1.0, 2.0, 3.0, math.inf, math.inf])) == (2.0, 3.0, math.inf)
    assert quartiles(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == (2.0, 3.0, 4.0)


def test_first_reach_and_values_at():
    accuracy = np.array([[0.1, 0.6, np.nan, 0.9], [0.1, 0.2, 0.3, 0.4]])
    time_s = np.array([[0.0, 8.0, 16.0, 24.0]] * 2)
    assert list(first_reach(accuracy, time_s, 0.6)) == [8.0, math.inf]
    assert list(value_at(accuracy, time_s, 20.0)) == [0.6, 0.3]
    assert list(last_known(accuracy, 2)) == pytest.approx([0.75, 0.35])
    assert math.isnan(last_known(np.array([[np.nan]]))[0])


@pytest.mark.parametrize(
    ("accuracy", "where"),
    [
        ([0.8, 0.8, 0.8, 0.8], math.inf),
        ([0.8, 0.8, 0.7, 0.1], -50.0),  # down by 0.05 half way from 0.8 to 0.7
        ([0.8, 0.8, 0.8, 0.0], -30 * 0.9375),  # -40 + (0 + 40) * 0.05/0.8 = -37.5 with these levels
        ([0.8, 0.1, 0.1, 0.1], -math.inf),
        ([0.8, 0.8, np.nan, np.nan], -60 + 20 * 0.05 / 0.8),  # a run that diverged has lost everything
    ],
)
def test_break_point(accuracy, where):
    levels = (-300.0, -60.0, -40.0, 0.0)
    where = -37.5 if where == -30 * 0.9375 else where
    assert break_point(levels, np.array(accuracy), 0.05) == pytest.approx(where)


def test_estimates_read_as_people_write_them():
    assert str(Estimate(value=0.254, low=-0.1, high=0.3, unit="%")) == "25.4 [-10.0, 30.0] %"
    assert str(Estimate(value=math.inf, low=1.0, high=math.inf, unit="s")) == "never [1, never] s"
