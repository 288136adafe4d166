"""Device scores against values computed by hand and against a direct evaluation."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import paota
from paota.base import files
from paota.data.dataset import Dataset
from paota.data.shards import Shards
from paota.results import device_scores as fairness
from paota.results import measures
from paota.results.folder import checksums, load
from paota.simulate import prepare
from paota.training.learner import as_float

SMALL = {
    "name": "small", "rounds": 6, "data": {"dataset": "synthetic", "devices": 12, "sizes": [20, 40]},
    "model": {"hidden": [8]}, "training": {"local_steps": 2, "batch_size": 8},
    "evaluation": {"every": 2, "train_loss": "batches", "devices_every": 2},
    "algorithms": [{"name": "paota"}, {"name": "local-sgd"}],
}  # fmt: skip


def three_labels(y_train, y_test):
    def x(y):
        return np.zeros((len(y), 2), np.float32)

    return Dataset.from_arrays(name="three", x_train=x(y_train), y_train=y_train, x_test=x(y_test), y_test=y_test)


def test_every_label_counts_as_often_as_the_device_holds_it() -> None:
    # Of the test samples with labels 0, 1, 2 there are 4, 2, none; 3 of 4 and 1 of 2 are right.
    dataset = three_labels([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1])
    right = np.array([3.0, 1.0, 0.0])
    shards = Shards(indices=np.array([0, 1, 2, 3, 4, 4, 5]), offsets=np.array([0, 3, 5, 7]))
    own = fairness.own_scores(right, dataset, shards)
    # Device 0 holds 0, 0, 1: 2/3 * 3/4 + 1/3 * 1/2. Device 1 holds 1 and 2, of which only 1 is in the test set.
    np.testing.assert_allclose(own[:2], [2 / 3, 1 / 2])
    assert math.isnan(own[2])


@pytest.mark.parametrize(("every", "rounds"), [(0, [9]), (1, [3, 6, 9]), (2, [6, 9])])
def test_every_nth_evaluation_and_always_the_last(every: int, rounds: list[int]) -> None:
    dataset = three_labels([0, 1], [0, 1])
    shards = Shards(indices=np.array([0, 1]), offsets=np.array([0, 1, 2]))
    records = fairness.device_score_records(np.array([3, 6, 9]), np.eye(3)[:, :2], dataset, shards, every=every)
    assert records["round"].tolist() == np.repeat(rounds, 2).tolist()
    assert records["device"].tolist() == [0, 1] * len(rounds)
    assert records["accuracy"][-2:].tolist() == [0, 0]


def test_tenths_are_means_of_whole_devices() -> None:
    values = [*np.linspace(0.1, 2.0, 20), math.nan]
    assert measures.worst_tenth(values) == pytest.approx(0.15)
    assert measures.best_tenth(values) == pytest.approx(1.95)
    assert measures.worst_tenth([0.3, 0.1]) == 0.1
    assert math.isnan(measures.worst_tenth([math.nan]))
    assert measures.deviation([0.0, 1.0, math.nan]) == 0.5


@pytest.fixture(scope="module")
def result():
    return paota.run(SMALL)


def test_records_agree_with_a_plain_evaluation(result) -> None:
    made = prepare(result.experiment)
    data, shards, run = made.dataset, made.shards[0], result.of("paota")[0]
    model = made.model
    _, unravel = ravel_pytree(model.init(paota.base.rng.device_key(0, 0), data.input_shape, data.num_classes))
    outputs = model.apply(unravel(jnp.asarray(run.model)), as_float(jnp.asarray(data.x_test)))
    right = np.argmax(outputs, axis=1) == data.y_test
    by_label = np.array([right[data.y_test == label].mean() for label in range(data.num_classes)])
    expected = [by_label[data.y_train[shards.of(device)]].mean() for device in range(12)]
    np.testing.assert_allclose(fairness.final_scores(run.device_scores), expected, rtol=1e-6)
    assert np.unique(run.device_scores["round"]).tolist() == [4, 6]  # looks at 2, 4 and 6; every second, and the last


def test_one_row_a_device_beside_how_it_was_heard(result) -> None:
    table, run = result.by_device("paota"), result.of("paota")[0]
    assert table["device"].tolist() == list(range(12))
    assert set(table["samples"]) <= {20, 40}
    busiest = int(np.argmax(table["participation"]))
    rows = run.devices["device"] == busiest
    assert table["participation"][busiest] == rows.sum() / 6
    assert table["staleness_mean"][busiest] == pytest.approx(run.devices["staleness"][rows].mean())
    assert table["channel_gain_mean"][busiest] == pytest.approx(run.devices["channel_gain"][rows].mean())
    assert np.isnan(result.by_device("local-sgd")["channel_gain_mean"]).all()
    found = result.summary["algorithms"]["paota"]["devices"]
    assert found["worst_tenth"]["values"] == [measures.worst_tenth(table["accuracy"])]
    assert found["worst_tenth"]["mean"] <= found["best_tenth"]["mean"]


def test_a_folder_brings_them_back_and_an_old_one_opens_without(result, tmp_path) -> None:
    folder = result.save(tmp_path / "run", report=False)
    again = load(folder)
    np.testing.assert_array_equal(again.device_scores["accuracy"], result.device_scores["accuracy"])
    assert again.to_pandas("device_scores").columns.tolist() == [
        "label",
        "seed",
        "round",
        "device",
        "samples",
        "accuracy",
    ]
    (folder / "device_scores.npz").unlink()
    old = load(folder, check=False)
    assert old.summary["algorithms"]["paota"]["devices"] == {}
    assert np.isnan(old.by_device("paota")["accuracy"]).all()
    assert (old.by_device("paota")["participation"] > 0).any()


def test_a_folder_with_the_names_of_an_older_version_is_read(tmp_path, result):
    """Columns and a file had other names; the checksums are those of the older files."""
    folder = result.save(tmp_path / "run", report=False)
    old = {"amplitude": "power", "transmit_power_w": "transmit_w"}
    table = files.read_npz(folder / "devices.npz")
    files.write_npz(folder / "devices.npz", {old.get(name, name): column for name, column in table.items()})
    (folder / "device_scores.npz").rename(folder / "own.npz")
    text = (folder / "metrics.csv").read_text()
    for new, former in (("amplitude_sum", "power_sum"), ("transmit_power_w_m", "transmit_w_m")):
        assert new in text
        text = text.replace(new, former)
    (folder / "metrics.csv").write_text(text)
    info = json.loads((folder / "run.json").read_text())
    info["checksums"] = {**checksums(folder), "run.json": info["checksums"]["run.json"]}
    (folder / "run.json").write_text(json.dumps(info))

    again = load(folder)
    for name in ("metrics", "devices", "device_scores"):
        assert list(getattr(again, name)) == list(getattr(result, name))
    np.testing.assert_array_equal(again.devices["amplitude"], result.devices["amplitude"])
