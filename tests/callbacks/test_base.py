"""Callbacks: their hooks, stopping a unit, and that they change no bit."""

import math

import numpy as np
import pytest

import paota
from paota import Callback, CallbackError, simulate
from paota.base.errors import Interrupted, UserError
from paota.callbacks import Patience, StopAt
from paota.results.checkpoint import Checkpoints

from .conftest import TABLE, bits, plan_of


class Listener(Callback):
    """Keeps everything."""

    def __init__(self):
        self.heard, self.rounds = [], {}

    def start(self, run):
        self.run = run
        self.heard.append("start")

    def compile(self, label, seconds):
        self.heard.append("compiling" if seconds is None else "compiled")

    def round(self, round):
        self.rounds.setdefault((round.label, round.seed), []).append(round)

    def finish(self, trajectory):
        self.heard.append(("finish", trajectory.label, trajectory.seed))

    def end(self, result):
        self.heard.append(("end", result is not None))


def test_all_hooks_are_called_and_no_bit_changes(whole):
    listener, seen = Listener(), []
    result = simulate.execute(plan_of(), callbacks=[listener, lambda round: seen.append(round)])
    assert [bits(t) for t in result.trajectories] == [bits(t) for t in whole.trajectories]
    assert listener.heard[0] == "start"
    assert listener.heard[-1] == ("end", True)
    assert {h for h in listener.heard if h[0] == "finish"} == {
        ("finish", label, seed) for label in ("paota", "local-sgd") for seed in (0, 1)
    }
    assert listener.run.title == "small"
    assert [(u.label, u.seed, u.rounds) for u in listener.run.units] == [
        (t.label, t.seed, 20) for t in result.trajectories
    ]
    assert len(seen) == 4 * 21


def test_a_round_is_the_row_of_the_table():
    """This also holds for algorithms without a cost account, and for rounds without a ready device."""
    listener = Listener()
    timing = {"period_s": 4.0, "low_s": 7.0, "high_s": 8.5}
    result = simulate.execute(plan_of(timing=timing, seeds=1), callbacks=[listener], events_per_call=3)
    assert (result.of("paota")[0].metrics["ready"][1:] == 0).any()
    for t in result.trajectories:
        rounds = listener.rounds[t.label, t.seed]
        assert [r.round for r in rounds] == list(range(21))
        assert set(rounds[0].metrics) == {*t.metrics, "lost", "silent"}
        for name, column in t.metrics.items():
            np.testing.assert_array_equal([r.metrics[name] for r in rounds], column, err_msg=name)
        for name, column in t.devices.items():
            told = np.concatenate([r.devices[name] for r in rounds])
            np.testing.assert_array_equal(told, column, err_msg=name)
        assert rounds[-1].test_accuracy == t.metrics["test_accuracy"][-1]
        assert rounds[-1].time_s == t.metrics["time_s"][-1]


@pytest.mark.parametrize("events", [None, 1, 7])
def test_a_stopped_unit_ends_in_that_round_whatever_the_call(whole, events):
    """Rows, device records and model are those of that round, even within an engine call."""
    models = {}

    class Models(Callback):
        models = True

        def round(self, round):
            models[round.label, round.seed, round.round] = round.model

    simulate.execute(plan_of(), callbacks=[Models])
    result = simulate.execute(
        plan_of(), callbacks=[lambda r: r.label == "paota" and r.round == 5 + r.seed], events_per_call=events
    )
    for t, full in zip(result.trajectories, whole.trajectories, strict=True):
        last = 5 + t.seed if t.label == "paota" else 20
        assert t.stopped_round == (last if t.label == "paota" else None)
        assert t.model.tobytes() == models[t.label, t.seed, last].tobytes()
        for name, column in t.metrics.items():
            assert column.tobytes() == full.metrics[name][: last + 1].tobytes(), name
        for name, column in t.devices.items():
            assert column.tobytes() == full.devices[name][full.devices["round"] <= last].tobytes(), name


def test_units_of_different_length_are_measured_saved_and_read(tmp_path):
    result = paota.run(TABLE, seeds=2, callbacks=[lambda r: r.round == 3 + 4 * r.seed and r.label == "paota"])
    assert result.summary["algorithms"]["paota"]["stopped"] == [{"seed": 0, "round": 3}, {"seed": 1, "round": 7}]
    assert result.summary["equal_rounds"] == 3
    assert result.array("paota", "time_s").shape == (2, 8)
    result.save(tmp_path / "run")
    back = paota.load(tmp_path / "run")
    assert [t.stopped_round for t in back.trajectories] == [3, 7, None, None]
    assert back.summary["algorithms"]["paota"]["stopped"] == result.summary["algorithms"]["paota"]["stopped"]


def test_stopping_before_the_first_round():
    result = paota.run(TABLE, callbacks=[lambda r: r.label == "paota"])
    assert [len(t.metrics["round"]) for t in result.trajectories] == [1, 21]
    assert math.isfinite(result.trajectories[0].metrics["test_accuracy"][0])


