"""Curves over the seeds, with answers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paota.pages.curves import (
    Curve,
    against_round,
    against_time,
    against_total,
    row_quantile,
    shape_keeping,
    thinned,
)


def rows(**columns: list[float]) -> dict[str, np.ndarray]:
    return {name: np.array(values) for name, values in columns.items()}


def test_median_and_quartiles_over_three_seeds() -> None:
    table = rows(seed=[0, 0, 1, 1, 2, 2], round=[0, 1, 0, 1, 0, 1], value=[0.0, 1.0, 2.0, 3.0, 4.0, 11.0])
    curve = against_round(table, "value", 100)
    assert curve is not None
    np.testing.assert_allclose(curve.x, [0, 1])
    np.testing.assert_allclose(curve.middle, [2, 3])
    # Quartiles of 0, 2, 4 and of 1, 3, 11, straight between neighbours.
    np.testing.assert_allclose(curve.low, [1, 2])
    np.testing.assert_allclose(curve.high, [3, 7])


@given(st.lists(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=4, max_size=4), min_size=1, max_size=20))
def test_quantiles_agree_with_numpy(table: list[list[float | None]]) -> None:
    matrix = np.array([[0.0, *row] for row in table], dtype=float)  # None becomes NaN
    for share in (0.25, 0.5, 0.75):
        np.testing.assert_allclose(row_quantile(matrix, share), np.nanquantile(matrix, share, axis=1), atol=1e-9)


def test_rounds_without_a_value_are_left_out_and_one_seed_has_no_band() -> None:
    table = rows(seed=[0, 0, 0, 0], round=[0, 1, 2, 3], value=[0.1, np.nan, 0.3, np.inf])
    curve = against_round(table, "value", 100)
    assert curve is not None
    assert curve.x.tolist() == [0, 2]
    assert curve.low is None
    assert curve.high is None


def test_a_column_that_is_missing_or_never_finite_gives_no_curve() -> None:
    table = rows(seed=[0], round=[0], value=[np.nan], time_s=[0.0])
    for name in ("value", "absent"):
        assert against_round(table, name, 100) is None
        assert against_time(table, name, 100) is None


def test_seconds_are_the_rounds_own_times_when_all_seeds_share_them() -> None:
    table = rows(seed=[0, 0, 1, 1], round=[0, 1, 0, 1], time_s=[0.0, 8.0, 0.0, 8.0], value=[0.0, 1.0, 0.0, 3.0])
    curve = against_time(table, "value", 100)
    assert curve is not None
    np.testing.assert_allclose(curve.x, [0, 8])
    np.testing.assert_allclose(curve.middle, [0, 2])


def test_seconds_are_read_off_a_common_grid_when_the_seeds_differ() -> None:
    # One seed rises to 1 in 20 s, the other in 10 s and stays there until 21 s: both are known up to 20 s.
    table = rows(
        seed=[0, 0, 1, 1, 1], round=[0, 1, 0, 1, 2], time_s=[0.0, 20.0, 0.0, 10.0, 21.0], value=[0, 1, 0, 1, 1]
    )
    curve = against_time(table, "value", 5)
    assert curve is not None
    np.testing.assert_allclose(curve.x, [0, 5, 10, 15, 20])
    np.testing.assert_allclose(curve.middle, [0, (0.25 + 0.5) / 2, (0.5 + 1) / 2, (0.75 + 1) / 2, 1])


def test_a_seed_that_stopped_early_does_not_cut_the_others_off() -> None:
    table = rows(
        seed=[0, 0, 1, 1, 2, 2],
        round=[0, 1, 0, 1, 0, 1],
        time_s=[0.0, 20.0, 0.0, 21.0, 0.0, 2.0],
        value=[0, 1, 0, 1, 0, 5],
    )
    curve = against_time(table, "value", 11)
    assert curve is not None
    assert curve.x[-1] == 20.0
    assert curve.middle[-1] == pytest.approx((1 + 20 / 21) / 2)


@pytest.mark.parametrize("shared", [True, False])
def test_seeds_that_stopped_at_a_target_cut_the_curve_where_the_first_did(shared: bool) -> None:
    """The median of those that are left would fall: they are the slow ones."""
    ends = {0: 20, 1: 21, 2: 23, 3: 2}  # the last one much sooner: it does not cut
    seed, round = (np.concatenate(parts) for parts in zip(
        *((np.full(end + 1, s), np.arange(end + 1)) for s, end in ends.items()), strict=True))  # fmt: skip
    value = round / 20 - 0.2 * (seed == 2)
    time_s = 8.0 * round if shared else (8.0 + 0.1 * seed) * round
    table = {"seed": seed, "round": round, "value": value, "time_s": time_s}
    curve = against_round(table, "value", 100)
    assert curve is not None
    assert curve.x[-1] == 20
    assert (np.diff(curve.middle[3:]) > 0).all()
    timed = against_time(table, "value", 100)
    assert timed is not None
    assert timed.x[-1] == (160 if shared else pytest.approx(160))


def test_spending_is_summed_over_the_rounds() -> None:
    table = rows(seed=[0, 0, 0], round=[0, 1, 2], energy_j=[np.nan, 3.0, 4.0], value=[0.1, 0.2, 0.3])
    curve = against_total(table, "energy_j", "value", 100)
    assert curve is not None
    np.testing.assert_allclose(curve.x, [0, 3, 7])
    assert against_total(table, "airtime_s", "value", 100) is None


def test_thinning_keeps_the_ends_a_spike_and_an_alternation() -> None:
    x = np.arange(10_000.0)
    spike = np.zeros(10_000)
    spike[6543] = 1.0
    kept = shape_keeping(x, spike, 50)
    assert kept[0] == 0
    assert kept[-1] == 9_999
    assert 6543 in kept
    alternating = thinned(Curve(x=x, middle=np.where(x % 2 == 0, 30.0, 79.0)), 100)
    # Every n-th round would show one of the two values only.
    assert 0.2 < (alternating.middle == 30.0).mean() < 0.8


@given(st.integers(3, 60), st.integers(3, 400))
def test_thinning_gives_the_number_asked_for_in_order(points: int, length: int) -> None:
    x = np.arange(float(length))
    curve = thinned(Curve(x=x, middle=np.sin(x), low=np.sin(x) - 1, high=np.sin(x) + 1), points)
    assert len(curve) == min(points, length)
    assert (np.diff(curve.x) > 0).all()
    assert curve.low is not None
    np.testing.assert_array_equal(curve.low, np.sin(curve.x) - 1)
