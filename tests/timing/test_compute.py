"""Latency that knows the work, broadcasts that cost: from the settings to a run."""

import json

import numpy as np
import pytest

import paota
from paota import Experiment, UserError
from paota.cli import main
from paota.models.cnn import LeNet5
from paota.models.mlp import Mlp
from paota.models.resnet import ResNet
from paota.simulate import prepare
from paota.training.batches import flop_per_sample

DATA = {"dataset": "synthetic", "devices": 20, "sizes": [60]}


def planned(*algorithms, rounds=4, **sections):
    named = [{"name": name} if isinstance(name, str) else name for name in algorithms or ("paota",)]
    table = {"rounds": rounds, "data": DATA, "algorithms": named, **sections}
    return prepare(Experiment.from_dict(table))


def needed_s(made, label="paota"):
    timeline = made.timelines[label, 0]
    return timeline.finish_s - timeline.start_s


def test_operations_of_a_dense_network_by_hand():
    """784-10-10-10: forward 2 (7840 + 100 + 100); backward as much for the weights, and 2 (100 + 100) for the layers below."""
    by_hand = 2 * 8040 + 2 * 8040 + 2 * 200
    assert flop_per_sample(Mlp(), (28, 28), 10) == pytest.approx(by_hand, rel=0.02)


def test_operations_of_convolutions_grow_with_the_image():
    small, large = (flop_per_sample(ResNet(), (size, size, 3), 10) for size in (16, 32))
    assert large / small == pytest.approx(4, rel=0.1)
    assert flop_per_sample(LeNet5(), (28, 28), 10) > 20 * flop_per_sample(Mlp(), (28, 28), 10)


def test_seconds_are_operations_over_speed():
    """One class of 1 GFLOP/s, no spread, no jitter: 5 x 32 samples x 1e6 operations take 0.16 s, and a block d/B more."""
    timing = {
        "latency": "work", "classes": ["mine"], "class_gflop_per_s": [10.0], "class_power_w": [3.0], "efficiency": 0.1,
        "spread": 0.0, "jitter": 0.0, "flop_per_sample": 1e6, "period_s": 1.0,
    }  # fmt: skip
    made = planned("paota", "local-sgd", timing=timing, air={"bandwidth_hz": 1e4})
    d = 870
    np.testing.assert_allclose(needed_s(made), 0.16 + d / 1e4)
    np.testing.assert_allclose(needed_s(made, "local-sgd"), 0.16)
    twice = planned(timing=timing, training={"local_steps": 10}, air={"bandwidth_hz": 1e4})
    np.testing.assert_allclose(needed_s(twice), 0.32 + d / 1e4)
    costs = made.costs[made.experiment.algorithms[0].label, 0]
    np.testing.assert_array_equal(costs.compute_power_w, np.full(20, 3.0))


def test_a_larger_model_takes_longer():
    timing = {"latency": "work", "period_s": 0.1}
    small, large = (needed_s(planned(timing=timing, model={"name": "mlp", "hidden": [n, n]})) for n in (10, 100))
    assert np.median(large) > 5 * np.median(small)


