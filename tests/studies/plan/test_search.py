"""Rungs, ranks, constraints and candidates, on numbers made up by hand."""

import math

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.experiment.experiment import Experiment
from paota.results.result import Trajectory
from paota.studies.plan.candidates import Candidate, base_of, candidates_of, entries_of
from paota.studies.plan.plan import prepare
from paota.studies.plan.search import Search, is_over, ranked, rungs, survivors
from paota.studies.sweep.grid import Axis
from paota.studies.sweep.metrics import parse_constraint, parse_metric
from paota.studies.sweep.sweep import timelines_of

BEST = parse_metric("seconds_to:0.8")


def run(accuracy, *, period_s=10.0, joules=1.0, seed=0, diverged=None):
    """Row r is judged `accuracy[r]` at r periods; a round costs `joules`, a tenth of a second on the air, 5 updates."""
    rounds = np.arange(len(accuracy))
    cost = np.where(rounds > 0, 1.0, 0.0)
    metrics = {
        "round": rounds, "time_s": rounds * period_s, "test_accuracy": np.array(accuracy, float),
        "energy_j": joules * cost, "compute_j": 0 * cost, "airtime_s": 0.1 * cost, "ready": 5 * cost,
    }  # fmt: skip
    return Trajectory(
        label="a", algorithm="paota", seed=seed, metrics=metrics, devices={}, model=np.zeros(1), diverged_round=diverged
    )


def candidates(count):
    return [Candidate(i, {}, None) for i in range(count)]


def indices(found):
    return [candidate.index for candidate in found]


def test_rungs_multiply_time_and_seeds():
    steps = rungs((7, 8, 9, 10, 11), 900.0)
    assert [(step.seeds, step.until_s) for step in steps] == [((7, 8), 100), ((7, 8), 300), ((7, 8, 9, 10, 11), 900)]
    assert [len(step.seeds) for step in rungs((3,), 900.0)] == [1, 1, 1]


def test_candidates_at_the_target_come_first_then_the_closest():
    runs = {
        0: [run([0.1, 0.5, 0.7])], 1: [run([0.1, 0.5, 0.9])], 2: [run([0.1, 0.9])], 3: [run([0.1, 0.6, 0.75])],
        4: [run([0.1, 0.7, math.nan], diverged=2)],
    }  # fmt: skip
    assert indices(ranked(candidates(5), runs, BEST, ())) == [2, 1, 3, 0, 4]


def test_what_is_made_small_is_compared_at_equal_spending():
    """After equal time 1 is ahead, but it has spent twice the joules: at 2 J it was at 0.3."""
    runs = {0: [run([0.1, 0.4, 0.5])], 1: [run([0.1, 0.3, 0.6], joules=2.0)]}
    assert indices(ranked(candidates(2), runs, BEST, ())) == [1, 0]
    assert indices(ranked(candidates(2), runs, parse_metric("joules_to:0.8"), ())) == [0, 1]


def test_what_cannot_keep_a_constraint_comes_last():
    runs = {0: [run([0.1, 0.9], joules=9.0)], 1: [run([0.1, 0.5, 0.9])], 2: [run([0.1, 0.2, 0.3], joules=4.0)]}
    where = [parse_constraint("joules_to:0.8 < 5")]
    assert indices(ranked(candidates(3), runs, BEST, where)) == [1, 0, 2]  # 2 has spent 8 J and is not there yet
    assert indices(ranked(candidates(3), runs, BEST, where, final=True)) == [1, 0, 2]
    one = {0: [run([0.1, 0.2])]}
    assert where[0].may_allow(one[0])
    assert not where[0].allows(one[0])


def test_survivors_are_a_third_and_the_champion_of_every_cost():
    runs = {i: [run([0.1, 0.2, 0.7 - 0.05 * i])] for i in range(12)}
    runs[11] = [run([0.1, 0.2, 0.25, 0.3], joules=0.1)]  # slow, but hardly costs anything
    assert indices(survivors(0, candidates(12), runs, BEST, (), grid=12)) == [0, 1, 2, 3, 11]
    assert indices(survivors(1, candidates(5), runs, BEST, (), grid=12)) == [0, 1]