def test_stop_at_and_patience_are_settings(whole):
    best = max(t.metrics["test_accuracy"].max() for t in whole.trajectories)
    target = round(float(best) - 0.02, 3)
    result = paota.run(TABLE | {"evaluation": {"stop_at": target}}, seeds=2)
    for t, full in zip(result.trajectories, whole.trajectories, strict=True):
        reached = np.flatnonzero(full.metrics["test_accuracy"] >= target)
        last = reached[0] if len(reached) else 20
        assert t.metrics["round"][-1] == last
        assert result.experiment.to_dict()["evaluation"]["stop_at"] == target
    patient = paota.run(TABLE | {"evaluation": {"patience": 2}}, seeds=1)
    for t in patient.trajectories:
        accuracy = t.metrics["test_accuracy"]
        if t.stopped_round is not None:
            assert (accuracy[-2:] <= accuracy[:-2].max()).all()
            assert accuracy[:-2].argmax() == len(accuracy) - 3
    assert any(t.stopped_round for t in patient.trajectories)


def test_rules_by_hand():
    def told(rule, accuracies):
        rounds = [
            paota.Round(label="a", algorithm="a", seed=0, round=i, rounds=9, metrics={"test_accuracy": accuracy})
            for i, accuracy in enumerate(accuracies)
        ]
        return [rule.round(r) for r in rounds].index(True)

    assert told(StopAt(0.5), [0.1, math.nan, 0.5, 0.9]) == 2
    assert told(Patience(2), [0.1, 0.3, 0.2, math.nan, 0.4, 0.4, math.nan, 0.1]) == 7


def test_raising_loses_nothing(tmp_path, whole):
    """The reported rounds are kept as a result and as a checkpoint; resuming gives the same bytes."""
    listener, prepared = Listener(), plan_of()

    def fragile(round):
        if round.label == "local-sgd" and round.round == 6:
            raise OSError("no space")

    checkpoints = Checkpoints(tmp_path / "c", simulate.identity(prepared))
    with pytest.raises(CallbackError, match="the callback fragile failed in round: OSError: no space") as caught:
        simulate.execute(prepared, callbacks=[fragile, listener], checkpoints=checkpoints)
    assert isinstance(caught.value.__cause__, OSError)
    assert listener.heard[-1] == ("end", False)
    kept = {(t.label, t.seed): t for t in caught.value.result.trajectories}
    assert any(t.metrics["round"][-1] == 6 for t in kept.values() if t.label == "local-sgd")
    for full in whole.trajectories:
        if (full.label, full.seed) in kept:
            mine = kept[full.label, full.seed].metrics["train_loss"]
            assert mine.tobytes() == full.metrics["train_loss"][: len(mine)].tobytes()
    saved = [checkpoints.load(number) for number in range(4)]
    assert {one.done for one in saved[2:] if one} >= {6}  # the unit that was told of it, as far as that
    again = Listener()
    result = simulate.execute(
        prepared, callbacks=[again], checkpoints=Checkpoints(tmp_path / "c", simulate.identity(prepared))
    )
    assert [bits(t) for t in result.trajectories] == [bits(t) for t in whole.trajectories]
    assert all([r.round for r in rounds] == list(range(21)) for rounds in again.rounds.values())  # none is missing


def test_a_stop_survives_an_interruption_before_it(tmp_path):
    """Patience needs rounds before the interruption: they are reported again, so the unit ends in the same round."""
    prepared = plan_of(evaluation={"patience": 3})
    straight = simulate.execute(prepared)
    assert any(t.stopped_round for t in straight.trajectories)
    checkpoints = Checkpoints(tmp_path / "c", simulate.identity(prepared), every_s=0)
    with pytest.raises(Interrupted):
        simulate.execute(prepared, checkpoints=checkpoints, events_per_call=2, stop=checkpoints.folder.exists)
    resumed = simulate.execute(prepared, checkpoints=checkpoints)
    assert [bits(t) for t in resumed.trajectories] == [bits(t) for t in straight.trajectories]
    assert [t.stopped_round for t in resumed.trajectories] == [t.stopped_round for t in straight.trajectories]


@pytest.mark.parametrize(
    ("callback", "error", "says"),
    [
        (3, UserError, "a callback must be a paota.Callback, a function or a name, not 3"),
        (lambda r: r.test_accuracy, CallbackError, "must return True \\(stop\\), False or None"),
    ],
)
def test_what_is_refused(callback, error, says):
    with pytest.raises(error, match=says):
        paota.run(TABLE, callbacks=[callback])


@pytest.mark.parametrize("callbacks", ["csv", print, 3])
def test_what_is_no_list_is_refused(callbacks):
    with pytest.raises(UserError, match="callbacks must be a list"):
        paota.run(TABLE, callbacks=callbacks)