def test_classes_spread_and_jitter():
    from paota.timing.compute import ComputeLatency, LatencyContext

    around = LatencyContext(5000, 0, None, lambda device, training: np.ones(len(device)), lambda: 1e9)
    made = ComputeLatency(classes=("board", "laptop"), shares=(3, 1)).latencies(around)
    assert (made.device_class == 0).mean() == pytest.approx(0.75, abs=0.02)
    speed = made.gflop_per_s[made.device_class == 1]
    assert np.median(speed) == pytest.approx(55.68, rel=0.03)
    assert np.log(speed).std() == pytest.approx(0.25, rel=0.1)
    everyone = np.arange(5000)
    first, second = made(everyone, everyone * 0), made(everyone, everyone * 0 + 1)
    assert np.log(first / second).std() == pytest.approx(0.1 * np.sqrt(2), rel=0.05)
    few = ComputeLatency(classes=("board", "laptop"), shares=(3, 1)).latencies(
        LatencyContext(10, 0, None, around.samples, around.flop_per_sample)
    )
    np.testing.assert_array_equal(few(everyone[:10], everyone[:10] * 0), first[:10])


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        ({"latency": "work", "classes": ["phone"]}, "unknown class of devices in timing.classes 'phone'"),
        ({"latency": "work", "shares": [1.0]}, "one number for each of the 5 classes"),
        ({"latency": "work", "class_power_w": [1.0]}, "class_power_w has 1 values for 5 classes"),
        ({"latency": "fleet"}, "needs timing.fleet_file with a column latency_s"),
        ({"fleet_file": "nowhere.csv"}, "no such fleet file"),
        ({"fleet_repeat_s": 5.0}, "fleet_repeat_s needs timing.fleet_file"),
    ],
)
def test_what_cannot_be_is_refused(timing, says):
    with pytest.raises(UserError, match=says):
        planned(timing=timing)


def test_what_a_fleet_says_of_speed_is_never_left_aside(tmp_path):
    (tmp_path / "fleet.csv").write_text("device,latency_s\na,3\nb,5\n")
    with pytest.raises(UserError, match=r"choose timing\.latency = 'fleet'"):
        planned(timing={"fleet_file": str(tmp_path / "fleet.csv")})
    made = planned(timing={"fleet_file": str(tmp_path / "fleet.csv"), "latency": "fleet"})
    timeline = made.timelines["paota", 0]
    np.testing.assert_allclose(needed_s(made), np.where(timeline.device % 2 == 0, 3, 5))


def test_a_fleet_s_rates_are_those_of_transfers(tmp_path):
    """870 weights of 32 bits: 0.01 Mbit/s down takes 2.784 s, 0.02 Mbit/s up half of that."""
    (tmp_path / "fleet.csv").write_text("device,down_mbit_per_s,up_mbit_per_s\na,0.01,0.02\n")
    file = str(tmp_path / "fleet.csv")
    timing = {"latency": "per-device", "low_s": 1.0, "high_s": 1.0, "fleet_file": file}
    made = planned("paota", "local-sgd", timing=timing, air={"downlink": "digital", "digital": "rated"})
    np.testing.assert_allclose(needed_s(made), 1 + 2.784)
    np.testing.assert_allclose(needed_s(made, "local-sgd"), 1 + 2.784 + 1.392)
    spent = paota.run(made.experiment.override({"rounds": 1})).trajectories[1].devices
    np.testing.assert_allclose(spent["compute_j"], 1.0)  # neither transfer is computing
    np.testing.assert_allclose(spent["energy_j"], 1.392)


def test_who_misses_a_broadcast_is_staler():
    heard = planned(rounds=60)
    lossy = planned(rounds=60, air={"downlink": "digital", "broadcast_loss": 0.5, "down_mbit_per_s": 1e6})
    assert lossy.timelines["paota", 0].staleness.mean() > 1 + heard.timelines["paota", 0].staleness.mean()
    np.testing.assert_array_equal(lossy.timelines["paota", 0].device, heard.timelines["paota", 0].device)
    never = planned(rounds=10, air={"downlink": "digital", "broadcast_loss": 1.0, "down_mbit_per_s": 1e6})
    assert (never.timelines["paota", 0].version == 0).all()  # the first one always arrives


