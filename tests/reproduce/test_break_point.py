"""Where a curve breaks, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paota.reproduce.evidence import break_point


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
