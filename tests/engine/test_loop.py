"""Promises of the engine for every algorithm: same seed, same bits, and no dependence on how the work is divided."""

import numpy as np
import pytest

from paota import engine, simulate
from paota.base.registry import ALGORITHMS
from paota.engine import loop
from paota.experiment.experiment import Experiment
from paota.models.base import FunctionModel
from paota.simulate import unit

SMALL = {
    "rounds": 12,
    "data": {"dataset": "synthetic", "devices": 8, "sizes": [30, 60]},
    "training": {"local_steps": 2, "batch_size": 8},
}


ONE = [{"name": "paota"}]
ALL = [*ONE, {"name": "local-sgd"}, {"name": "cotaf"}]


def small(**changes):
    """Only PAOTA, where nothing hangs on the algorithm: every one of them costs a compilation."""
    return {**SMALL, "algorithms": ONE, **changes}


def models(result):
    return {(t.label, t.seed): t.model for t in result.trajectories}


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for key in one:
        assert one[key].tobytes() == other[key].tobytes(), key


@pytest.mark.bits
def test_same_seed_same_bits():
    assert_same_bits(models(simulate.run(small(), seeds=2)), models(simulate.run(small(), seeds=2)))


def test_different_seeds_differ():
    result = simulate.run(small(algorithms=[{"name": "paota"}]), seeds=2)
    assert not np.array_equal(result.trajectories[0].model, result.trajectories[1].model)


@pytest.mark.bits
@pytest.mark.parametrize("events", [1, 5, 12, 50])
def test_chunk_size_changes_nothing(events):
    assert_same_bits(models(simulate.run(small())), models(simulate.run(small(), events_per_call=events)))


@pytest.fixture
def counts(monkeypatch):
    """Record the number of events of each engine call."""
    made, real = [], engine.inputs_of

    def counting(*arguments, **more):
        rows, count = real(*arguments, **more)
        made.append(count)
        return rows, count

    monkeypatch.setattr(engine, "inputs_of", counting)
    return made


@pytest.mark.parametrize(("call_s", "sizes"), [(0.0, [1] * 12), (1e9, [1, 4, 7])])
def test_a_call_takes_as_many_events_as_last_about_a_second(monkeypatch, counts, call_s, sizes):
    """Resume after one event, in the same program, with the same bits."""
    expected = models(simulate.run(small(), events_per_call=5))
    engine.forget_programs()
    counts.clear()
    monkeypatch.setattr(unit, "CALL_S", call_s)
    assert_same_bits(expected, models(simulate.run(small())))
    assert counts == sizes
    assert engine.known_programs() == 1


@pytest.mark.bits
def test_a_model_that_diverged_is_that_of_its_round_whatever_the_call(counts):
    """Later ones, of the same call, have overwritten it in the ring buffer: it is computed again."""
    wild = small(training={**SMALL["training"], "learning_rate": 1e37})
    (one,) = simulate.run(wild, events_per_call=1).trajectories
    assert one.diverged_round == 1
    counts.clear()
    (other,) = simulate.run(wild, events_per_call=12).trajectories
    assert counts == [12, 1]
    assert other.diverged_round == 1
    assert other.model.tobytes() == one.model.tobytes()


@pytest.mark.bits
def test_order_and_company_of_algorithms_change_nothing():
    forwards = models(simulate.run(small(algorithms=ALL)))
    assert_same_bits(forwards, models(simulate.run(small(algorithms=ALL[::-1]))))
    alone = models(simulate.run(small(algorithms=ONE)))
    assert_same_bits(alone, {("paota", 0): forwards["paota", 0]})


def test_more_seeds_change_nothing_for_the_first():
    many = models(simulate.run(small(), seeds=3))
    assert_same_bits(models(simulate.run(small())), {key: many[key] for key in many if key[1] == 0})


def test_a_seeds_plan_does_not_depend_on_how_many_seeds_there_are():
    """Event-driven schemes have as many events as their own latencies make: how often each is judged is its own too."""
    built_in = [{"name": name} for name in ALGORITHMS]
    table = small(rounds=30, data={**SMALL["data"], "devices": 20}, algorithms=built_in)
    alone, company = (simulate.prepare(Experiment.from_dict(table), seeds=seeds) for seeds in (1, 6))
    assert alone.evaluated_every == {unit: company.evaluated_every[unit] for unit in alone.evaluated_every}
    assert len({company.evaluated_every["fedasync", seed] for seed in range(6)}) > 1  # it does differ between seeds


def test_programs_that_were_let_go_are_made_again(monkeypatch):
    kept = models(simulate.run(small(algorithms=ALL)))
    monkeypatch.setattr(loop, "MAX_PROGRAMS", 1)
    assert_same_bits(kept, models(simulate.run(small(algorithms=ALL), seeds=1, events_per_call=3)))
    assert engine.known_programs() == 1


def test_seeds_and_numbers_share_one_compilation():
    engine.forget_programs()
    simulate.run(small())
    simulate.run(small(air={"n0_dbm_per_hz": -90.0}, power={"omega": 5.0}))
    assert engine.known_programs() == 1


def test_seeds_and_calls_are_traced_once(monkeypatch):
    traced = []
    original = loop.run_events

    def counting(*arguments):
        traced.append(arguments[0])
        return original(*arguments)

    monkeypatch.setattr(loop, "run_events", counting)
    engine.forget_programs()
    simulate.run(small(), seeds=3, events_per_call=4)
    assert len(traced) == 1


