"""Folders of `.npy` files: mapped, not read; and what is refused."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.data.load import load_dataset


@pytest.fixture
def write(tmp_path, arrays):
    def make(**changed: np.ndarray | None):
        for key, array in {**arrays, **changed}.items():
            if array is not None:
                np.save(tmp_path / f"{key}.npy", array)
        return tmp_path

    return make


def is_mapped(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_inputs_stay_on_the_disk(write, arrays, dtype):
    inputs = {key: arrays[key].astype(dtype) for key in ("x_train", "x_test")}
    dataset = load_dataset(str(write(**inputs)))
    for key, expected in {**arrays, **inputs}.items():
        np.testing.assert_array_equal(getattr(dataset, key), expected)
    assert dataset.x_train.dtype == dtype
    assert is_mapped(dataset.x_train)
    assert is_mapped(dataset.x_test)
    assert not dataset.x_train.flags.writeable


@pytest.mark.parametrize("change", [lambda x: x.astype(">f8"), lambda x: np.asfortranarray(x.astype(np.float32))])
def test_other_layouts_are_converted(write, arrays, change):
    dataset = load_dataset(str(write(x_train=change(arrays["x_train"]), x_test=change(arrays["x_test"]))))
    assert dataset.x_train.dtype == np.float32
    np.testing.assert_array_equal(dataset.x_train, arrays["x_train"])


def test_device_train_is_found(write):
    assert load_dataset(str(write(device_train=np.array([4, 4, 9, 9, 9, 4])))).device_train.tolist() == [
        4,
        4,
        9,
        9,
        9,
        4,
    ]
    assert load_dataset(str(write())).device_train is not None


WRONG = {
    "objects": ({"x_train": np.array([{"a": 1}, None])}, "x_train.npy: is not a plain array of numbers (objects"),
    "records": ({"x_train": np.zeros(2, [("a", "f4")])}, "x_train.npy: is not a plain array of numbers"),
    "other lengths": ({"y_train": np.arange(4)}, "x_train holds 6 samples but y_train holds 4 labels"),
    "no samples": ({"x_train": np.zeros((0, 4, 5), np.uint8)}, "x_train is empty"),
    "labels out of range": ({"y_test": np.array([0, 1, -2])}, "y_test holds the negative label -2"),
    "too many classes": ({"y_train": np.arange(6) * 100_000}, "y_train holds the label 500000"),
    "too few devices": ({"device_train": np.arange(5)}, "device_train names 5 devices for 6 training samples"),
    "devices in between": ({"device_train": np.linspace(0, 1, 6)}, "device_train holds float64"),
    "devices in a matrix": ({"device_train": np.zeros((6, 2), int)}, "device_train must be an int64 vector"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arrays(write, case):
    changed, sentence = WRONG[case]
    with pytest.raises(UserError) as caught:
        load_dataset(str(write(**changed)))
    assert sentence in str(caught.value)


def test_missing_files_are_named(write):
    folder = write()
    (folder / "y_test.npy").unlink()
    with pytest.raises(UserError, match=r"lacks y_test.npy$"):
        load_dataset(str(folder))


@pytest.mark.parametrize(("change", "sentence"), [(-1, "is truncated, its header"), (1, "has 1 bytes left over")])
def test_wrong_lengths(write, change, sentence):
    path = write() / "x_train.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] if change < 0 else content + b"\0")
    with pytest.raises(UserError, match=sentence):
        load_dataset(str(path.parent))


def test_npz_brings_devices_too(tmp_path, npz_bytes):
    path = tmp_path / "mine.npz"
    path.write_bytes(npz_bytes(device_train=np.array([[0], [0], [1], [1], [1], [0]], np.int32)))
    assert load_dataset(str(path)).device_train.tolist() == [0, 0, 1, 1, 1, 0]
    path.write_bytes(npz_bytes(device_train=np.arange(7)))
    with pytest.raises(UserError, match=r"mine.npz: device_train names 7 devices for 6 training samples"):
        load_dataset(str(path))
