"""Names, paths, the shipped sets, and `Dataset` itself."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.base.registry import DATASETS
from paota.data import mnist
from paota.data.dataset import Dataset
from paota.data.load import load_data, load_dataset
from paota.experiment.experiment import Experiment

# The checksums under which the unpacked MNIST files are known everywhere.
PUBLISHED_SHA256 = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def test_mnist_is_the_published_one():
    for name, expected in PUBLISHED_SHA256.items():
        content = gzip.decompress((mnist.FOLDER / name).read_bytes())
        assert hashlib.sha256(content).hexdigest() == expected


def test_mnist_loads():
    dataset = load_dataset("mnist")
    assert dataset.name == "mnist"
    assert dataset.x_train.shape == (60_000, 28, 28)
    assert dataset.x_test.shape == (10_000, 28, 28)
    assert dataset.num_classes == 10
    assert dataset.x_train.dtype == np.uint8
    # Figures known from the literature: mean and standard deviation of a pixel, the counts of the digits.
    assert dataset.x_train.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert dataset.x_train.std() / 255 == pytest.approx(0.3081, abs=5e-5)
    assert np.bincount(dataset.y_train).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(dataset.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_damaged_or_missing_mnist_is_noticed(tmp_path):
    folder = shutil.copytree(mnist.FOLDER, tmp_path / "mnist", ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    path = folder / "t10k-labels-idx1-ubyte.gz"
    content = bytearray(path.read_bytes())
    content[4] ^= 1  # the packing date: gzip itself would not mind
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"t10k-labels-idx1-ubyte.gz: the shipped MNIST file is damaged"):
        mnist.load_from(folder)
    path.unlink()
    with pytest.raises(UserError, match=r"the shipped MNIST file cannot be read .* reinstall paota"):
        mnist.load_from(folder)


def test_synthetic_never_changes():
    dataset = load_dataset("synthetic")
    assert dataset.x_train.shape == (2_000, 8, 8)
    assert dataset.x_test.shape == (500, 8, 8)
    assert np.bincount(dataset.y_train).tolist() == [200] * 10
    assert np.bincount(dataset.y_test).tolist() == [50] * 10
    digest = hashlib.sha256(dataset.x_train.tobytes() + dataset.x_test.tobytes()).hexdigest()
    assert digest == "c9775ab73b102ba228c5adc0e08dfbd4150239fd729256657564e07f07d11213"


def test_synthetic_is_learnable_but_not_by_one_pixel():
    dataset = load_dataset("synthetic")
    x, test = dataset.x_train.reshape(2_000, 64) / 255.0, dataset.x_test.reshape(500, 64) / 255.0
    means = np.stack([x[dataset.y_train == c].mean(axis=0) for c in range(10)])
    nearest = ((test[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == dataset.y_test).mean() > 0.95
    best_pixel = max(
        (np.abs(test[:, [p]] - means[:, p]).argmin(axis=1) == dataset.y_test).mean() for p in range(x.shape[1])
    )
    assert best_pixel < 0.4


def test_sets_are_shared_and_read_only():
    assert load_dataset("mnist") is load_dataset("mnist")
    with pytest.raises(ValueError, match="read-only"):
        load_dataset("synthetic").x_train[0] = 0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mnst", "unknown dataset 'mnst': did you mean 'mnist'? (nor is there a folder or .npz file of that name)"),
        ("", "unknown dataset ''"),
        ("   ", "unknown dataset '   '"),
        ("no/such/folder", "dataset 'no/such/folder' not found: there is no folder or .npz file"),
        ("mine.npz", "dataset 'mine.npz' not found"),
        ("a\0b", "unknown dataset 'a?b'"),
        ("\udcff", "unknown dataset '?'"),
        ("x" * 5000, "cannot be read (File name too long)"),
        ("~nobody-of-this-name/data", "cannot be read"),
        ("notes.txt", "dataset 'notes.txt' is neither a folder of IDX or .npy files, nor an .npz file"),
    ],
)
def test_what_cannot_be_found(tmp_path, name, sentence):
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UserError) as caught:
        load_dataset(name, base=tmp_path)
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 600


def test_relative_paths_start_at_the_base(tmp_path, monkeypatch, write_folder, npz_bytes):
    write_folder(tmp_path / "mine")
    (tmp_path / "mine" / "small.NPZ").write_bytes(npz_bytes())
    assert load_dataset("mine", base=tmp_path).name == "mine"
    assert load_dataset("mine/small.NPZ", base=tmp_path).name == "small.NPZ"
    with pytest.raises(UserError, match="unknown dataset 'mine'"):
        load_dataset("mine", base=tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    assert load_dataset("mine").name == "mine"
    assert load_dataset(".", base=tmp_path / "mine").name == "mine"


def test_a_registered_name_wins_over_a_folder(tmp_path, write_folder):
    write_folder(tmp_path / "synthetic")
    assert load_dataset("synthetic", base=tmp_path).input_shape == (8, 8)
    assert load_dataset("./synthetic", base=tmp_path).input_shape == (4, 5)


def test_an_experiment_takes_a_dataset_as_it_is(monkeypatch, arrays):
    monkeypatch.setattr(DATASETS, "_things", dict(DATASETS._things))
    for _ in range(2):  # a cell of a notebook that is run again
        made = Dataset.from_arrays(name="mine", **arrays)
        assert Experiment.from_dict({"data": {"dataset": made}}).data.dataset == "mine"
        assert load_dataset("mine").equals(made)
    other = Experiment.from_dict({"data": {"dataset": Dataset.from_arrays(name="mnist", **arrays)}})
    assert other.data.dataset == "mnist-2"


def test_a_registered_dataset_of_ones_own(monkeypatch, arrays):
    made = Dataset.from_arrays(name="mine", **arrays)
    monkeypatch.setitem(DATASETS._things, "mine", lambda: made)
    monkeypatch.setitem(DATASETS._things, "wrong", lambda: arrays)
    assert load_dataset("mine") is made
    with pytest.raises(UserError, match="the registered dataset 'wrong' gave dict"):
        load_dataset("wrong")


def test_a_data_set_can_be_given_again_under_any_name(arrays):
    """A given object keeps its name and its samples, beside a registered one and a living one of the same name."""

    def given(dataset, **more):
        return Experiment.from_dict({"data": {"dataset": dataset, **more}})

    mnist_again = given(load_dataset("mnist"))
    assert mnist_again.to_dict()["data"]["dataset"] == "mnist"
    scaled = given(load_dataset("mnist").normalised())
    assert load_data(scaled.data).scaling is not None
    one, other = (Dataset.from_arrays(name="toy", **{**arrays, "x_train": arrays["x_train"] + i}) for i in range(2))
    first, second = given(one), given(other)
    assert [e.data.dataset for e in (first, second, given(one))] == ["toy", "toy-2", "toy"]
    for experiment, dataset in ((first, one), (second, other), (second.override({"rounds": 3}), other)):
        assert load_data(experiment.data).equals(dataset)


@pytest.mark.parametrize("thing", [(np.zeros((3, 2)), np.zeros(3)), {"x_train": 1}, type("TensorDataset", (), {})()])
def test_what_is_no_data_set_is_told_how_to_become_one(thing):
    with pytest.raises(UserError, match=r"not (tuple|dict|TensorDataset): paota.Dataset.from_torch\(train, test\) and"):
        Experiment.from_dict({"data": {"dataset": thing}})


def test_a_dataset_leaves_the_callers_arrays_alone(arrays):
    own = {key: value.copy() for key, value in arrays.items()}
    Dataset.from_arrays(name="mine", **own)
    own["x_train"][0] = 1  # still writable


def test_a_dataset_made_by_hand_is_checked(arrays):
    right = {key: value.astype(np.int32) if key[0] == "y" else value for key, value in arrays.items()}
    Dataset(name="mine", num_classes=3, **right)
    for change, sentence in (
        ({"num_classes": 2}, "y_train holds labels outside 0..1"),
        ({"num_classes": 1}, "num_classes must lie between 2 and"),
        ({"y_train": arrays["y_train"]}, "y_train must be an int32 vector, not uint8"),
        ({"x_train": arrays["x_train"].astype(float)}, "x_train must be uint8 or float32, not float64"),
    ):
        with pytest.raises(UserError, match=sentence):
            Dataset(name="mine", **{"num_classes": 3, **right, **change})


def test_loading_does_not_import_jax():
    code = "import sys, paota.data.load as d; d.load_dataset('mnist'); sys.exit('jax' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
