"""Algorithms and seeds run side by side: same bits as one after another, one watcher at a time, errors end them all."""

import itertools
import threading
import time

import jax
import numpy as np
import pytest

from paota import Callback, CallbackError, engine, simulate
from paota.base.errors import Interrupted, UserError
from paota.experiment.experiment import Experiment
from paota.simulate import schedule
from paota.simulate.schedule import Schedule, cores
from paota.simulate.threads import any_running

TABLE = {
    "rounds": 12,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}, {"name": "cotaf"}],
}


@pytest.fixture
def three_cores(monkeypatch):
    monkeypatch.setattr(schedule, "cores", lambda: 3)


def plan(**changes):
    return simulate.prepare(Experiment.from_dict(TABLE | changes), seeds=3)


def outcome(result):
    return [
        (t.label, t.seed, t.model.tobytes(), {k: v.tobytes() for k, v in t.metrics.items()})
        for t in result.trajectories
    ]


class Watcher(Callback):
    """Keeps who told it what."""

    def __init__(self):
        self.seen = []

    def round(self, round):
        time.sleep(0.001)
        self.seen.append((round.label, round.seed, round.round, threading.get_ident()))


@pytest.mark.bits
def test_same_bits_and_order_as_one_after_another(monkeypatch, three_cores):
    watcher = Watcher()
    together = simulate.execute(plan(), callbacks=[watcher], events_per_call=2)
    assert {thread for *_, thread in watcher.seen} == {threading.get_ident()}  # callbacks are called where we are
    units = [(label, seed) for label, seed, *_ in watcher.seen]
    assert len(list(itertools.groupby(units))) > len(set(units))  # it was side by side
    monkeypatch.setattr(schedule, "cores", lambda: 1)
    assert outcome(together) == outcome(simulate.execute(plan(), events_per_call=2))


def test_double_precision_holds_in_every_thread(three_cores):
    with jax.enable_x64(True):
        result = simulate.execute(plan(algorithms=[{"name": "local-sgd"}]), events_per_call=2)
    assert {t.model.dtype for t in result.trajectories} == {np.dtype(np.float64)}


def test_an_error_in_one_ends_all_and_is_the_one_that_is_told(three_cores):
    class Failing(Watcher):
        def round(self, round):
            super().round(round)
            if round.label == "local-sgd" and round.round:
                raise UserError("enough")

    watcher = Failing()
    with pytest.raises(CallbackError, match="Failing failed in round: enough"):
        simulate.execute(plan(), callbacks=[watcher], events_per_call=1)
    assert len(watcher.seen) < 3 * 3 * 12  # most were not computed
    latest = time.monotonic() + 60.0
    while any_running() and time.monotonic() < latest:  # a busy machine takes longer to end an engine call
        time.sleep(0.05)
    assert not any_running()


def test_a_wish_to_stop_ends_all(three_cores):
    watcher = Watcher()
    with pytest.raises(Interrupted):
        simulate.execute(plan(), callbacks=[watcher], events_per_call=2, stop=lambda: len(watcher.seen) >= 5)
    assert 5 <= len(watcher.seen) <= 5 + 3 * 2


def test_seconds_are_shared_between_those_that_run_at_once(three_cores):
    begin = time.perf_counter()
    result = simulate.execute(plan(), events_per_call=2)
    assert sum(t.compute_s for t in result.trajectories) <= time.perf_counter() - begin


def test_what_would_not_fit_into_memory_together_runs_alone(monkeypatch, three_cores):
    together = Schedule(plan())
    assert together.side_by_side == 3
    entry = together.prepared.experiment.algorithms[0]
    places = 16  # for the 8 devices
    one = engine.row_bytes(entry.algorithm, together.programs.problem(entry).num_parameters) * places
    monkeypatch.setattr(engine, "HELD_BYTES", 2 * one + 1)
    assert Schedule(plan()).side_by_side == 2
    monkeypatch.setattr(engine, "HELD_BYTES", one - 1)
    assert Schedule(plan()).side_by_side == 1


@pytest.mark.parametrize(("said", "wanted"), [("1", 1), ("", None), ("many", None), ("0", 1)])
def test_cores_are_at_most_what_the_user_allows(monkeypatch, said, wanted):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    free = cores()
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert cores() == (wanted or free)


@pytest.mark.bits
def test_a_seed_has_the_same_bits_however_many_there_are(three_cores):
    table = TABLE | {
        "rounds": 6, "data": {"dataset": "synthetic", "devices": 100, "sizes": [30, 60]},
        "algorithms": [{"name": "paota"}, {"name": "fedbuff"}],
    }  # fmt: skip
    alone, together = (simulate.prepare(Experiment.from_dict(table), seeds=seeds) for seeds in (1, 6))
    largest = [together.timelines["paota", seed].ready.max() for seed in together.seeds]
    assert max(largest) > -(-largest[0] // 16) * 16  # some need more places than the first
    alone, together = (outcome(simulate.execute(plan)) for plan in (alone, together))
    assert [unit for unit in together if unit[1] == alone[0][1]] == alone