def test_the_noise_of_an_analog_broadcast_is_as_derived():
    import jax
    import jax.numpy as jnp

    from paota.air.downlink import as_heard

    made = Experiment.from_dict(
        {"air": {"downlink": "analog", "server_power_w": 2.0, "fading": "none", "n0_dbm_per_hz": -50.0}}
    )
    model = jax.random.normal(jax.random.key(1), (3, 4000))
    version, device = jnp.array([4, 4, 4]), jnp.array([0, 1, 0])
    heard = as_heard(made.air, jax.random.key(0), model, version, device)
    noise_w = 1e-8 * 20e6  # N0 B = 0.2 W
    expected = jnp.sqrt(noise_w / 2 * jnp.sum(model**2, axis=1) / 2.0)
    np.testing.assert_allclose(jnp.std(heard - model, axis=1), expected, rtol=0.05)
    again = as_heard(made.air, jax.random.key(0), model[:1], version[:1], device[:1])
    np.testing.assert_allclose(again[0], heard[0], rtol=1e-6)  # the noise does not depend on the other devices
    assert abs(np.corrcoef(heard[0] - model[0], heard[1] - model[1])[0, 1]) < 0.1


def test_a_silent_broadcast_changes_no_model():
    """Analog, with noise far below everything: equal to the ideal one up to the last digits."""
    table = {"rounds": 3, "data": DATA, "algorithms": [{"name": "paota"}]}
    ideal = paota.run(table)
    quiet = paota.run({**table, "air": {"downlink": "analog"}})
    noisy = paota.run({**table, "air": {"downlink": "analog", "server_power_w": 1e-5, "n0_dbm_per_hz": -120.0}})
    for one, other, loud in zip(ideal.trajectories, quiet.trajectories, noisy.trajectories, strict=True):
        np.testing.assert_allclose(other.model, one.model, rtol=1e-3, atol=1e-5)
        assert np.abs(loud.model - one.model).max() > 1e-3


def test_a_fleet_in_an_experiment_file_and_in_the_identity_of_a_run(tmp_path):
    from paota.simulate import identity

    (tmp_path / "fleet.csv").write_text("device,time_s,available\na,0,1\nb,0,0\nb,20,1\n")
    (tmp_path / "e.toml").write_text(
        'rounds = 4\n[data]\ndataset = "synthetic"\ndevices = 4\nsizes = [30]\n[timing]\nfleet_file = "fleet.csv"\n'
        '[[algorithms]]\nname = "paota"\n'
    )
    experiment = Experiment.from_file(tmp_path / "e.toml")
    made = prepare(experiment)
    early = made.timelines["paota", 0].time_s[made.timelines["paota", 0].event] < 20
    assert set(made.timelines["paota", 0].device[early]) <= {0, 2}
    before = identity(made)["contents"]
    assert str(tmp_path / "fleet.csv") in before
    (tmp_path / "fleet.csv").write_text("device,time_s,available\na,0,1\nb,0,1\n")
    assert identity(prepare(experiment))["contents"] != before


def test_an_algorithm_s_own_fleet_is_found_beside_the_file_too(tmp_path):
    (tmp_path / "fleet.csv").write_text("device,latency_s\na,3\n")
    own = {"name": "paota", "timing": {"fleet_file": "fleet.csv", "latency": "fleet"}}
    made = Experiment.from_dict({"algorithms": [own]}, base=tmp_path)
    assert made.algorithms[0].timing.fleet_file == str((tmp_path / "fleet.csv").resolve())


def test_the_command_makes_and_describes(tmp_path, capsys):
    file = tmp_path / "phones.csv"
    assert main(["fleet", str(file), "--make", "50", "--days", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "50 devices" in said
    assert "fleet_repeat_s = 172800" in said
    assert "of the devices are available: at least" in said
    assert "90% below" in said
    assert main(["fleet", str(file), "--json", "--repeat", "172800"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["devices"] == 50
    assert 0.3 < numbers["mean_share"] < 0.7
    for arguments, says in [
        ([str(tmp_path / "none.csv")], "no such fleet file"),
        ([str(file), "--repeat", "60"], "would cut off"),
        ([str(file), "--make", "0"], "at least 1 device"),
        ([str(tmp_path / "no" / "f.csv"), "--make", "5"], "no folder"),
    ]:
        assert main(["fleet", *arguments]) == 2
        assert says in capsys.readouterr().err
