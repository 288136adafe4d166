"""Control bits, the broadcast of the model and budgets of energy: by hand, and in runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paota
from paota.air.settings import Air
from paota.air.uplink import Uplink, within_budget
from paota.algorithms.age_top_k import AgeTopK
from paota.algorithms.cotaf import Cotaf
from paota.algorithms.local_sgd import LocalSgd
from paota.algorithms.majority_vote import FskVote
from paota.algorithms.paota import LastHeard, Paota
from paota.base.settings import parse
from paota.simulate.records import control_columns, reported_scalars
from paota.timing.timeline import Timeline, Trainings

pytestmark = pytest.mark.bare

SMALL = {
    "rounds": 4,
    "model": {"name": "softmax"},
    "data": {"dataset": "synthetic", "devices": 12, "sizes": [60]},
}


def two_events():
    """Devices 0 and 1, fresh; then device 0 fresh and device 2 stale by one."""
    first = Trainings(*map(np.array, ([0, 1], [0, 0], [0, 0], [0.0, 0.0], [3.0, 4.0])))
    second = Trainings(*map(np.array, ([0, 2], [1, 0], [1, 0], [4.0, 0.0], [7.0, 7.0])))
    return Timeline.build([(4.0, first), (8.0, second)])


@pytest.mark.parametrize(
    ("algorithm", "bits"),
    [
        (Paota(), [0, 2 * 3 * 8, 2 * 3 * 8 + 50 * 8]),  # similarity, norm, amplitude; w^1 - w^0 for the stale one
        (Paota(similarity="heard"), [0, 48, 48]),
        (Cotaf(), [0, 2 * 2 * 8, 32]),
        (LocalSgd(), [0, 0, 0]),
        (AgeTopK(), [0, 32 + 50, 32 + 50]),  # a bit for each of 50 weights: whether it is to be sent
        (FskVote(), [0, 0, 0]),  # full power, no channel known: nothing to say
    ],
)
def test_control_bits_by_hand(algorithm, bits):
    air = parse(Air, {"scalar_bits": 8, "control_mbit_per_s": 1e-4}, "air")
    columns = control_columns(algorithm, air, two_events(), 2, 50)
    np.testing.assert_allclose(columns["control_bits"], bits)
    np.testing.assert_allclose(columns["control_s"], np.array(bits) / 100)


def test_control_is_free_unless_asked():
    assert control_columns(Paota(), parse(Air, {}, "air"), two_events(), 2, 50) == {}
    assert reported_scalars(Paota()) == 2


def test_similarity_to_what_was_heard():
    """w^r - w^(r-1) = (0, 1) is across; from (1, 0), where it started before, to its start (2, 0) the device knows (1, 0)."""
    outcome = paota.aggregate_by_hand(
        Paota(similarity="heard", payload="update"), [[1.0, 0.0], [-1.0, 0.0]], model=[5.0, 1.0],
        previous_model=[5.0, 0.0], local_models=[[3.0, 0.0], [1.0, 0.0]],
        memory=LastHeard(jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.ones(2)),
    )  # fmt: skip
    np.testing.assert_allclose(outcome.similarity, [1, 0], atol=1e-6)
    np.testing.assert_allclose(outcome.memory.start, [[2, 0], [2, 0]])


def test_a_device_that_has_heard_nothing_before_compares_with_nothing():
    """The float32 number 0.7 - (0.7 - 0.1) is not 0.1: the difference would be rounding in a random direction."""
    start, local = np.full(50, 0.1, np.float32), np.linspace(0.2, 0.9, 50, dtype=np.float32)
    outcome = paota.aggregate_by_hand(
        Paota(similarity="heard"), [local - start], model=start, previous_model=start, local_models=[local],
    )  # fmt: skip
    assert outcome.similarity.tolist() == [0.5]


def test_what_devices_know_in_a_run():
    """If no model is stale, a device's last two starts are the newest two versions: both similarities are one."""
    quick = {**SMALL, "timing": {"low_s": 1.0, "high_s": 2.0}}
    lines = [{"name": "paota"}, {"name": "paota", "label": "heard", "similarity": "heard"}]
    printed, heard = paota.run({**quick, "algorithms": lines}).trajectories
    np.testing.assert_allclose(heard.devices["similarity"], printed.devices["similarity"], atol=1e-4)
    printed, heard = paota.run({**SMALL, "algorithms": lines}).trajectories
    assert np.abs(heard.devices["similarity"] - printed.devices["similarity"]).max() > 0.01


def test_a_download_comes_before_every_training():
    """1 s for the model: events of a synchronous rule come 1 s later each, and computing costs what it did."""
    d = paota.run({**SMALL, "rounds": 1, "algorithms": [{"name": "cotaf"}]}).trajectories[0].model.size
    lines = [
        {"name": "cotaf", "participants": 6},
        {
            "name": "cotaf",
            "label": "slow",
            "participants": 6,
            "air": {"downlink": "digital", "down_mbit_per_s": 32e-6 * d},
        },
    ]
    free, slow = paota.run({**SMALL, "algorithms": lines}).trajectories
    np.testing.assert_allclose(slow.metrics["time_s"], free.metrics["time_s"] + np.arange(5), rtol=1e-6)
    np.testing.assert_allclose(slow.metrics["compute_j"], free.metrics["compute_j"], rtol=1e-6)
    np.testing.assert_array_equal(slow.model, free.model)


def test_an_energy_budget_is_kept():
    """Budgets of two and a half loudest rounds: no device exceeds them, and some are silent in the end."""
    budget_j = 2.5 * 15 / 20e6
    table = {
        **SMALL, "rounds": 8, "power": {"cap": "physical", "energy_budget_j": budget_j},
        "algorithms": [{"name": "full-power", "participants": 12}, {"name": "cotaf", "participants": 12, "fading": True}],
    }  # fmt: skip
    loud, cotaf = paota.run(table).trajectories
    spent = np.bincount(loud.devices["device"], loud.devices["energy_j"])
    np.testing.assert_allclose(spent, budget_j, rtol=1e-4)
    assert loud.metrics["silent"].tolist() == [0, 0, 0, 0, 12, 12, 12, 12, 12]
    assert np.bincount(cotaf.devices["device"], cotaf.devices["energy_j"]).max() <= budget_j * (1 + 1e-4)


def test_a_remainder_below_rounding_is_no_budget():
    """The budget is 1 J. The first device has spent all but rounding, the second half, the third a little too much."""
    spent_j = jnp.array([1 - 2e-7, 0.5, 1 + 1e-7], jnp.float32)
    left = within_budget(uplink_of_ones(3), 1.0, spent_j, 10.0)
    assert left.ready.tolist() == [False, True, False]
    np.testing.assert_allclose(left.max_power_w[1], 5.0)


def uplink_of_ones(n):
    return Uplink(
        channel=jnp.ones(n, complex), ready=jnp.ones(n, bool), noise_power_w=jnp.zeros(()),
        max_power_w=jnp.asarray(15.0), noise_key=jax.random.key(0),
    )  # fmt: skip


def test_uploads_have_no_budget():
    table = {**SMALL, "power": {"energy_budget_j": 1.0}, "algorithms": [{"name": "fedbuff"}]}
    with pytest.raises(paota.UserError, match="energy_budget_j needs transmissions over the air"):
        paota.run(table)
