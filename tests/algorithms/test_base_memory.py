"""Algorithms of a plug-in whose devices remember, checked by hand and in a run."""

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota.algorithms.baa import Baa
from paota.base.plugins import import_file
from paota.deploy.settings import Deployment

SMALL = {
    "rounds": 8,
    "model": {"name": "softmax"},
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [60], "classes_per_device": 2},
}


@pytest.fixture(scope="module", autouse=True)
def plugin():
    return import_file(Path(__file__).parents[1] / "helpers" / "remembering.py", "tests")


def test_mifa_by_hand(plugin):
    """K = 4. Device 0 counted with (1, 0) and now has (3, 0); device 1 counts for the first time: G = 1/4 (1+2, 1)."""
    served = paota.aggregate_by_hand(
        plugin.Mifa(),
        [[3.0, 0.0], [0.0, 1.0]],
        memory=[[1.0, 0.0], [0.0, 0.0]],
        state=jnp.array([0.25, 0.0]),
        num_devices=4,
    )
    np.testing.assert_allclose(served.model, [0.75, 0.25])
    np.testing.assert_allclose(served.memory, [[3.0, 0.0], [0.0, 1.0]])


def test_mifa_in_a_run_is_the_mean_of_the_newest_updates():
    """All latencies below the period: all devices take part every time, and the mean is that of Local SGD."""
    table = {**SMALL, "timing": {"low_s": 1.0, "high_s": 2.0}}
    mifa, plain = paota.run(
        {**table, "algorithms": [{"name": "mifa"}, {"name": "local-sgd", "participants": 12}]}
    ).trajectories
    np.testing.assert_allclose(mifa.model, plain.model, rtol=1e-4, atol=1e-5)


def test_mifa_in_a_run_keeps_the_absent():
    """Absent devices still count; it learns, and any number of events per call gives the same bits."""
    table = {**SMALL, "algorithms": [{"name": "mifa"}]}
    one, other = (paota.run(table, events_per_call=events).trajectories[0] for events in (3, 8))
    np.testing.assert_array_equal(one.model, other.model)
    assert one.metrics["test_accuracy"][-1] > 0.3


def test_a_silent_device_forgets_nothing():
    """The second device is in a deep fade and silent."""

    @dataclass(frozen=True, kw_only=True)
    class Counting(Baa):
        def memory(self, model):
            return jnp.zeros(())

        def remember(self, work):
            return work.memory + 1

    uplink = paota.Uplink(
        channel=jnp.array([1.0, 0.1], complex), ready=jnp.ones(2, bool), noise_power_w=jnp.array(0.0),
        max_power_w=jnp.array(1.0), noise_key=jax.random.key(0),
    )  # fmt: skip
    served = paota.aggregate_by_hand(Counting(), [[1.0], [1.0]], uplink=uplink, memory=jnp.array([4.0, 7.0]))
    np.testing.assert_allclose(served.memory, [5, 7])


@pytest.mark.parametrize("setting", ["power.energy_budget_j", "guards.noise_multiplier"])
def test_what_only_the_simulator_can_do_is_refused_in_a_deployment(setting):
    section, key = setting.split(".")
    table = {section: {key: 1.0}, "algorithms": [{"name": "paota"}]}
    with pytest.raises(paota.UserError, match=f"{key} is for the simulator: 'paota' cannot be deployed with it"):
        Deployment().chosen(paota.Experiment.from_dict(table))