def test_a_run_that_is_over_is_not_repeated():
    assert is_over(run([0.1, 0.8]), 0.8, 100)
    assert is_over(run([0.1, math.nan], diverged=1), 0.8, 100)
    assert is_over(run([0.1] * 11), 0.8, 100)
    assert not is_over(run([0.1, 0.7]), 0.8, 100)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("joules_to:0.8 = 3", "needs METRIC < NUMBER"),
        ("joules_to:0.8 > 3", "needs METRIC < NUMBER"),
        ("joule_to:0.8 < 3", "did you mean 'joules_to'"),
        ("joules_to < 3", "--where joules_to needs a number of accuracy"),
        ("final_accuracy < 3", "limits what is spent"),
        ("airtime_s < -1", "a number above 0"),
        ("airtime_s < nan", "a number above 0"),
        ("airtime_s < many", "a number above 0"),
        ("", "needs METRIC < NUMBER"),
    ],
)
def test_a_bad_constraint_is_refused(text, says):
    with pytest.raises(UserError, match=says):
        parse_constraint(text)


def test_constraints_as_people_type_them():
    assert parse_constraint("joules_to:0.8<2000").text == "joules_to:0.8 < 2000"
    assert parse_constraint(" airtime_s <= 5 ").met(5.0)
    assert not parse_constraint("airtime_s < 5").met(5.0)
    assert not parse_constraint("airtime_s < 5").met(math.inf)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"target": 1.5}, "above 0 and at most 1"),
        ({"best": "final_accuracy"}, "minimises one of seconds_to"),
        ({"best": "seconds_to:0.7", "target": 0.8}, "differ"),
        ({"axes": [Axis("rounds", (1, 2))]}, "a plan cannot vary rounds"),
        ({"where": ["nothing"]}, "needs METRIC < NUMBER"),
    ],
)
def test_what_cannot_be_planned_is_refused(table, more, says):
    with pytest.raises(UserError, match=says):
        prepare(Experiment.from_dict(table), **more)


def test_the_usual_candidates(table):
    """The paper's three algorithms stand for a short list; a file's own are kept."""
    paper = Experiment.from_dict({})
    assert [entry["name"] for entry in entries_of(paper, ())] == ["paota", "paota-plus", "threshold"]
    own = Experiment.from_dict(table)
    assert [entry["name"] for entry in entries_of(own, ())] == ["paota", "local-sgd"]
    with pytest.raises(UserError, match="did you mean 'paota'"):
        entries_of(own, ["paotaa"])
    base = base_of(own, 0.3, 0.3)
    names = [candidate.name for candidate in candidates_of(base, entries_of(own, ["paota", "paota-plus"]), ())]
    assert len(names) == 11
    assert sum(name.startswith("paota, model, dT ") for name in names) == 5
    assert names[-1] == "paota-plus"
    first = [candidate.name for candidate in candidates_of(base, entries_of(own, ["cotaf"]), ())]
    assert [name.partition(",")[2] for name in first[1:]] == [
        f" {n} of 8, server step 1.5, momentum 0.6" for n in (1, 2, 2)
    ]


def test_axes_concern_the_algorithms_that_have_them(table):
    """dT makes no candidates of Local SGD, whose participants are those of the experiment as it was given."""
    own = Experiment.from_dict(table)
    base = base_of(own, 0.3, 0.3)
    axes = [Axis("timing.period_s", (4, 8, 12)), Axis("algorithms.paota.payload", ("model", "update"))]
    found = candidates_of(base, entries_of(own, ()), axes)
    assert [candidate.algorithm for candidate in found] == ["paota"] * 6 + ["local-sgd"]
    assert found[-1].config.algorithm.participants is not None
    assert found[1].name == "paota, update, dT 4 s"
    with pytest.raises(UserError, match="did you mean 'paota'"):
        candidates_of(base, entries_of(own, ()), [Axis("algorithms.paot.payload", ("model",))])


def test_trainings_of_milliseconds_do_not_make_millions_of_events(table, tmp_path, monkeypatch):
    """80 s hold millions of trainings of a small model; without --over a run has a limited number of updates."""
    monkeypatch.setattr("paota.studies.plan.candidates.MOST_UPDATES", 800)
    own = Experiment.from_dict({**table, "timing": {"latency": "work"}})
    search = Search(prepare(own, algorithms=["paota", "paota-plus", "threshold"]), tmp_path, jobs=1)
    assert search.given_s == 80
    assert search.duration_s < 1
    updates = [len(line.device) for c in search.candidates for line in timelines_of(c.experiment).values()]
    assert min(updates) >= 8
    assert max(updates) <= 2 * 800
