"""Metrics and the rule for the best point, on numbers made up by hand."""

import math

import numpy as np
import pytest
from helpers.made_sweeps import sweep_of, trajectory

from paota.base.errors import UserError
from paota.studies.sweep.metrics import parse_metric

RISING = trajectory([0.1, 0.5, math.nan, 0.8, 0.9])  # judged at 0, 8, 24 and 32 s


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("seconds_to:0.8", 24.0),
        ("rounds_to:0.8", 3.0),
        ("joules_to:0.8", 9.0),  # three rounds at 3 J
        ("airtime_to:0.8", 1.5),
        ("updates_to:0.8", 30.0),
        ("seconds", 32.0),
        ("joules", 12.0),
        ("airtime_s", 2.0),
        ("updates", 40.0),
        ("seconds_to:0.95", math.inf),
        ("final_accuracy", 0.9),
        ("accuracy_at:23.9", 0.5),  # round 2 was not judged
        ("accuracy_at:24", 0.8),
        ("accuracy_after:2", 0.5),
        ("final_loss", 0.1),
    ],
)
def test_metrics_of_one_run(metric, value):
    assert parse_metric(metric).of(RISING) == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "worst"), [("seconds_to:0.5", math.inf), ("final_accuracy", 0.0), ("final_loss", math.inf)]
)
def test_a_diverged_run_is_the_worst(metric, worst):
    assert parse_metric(metric).of(trajectory([0.1, 0.9, math.nan], diverged=2)) == worst


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("second_to:0.8", "did you mean 'seconds_to'"),
        ("seconds_to", "needs a number of accuracy, e.g. seconds_to:0.8"),
        ("seconds_to:80", "at most 1, not 80"),
        ("seconds_to:nan", "not nan"),
        ("accuracy_at:soon", "needs a number of seconds"),
        ("accuracy_at:-1", "0 or more"),
        ("accuracy_at:inf", "finite"),
        ("final_accuracy:3", "takes no number"),
        ("", "unknown metric"),
    ],
)
def test_a_bad_metric_is_refused(text, says):
    with pytest.raises(UserError, match=says):
        parse_metric(text)


def plain(sentences):
    """Return the sentences with a plain space before %."""
    return [sentence.replace("\u202f", " ") for sentence in sentences]


def three_points(base, *finals, best="final_accuracy"):
    """One axis of three values; each point has three seeds with these final accuracies."""
    runs = [[trajectory([0.1, final], seed=i) for i, final in enumerate(point)] for point in finals]
    return sweep_of(base, {"timing.period_s": [4, 6, 8]}, runs, best)[0]


def test_best_is_the_best_median(base):
    made = three_points(base, (0.9, 0.2, 0.3), (0.5, 0.6, 0.55), (0.4, 0.5, 0.45))
    assert made.best() == {"timing.period_s": 6}  # the first has the best seed, but a median of 0.3
    assert plain(made.sentences) == [
        "timing.period_s = 6 for paota: 55.0 % at the end (median of 3 seeds, middle half 52.5 % to 57.5 %)."
    ]


def test_equal_medians_are_decided_by_the_worse_quartile_then_by_order(base):
    assert three_points(base, (0.1, 0.5, 0.9), (0.4, 0.5, 0.6), (0.1, 0.5, 0.6)).best() == {"timing.period_s": 6}
    assert three_points(base, (0.4, 0.5, 0.6), (0.4, 0.6, 0.5), (0.6, 0.5, 0.4)).best() == {"timing.period_s": 4}


def test_smaller_is_better_for_times_and_a_point_that_never_gets_there_loses(base):
    slow, fast, never = [0.1, 0.2, 0.8], [0.1, 0.8, 0.8], [0.1, 0.2, 0.3]
    runs = [[trajectory(curve)] for curve in (slow, never, fast)]
    made, _ = sweep_of(base, {"timing.period_s": [4, 6, 8]}, runs, "seconds_to:0.8")
    assert made.best("paota") == {"timing.period_s": 8}
    assert plain(made.sentences) == [
        "timing.period_s = 8 for paota: 80 % after 8 s (one seed). "
        "timing.period_s = 8 is the end of its range: larger values may be better still."
    ]


def test_neighbours_within_the_spread_are_named(base):
    made = three_points(base, (0.5, 0.6, 0.7), (0.5, 0.58, 0.6), (0.1, 0.1, 0.1))
    assert "Within its spread over the seeds: timing.period_s = 6." in made.sentences[0]


def test_no_point_reaches_the_target(base):
    runs = [[trajectory([0.1, 0.3])], [trajectory([0.1, 0.4])], [trajectory([0.1, 0.2])]]
    made, _ = sweep_of(base, {"timing.period_s": [4, 6, 8]}, runs, "seconds_to:0.8")
    assert made.best() == {}
    assert "no point of the grid" in made.sentences[0]
    assert "40.0 %, with timing.period_s = 6" in plain(made.sentences)[0]


def test_a_point_that_diverged_with_all_seeds_is_never_the_best(base):
    runs = [[trajectory([0.1, 0.2])], [trajectory([0.1, 0.9], diverged=1)], [trajectory([0.1, math.nan], diverged=1)]]
    made, _ = sweep_of(base, {"timing.period_s": [4, 6, 8]}, runs, "final_accuracy")
    assert made.best() == {"timing.period_s": 4}
    all_gone, _ = sweep_of(base, {"timing.period_s": [4]}, [[trajectory([0.1, 0.2], diverged=1)]], "final_accuracy")
    assert all_gone.best() == {}
    assert all_gone.sentences == ["every point of the grid diverged for paota."]


def test_the_table_is_tidy(base):
    runs = [[trajectory([0.1, a], label=label) for label, a in (("x", 0.5), ("y", 0.6))] for _ in range(4)]
    made, _ = sweep_of(base, {"timing.period_s": [4, 6], "air.n0_dbm_per_hz": [-174, -74]}, runs, "final_accuracy")
    table = made.table
    assert table["label"].tolist() == ["x", "y"] * 4
    assert table["timing.period_s"].tolist() == [4, 4, 4, 4, 6, 6, 6, 6]  # the last axis moves fastest
    assert table["air.n0_dbm_per_hz"].tolist() == [-174, -174, -74, -74] * 2
    assert table["final_accuracy"].tolist() == [0.5, 0.6] * 4
    assert list(made.to_pandas().columns) == list(table)
    assert len({len(column) for column in table.values()}) == 1
    assert all(isinstance(column, np.ndarray) for column in table.values())


def test_a_sweep_in_a_notebook(base):
    """One line; and as HTML the sentence, and the metric at every point with the best one in bold."""
    runs = [[trajectory([0.1, 0.5, 0.7])], [trajectory([0.1, 0.8, 0.9])]]
    made, _ = sweep_of(base, {"timing.period_s": [6, 8]}, runs, "final_accuracy")
    assert repr(made).endswith("best paota: timing.period_s = 8>")
    assert "\n" not in repr(made)
    shown = made._repr_html_()
    assert made.sentences[0].split(":")[0] in shown
    assert f"<b>{made.best_by.show(0.9)}</b>" in shown
