"""Properties of every registered algorithm. The tests cover a new one as soon as it has its registry line."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paota import Experiment, aggregate_by_hand, engine
from paota.air.uplink import Uplink
from paota.base.registry import ALGORITHMS
from paota.experiment.files import read_preset
from paota.simulate import prepare
from paota.simulate.schedule import Schedule
from paota.simulate.unit import Unit
from paota.timing.timeline import Timeline

CHANCE = 0.1  # ten classes
LEARNT = 0.3
DIVIDES_BY_A_MEAN = {"biased-ota"}  # weights sum to 1 on average, not in every event
MAY_WAIT = {"fedat"}  # a tier has no weight until its counterpart has come


def with_an_empty_last_event(timeline: Timeline) -> Timeline:
    return dataclasses.replace(
        timeline,
        time_s=np.append(timeline.time_s, timeline.time_s[-1] + 1),
        offsets=np.append(timeline.offsets, timeline.offsets[-1]),
        group=None if timeline.group is None else np.append(timeline.group, 0),
        aborted=None if timeline.aborted is None else with_an_empty_last_event(timeline.aborted),
    )


@pytest.fixture(scope="module", params=sorted(ALGORITHMS))
def runs(request):
    """The quick preset with one algorithm: seeds 0, 1 and 0 again, each ending with an event without devices."""
    name = request.param
    quick = prepare(Experiment.from_dict({**read_preset("quick"), "algorithms": [{"name": name}]}), seeds=2)
    quick = dataclasses.replace(
        quick,
        timelines={unit: with_an_empty_last_event(timeline) for unit, timeline in quick.timelines.items()},
        evaluated_every=dict.fromkeys(quick.timelines, 1),
    )
    engine.forget_programs()
    (entry,) = quick.experiment.algorithms
    schedule = Schedule(quick, events_per_call=10)
    trajectories = [Unit(schedule, 0, entry, seed).run() for seed in (0, 1, 0)]
    return trajectories, engine.known_programs()


def test_learns(runs):
    for run in runs[0]:
        assert run.metrics["test_accuracy"][0] < 2.5 * CHANCE
        assert run.metrics["test_accuracy"][-1] > LEARNT
        assert run.diverged_round is None


def test_weights_are_valid(runs):
    for run in runs[0]:
        weight, round_ = run.devices["weight"], run.devices["round"]
        assert np.all(weight >= 0)
        total = np.bincount(round_, weights=weight)[1:]
        assert np.all(total > 0) or run.algorithm in MAY_WAIT
        if run.algorithm in DIVIDES_BY_A_MEAN:
            assert total.mean() == pytest.approx(1, abs=0.3)
        else:
            assert np.all(total <= 1 + 1e-5)


def test_costs_are_accounted_or_absent(runs):
    for run in runs[0]:
        for column in ("energy_j", "airtime_s", "compute_j"):
            values = run.metrics[column]
            assert np.all(values >= 0) or np.isnan(values).all()
        assert np.all(run.metrics["compute_j"][1:-1] > 0)


def test_empty_event_is_harmless(runs):
    for run in runs[0]:
        assert run.metrics["ready"][-1] == 0
        assert run.metrics["test_loss"][-1] == run.metrics["test_loss"][-2]
        assert np.isfinite(run.model).all()


def test_deterministic(runs):
    first, other, again = runs[0]
    np.testing.assert_array_equal(first.model, again.model)
    assert not np.array_equal(first.model, other.model)


def test_compiles_once(runs):
    """Three trajectories of two seeds: one program for each number of devices, rounded up to sixteen."""
    assert runs[1] == len({math.ceil(run.metrics["ready"].max() / 16) for run in runs[0]})


N, PADDING, D = 6, 2, 9


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_order_of_devices_and_padding_do_not_matter(name):
    """Devices and padding in two orders give the same model, and every device the same weight."""
    rng = np.random.default_rng(1)
    rows = N + PADDING
    algorithm = ALGORITHMS[name]()
    ready = np.arange(rows) < N
    update = rng.normal(size=(rows, D)).astype(np.float32)
    staleness, samples = rng.integers(0, 4, rows), rng.integers(1, 9, rows) * np.float32(100)
    channel = (rng.normal(size=rows) + 1j * rng.normal(size=rows)).astype(np.complex64)
    model, previous = rng.normal(size=(2, D)).astype(np.float32)

    @jax.jit
    def outcome(ready, update, staleness, samples, channel, device):
        uplink = Uplink(channel, ready, jnp.array(1e-2), jnp.array(15.0), jax.random.key(0))
        return aggregate_by_hand(
            algorithm, update, uplink=uplink, model=model, previous_model=previous, staleness=staleness,
            num_samples=samples, ready=ready, device=device, num_devices=20, round=9,
        )  # fmt: skip

    order = rng.permutation(rows)
    columns = (ready, update, staleness, samples, channel, np.arange(rows))
    plain, mixed = outcome(*columns), outcome(*(column[order] for column in columns))
    np.testing.assert_allclose(plain.model, mixed.model, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plain.weight[order], mixed.weight, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(plain.weight[N:], 0)
