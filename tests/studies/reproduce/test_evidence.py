"""The noise level at which a curve breaks, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paota.studies.reproduce.evidence import Evidence, NoiseCurve, break_point
from paota.studies.reproduce.tables import break_rows


@pytest.mark.parametrize(
    ("accuracy", "where"),
    [
        ([0.8, 0.8, 0.8, 0.8], math.inf),
        ([0.8, 0.8, 0.7, 0.1], -50.0),  # down by 0.05 half way from 0.8 to 0.7
        ([0.8, 0.8, 0.8, 0.0], -40 + 40 * 0.05 / 0.8),
        ([0.8, 0.1, 0.1, 0.1], -math.inf),
        ([0.8, 0.8, np.nan, np.nan], -60 + 20 * 0.05 / 0.8),  # a run that diverged has lost everything
    ],
)
def test_break_point(accuracy, where):
    levels = (-300.0, -60.0, -40.0, 0.0)
    assert break_point(levels, np.array(accuracy), 0.05) == pytest.approx(where)


def test_where_a_method_breaks_is_the_median_of_its_seeds():
    """The median curve breaks at -45.7, below the lower quartile of the seeds."""
    seeds = [[0.88, 0.88, 0.81, 0.78], [0.80, 0.80, 0.75, 0.71], [0.89, 0.89, 0.84, 0.76]]
    curve = NoiseCurve(title="made up", levels_dbm=(-300.0, -60.0, -40.0, -20.0), accuracy=np.array(seeds).T)
    made = Evidence(quiet={}, loud={}, six={}, optimum=np.zeros(3), noise={"x": curve})
    (row,) = break_rows(made)
    assert row["breaks_at_dbm_per_hz"] == pytest.approx(-40)
    assert row["q25"] <= row["breaks_at_dbm_per_hz"] <= row["q75"]
