"""Data sets of other libraries, by their protocol alone."""

from __future__ import annotations

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.data.dataset import Dataset


class Tensor:
    """The relevant part of a `torch.Tensor`: it converts to an array, and it can permute its axes."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)

    def permute(self, *axes):
        return Tensor(self.array.transpose(axes))


class Pairs:
    """A map-style `torch.utils.data.Dataset`, which does not end by itself when it is iterated over."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i % len(self.items)]


RNG = np.random.default_rng(5)
IMAGES = RNG.random((4, 3, 5, 6)).astype(np.float32)  # [N, C, H, W]


def test_torch_tensors_get_their_channels_last():
    pairs = Pairs(*[(Tensor(image), Tensor(i % 3)) for i, image in enumerate(IMAGES)])
    dataset = Dataset.from_torch(pairs, pairs, name="mine")
    assert dataset.name == "mine"
    assert dataset.input_shape == (5, 6, 3)
    np.testing.assert_array_equal(dataset.x_train, IMAGES.transpose(0, 2, 3, 1))
    assert dataset.y_test.tolist() == [0, 1, 2, 0]
    as_they_are = Dataset.from_torch(pairs, pairs, channels_first=False)
    np.testing.assert_array_equal(as_they_are.x_train, IMAGES)


def test_arrays_and_iterable_sets_are_taken_as_they_are():
    pixels = RNG.integers(256, size=(4, 5, 6, 3), dtype=np.uint8)
    pairs = [(image, i) for i, image in enumerate(pixels)]
    dataset = Dataset.from_torch(Pairs(*pairs), (pair for pair in pairs))
    np.testing.assert_array_equal(dataset.x_train, pixels)
    np.testing.assert_array_equal(dataset.x_test, pixels)
    assert dataset.x_train.dtype == np.uint8


def test_a_real_torch_dataset():
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(IMAGES), torch.arange(4))
    dataset = Dataset.from_torch(pairs, pairs)
    np.testing.assert_array_equal(dataset.x_train, IMAGES.transpose(0, 2, 3, 1))
    assert dataset.y_train.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("train", "sentence"),
    [
        (Pairs(), "the torch train set: is empty"),
        (Pairs((np.zeros(3), 0, 1)), "the torch train set: item 0 is not a pair (input, label)"),
        (Pairs((np.zeros(3), 0), (np.zeros(4), 0)), "inputs differ in shape, (3,) at item 0 but (4,) at item 1"),
        (Pairs((np.zeros(3), None)), "item 0 holds NoneType, which is no array of numbers"),
        (Pairs((np.zeros(3), [0, 1])), "y_train has shape (1, 2), and labels must be one whole number"),
        (7, "the torch train set: int can be neither indexed nor iterated over"),
    ],
)
def test_wrong_torch_sets(train, sentence):
    with pytest.raises(UserError) as caught:
        Dataset.from_torch(train, Pairs((np.zeros(3), 0)))
    assert sentence in str(caught.value)


ROWS = [
    {"img": image, "fine": i % 2, "writer": name}
    for i, (image, name) in enumerate(zip(IMAGES, ["zoe", "ann", "zoe", "bob"], strict=True))
]


def test_hugging_face_columns():
    dataset = Dataset.from_hugging_face(ROWS, iter(ROWS[:2]), x="img", y="fine", device="writer", name="mine")
    np.testing.assert_array_equal(dataset.x_train, IMAGES)
    assert dataset.y_train.tolist() == [0, 1, 0, 1]
    assert dataset.device_train.tolist() == [2, 0, 2, 1]  # in alphabetical order
    assert len(dataset.x_test) == 2


def test_a_real_hugging_face_dataset():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"image": IMAGES.tolist(), "label": [0, 1, 2, 3]})
    dataset = Dataset.from_hugging_face(rows, rows)
    np.testing.assert_array_equal(dataset.x_train, IMAGES)
    assert dataset.y_train.tolist() == [0, 1, 2, 3]


def test_a_column_that_is_not_there():
    with pytest.raises(UserError, match=r"train set: has no column 'image' \(it holds img, fine, writer\)"):
        Dataset.from_hugging_face(ROWS, ROWS)