def test_nobody_ready_keeps_the_model_exactly():
    table = small(
        rounds=5,
        timing={"period_s": 4.0, "low_s": 10.0, "high_s": 10.5},
        air={"n0_dbm_per_hz": 0.0},
    )
    result = simulate.run(table)
    metrics = result.trajectories[0].metrics
    assert metrics["ready"].tolist() == [0, 0, 0, 8, 0, 0]
    losses = metrics["train_loss"]
    assert losses[0] == losses[1] == losses[2]
    assert losses[3] != losses[2]
    assert losses[3] == losses[4] == losses[5]
    assert np.isnan(metrics["noise_std"][[1, 2, 4, 5]]).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": ALL},
        {"algorithms": ALL, "data": {"dataset": "synthetic", "devices": 1, "sizes": [30]}},
        {"training": {"local_steps": 1, "batch_size": 1}},
        {"rounds": 1},
        {"data": {"dataset": "synthetic", "devices": 5, "sizes": [20], "classes_per_device": 1}},
        {"model": {"name": "softmax"}},
        {"model": {"name": "cnn", "channels": [2], "dense": 4}, "rounds": 2},
        {"timing": {"latency": "lognormal"}},
        {"data": {"dataset": "synthetic", "devices": 6, "partition": "dirichlet"}},
        {"data": {"dataset": "synthetic", "devices": 6, "partition": "iid"}},
        {"data": {"dataset": "synthetic", "devices": 6, "partition": "shards"}},
        {"power": {"cap": "physical"}},
        {"power": {"method": "uniform"}},
        {"power": {"method": "staleness"}},
        {"power": {"method": "similarity"}},
        {"evaluation": {"every": 5, "train_loss": "batches"}},
        {"rounds": 0, "duration_s": 40.0},
    ],
    ids=str,
)
def test_corner_settings_run(changes):
    changed = small(**changes)
    if changed["rounds"] == 0:
        del changed["rounds"]
    result = simulate.run(changed)
    for t in result.trajectories:
        assert t.diverged_round is None
        assert np.isfinite(t.model).all()
        accuracy = t.metrics["test_accuracy"]
        assert np.isfinite(accuracy[[0, -1]]).all()
        weights = t.devices["weight"]
        per_round = np.bincount(t.devices["round"], weights)[np.unique(t.devices["round"])]
        np.testing.assert_allclose(per_round, 1.0, rtol=1e-5)


def test_it_learns():
    result = simulate.run(Experiment.preset("quick").override({"rounds": 40}))
    for t in result.trajectories:
        assert t.metrics["train_loss"][-1] < 0.7 * t.metrics["train_loss"][0]


def test_users_own_model():
    import jax
    import jax.numpy as jnp

    def init(key, input_shape, num_classes):
        return jax.random.normal(key, (int(np.prod(input_shape)), num_classes)) * 0.01

    def apply(params, x):
        return x.reshape(len(x), -1) @ params + jnp.zeros(())

    result = simulate.run(small(model={"name": FunctionModel(init=init, apply=apply)}, rounds=40))
    assert result.trajectories[0].metrics["train_loss"][-1] < result.trajectories[0].metrics["train_loss"][0]


def test_very_stale_updates_find_their_version():
    """One device is 30 periods late: the ring buffer is as deep as the timeline needs."""
    seconds = [3.0] * 7 + [4.0 * 30.5]
    table = small(rounds=70, timing={"latency": "per-device", "seconds": seconds, "period_s": 4.0})
    result = simulate.run(table)
    metrics = result.trajectories[0].metrics
    assert np.nanmax(metrics["staleness_max"]) == 30
    assert result.trajectories[0].diverged_round is None


def test_divergence_is_told_and_the_others_go_on():
    algorithms = [
        {"name": "paota", "label": "wild", "power": {"cap": "paper"}, "training": {"learning_rate": 1e12}},
        {"name": "paota"},
    ]
    result = simulate.run(small(algorithms=algorithms))
    wild, calm = result.trajectories
    assert wild.diverged_round is not None
    assert calm.diverged_round is None
    assert len(calm.metrics["round"]) == 13
    assert result.summary["algorithms"]["wild"]["diverged"] == [{"seed": 0, "round": wild.diverged_round}]


def test_physical_cap_keeps_the_budget_and_the_papers_does_not():
    algorithms = [
        {"name": "paota", "power": {"cap": "paper"}},
        {"name": "paota", "label": "physical"},
        {"name": "cotaf"},
        {"name": "cotaf", "label": "cotaf-fading", "fading": True},
    ]
    result = simulate.run(small(algorithms=algorithms))
    assert result.array("paota", "over_budget")[0, -1] > 0
    for label in ("physical", "cotaf", "cotaf-fading"):
        assert (result.array(label, "over_budget")[0, 1:] == 0).all()
        assert result.array(label, "transmit_power_w_max")[0, 1:].max() <= 15.0 * (1 + 1e-5)
        assert result.summary["algorithms"][label]["over_budget"] == {}
    said = result.summary["algorithms"]["paota"]["over_budget"]
    assert said["share"] == pytest.approx(
        (result.of("paota")[0].devices["transmit_power_w"] > 15.0 * (1 + 1e-5)).mean()
    )
    assert said["largest_w"] == result.of("paota")[0].devices["transmit_power_w"].max()


def test_noise_std_is_what_the_formula_says():
    result = simulate.run(small(algorithms=[{"name": "paota"}], air={"n0_dbm_per_hz": -74.0}))
    metrics = result.trajectories[0].metrics
    sigma2 = 20e6 * 10 ** ((-74 - 30) / 10)
    some = metrics["ready"] > 0
    np.testing.assert_allclose(
        metrics["noise_std"][some], np.sqrt(sigma2 / 2) / metrics["amplitude_sum"][some], rtol=1e-5
    )
