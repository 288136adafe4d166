"""The measures, by hand: never has a place in the order, and every module says the same number."""

import math

import numpy as np
import pytest

from paota.experiment.experiment import Experiment
from paota.results import measures
from paota.results.measures import Spread, first_reach, median, newest, quantile, quartiles
from paota.results.result import Result, Trajectory
from paota.studies.reproduce.evidence import Curves
from paota.studies.sweep.metrics import parse_metric

NEVER = math.inf


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([100], (100, 100, 100)),
        ([NEVER], (NEVER, NEVER, NEVER)),
        ([100, 200], (125, 150, 175)),
        ([100, NEVER], (NEVER, NEVER, NEVER)),  # half of the seeds never reach it
        ([100, 200, NEVER], (150, 200, NEVER)),
        ([100, 200, 300, NEVER], (175, 250, NEVER)),
        ([100, 200, NEVER, NEVER], (175, NEVER, NEVER)),
        ([1, 2, 3, NEVER, NEVER], (2, 3, NEVER)),
        ([-NEVER, 10, 20], (-NEVER, 10, 15)),  # broken at once, for break points
        ([-NEVER, NEVER], (NEVER, NEVER, NEVER)),
    ],
)
def test_quartiles_with_never(values, expected):
    assert quartiles(values) == expected
    assert quartiles(values[::-1]) == expected  # the order of the seeds does not matter


def test_median_is_never_exactly_if_at_least_half_are_and_quantiles_keep_their_order():
    for n in range(1, 9):
        for missing in range(n + 1):
            values = [*range(n - missing), *[NEVER] * missing]
            assert (median(values) == NEVER) == (2 * missing >= n)
            shares = [quantile(values, share) for share in np.linspace(0, 1, 21)]
            assert shares == sorted(shares)


def test_what_is_unknown_stays_unknown():
    assert math.isnan(median([1.0, math.nan]))


def run_of(accuracy, seed=0, diverged=None):
    rounds = np.arange(len(accuracy))
    metrics = {"round": rounds, "time_s": 100.0 * rounds, "ready": rounds, "test_accuracy": np.array(accuracy, float)}
    metrics |= {"test_loss": 1 - metrics["test_accuracy"], "train_loss": 1 - metrics["test_accuracy"]}
    return Trajectory(
        label="a", algorithm="paota", seed=seed, metrics=metrics, devices={}, model=np.zeros(1),
        diverged_round=diverged, compute_s=1.0,
    )  # fmt: skip


def told(runs, target=0.8):
    """Median seconds to the target and final accuracies, as each part of the project says them."""
    result = Result(experiment=Experiment.from_dict({"targets": [target]}), trajectories=runs)
    row = result.summary["algorithms"]["a"]
    curves = Curves(
        accuracy=result.array("a", "test_accuracy"), time_s=result.array("a", "time_s"),
        diverged=np.array([run.diverged_round is not None for run in runs]),
    )  # fmt: skip
    final = {
        "summary": row["final_accuracy"]["values"],
        "sweep": list(parse_metric("final_accuracy").over(runs).values),
        "reproduction": curves.final_accuracy().tolist(),
    }
    seconds = {
        "summary": row["seconds_to"][f"{target:g}"]["median"],
        "time_to": result.time_to(target, "a"),
        "sweep": parse_metric(f"seconds_to:{target:g}").over(runs).median,
        "reproduction": median(curves.seconds_to(target)),
    }
    return seconds, final


LATE = {100: [0.1, 0.9], 200: [0.1, 0.2, 0.9], 300: [0.1, 0.2, 0.3, 0.9], NEVER: [0.1, 0.2, 0.3, 0.4]}


@pytest.mark.parametrize(("seconds", "middle"), [([100, NEVER], NEVER), ([100, 200, 300, NEVER], 250), ([300], 300)])
def test_everybody_means_the_same_median(seconds, middle):
    said, _ = told([run_of(LATE[s], seed) for seed, s in enumerate(seconds)])
    assert said == dict.fromkeys(said, middle)


def test_everybody_means_the_same_final_accuracy():
    """The last look, not a mean of the last few; row 5 was not looked at."""
    _, said = told([run_of([0.1, 0.5, 0.6, 0.7, 0.9, math.nan]), run_of([0.1, 0.9, 0.3], 1)])
    assert said == {who: [0.9, 0.3] for who in said}


def test_a_diverged_seed_has_nothing_to_show_anywhere():
    seconds, final = told([run_of([0.1, 0.9, math.nan], diverged=2)])
    assert seconds == dict.fromkeys(seconds, NEVER)
    assert final == {who: [0.0] for who in final}
    lost = run_of([0.1, 0.9, 0.1], diverged=2)
    assert measures.accuracy_at(lost, 100.0) == 0.9  # at that time it was still sound
    assert measures.accuracy_at(lost, 200.0) == 0.0
    assert measures.final_loss(lost) == NEVER


def test_first_reach_and_newest_over_seeds():
    accuracy = np.array([[0.1, 0.6, np.nan, 0.9], [0.1, 0.2, 0.3, np.nan]])
    time_s = np.array([[0.0, 8.0, 16.0, 24.0], [0.0, 8.0, 16.0, np.nan]])
    assert first_reach(accuracy, time_s, 0.6).tolist() == [8.0, NEVER]
    assert newest(accuracy, time_s, 20.0).tolist() == [0.6, 0.3]
    assert newest(accuracy).tolist() == [0.9, 0.3]
    assert newest(accuracy, time_s, 20.0, diverged=[True, True], lost=0.0).tolist() == [0.6, 0.0]  # one had not ended
    assert math.isnan(newest([math.nan]))


def test_spread_counts_who_got_there():
    assert Spread((10.0, NEVER, NEVER)).reached == 1
    assert (Spread((10.0, 20.0)).low, Spread((10.0, 20.0)).high) == (12.5, 17.5)
