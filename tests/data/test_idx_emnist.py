"""EMNIST in IDX: upright images, labels from 0, one split of several."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.data.load import load_dataset


@pytest.fixture
def write(tmp_path, arrays, make_idx):
    """write(split, first_label): the four files of one split, labels raised by `first_label`."""

    def make(split: str, *, first_label: int = 0, packed: bool = True):
        for key, array in arrays.items():
            what, part = key.split("_")
            stored = array.transpose(0, 2, 1) if what == "x" else array + np.uint8(first_label)
            name = f"emnist-{split}-{part}-{'images-idx3' if what == 'x' else 'labels-idx1'}-ubyte"
            content = make_idx(stored)
            (tmp_path / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
        return tmp_path

    return make


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("split", "first_label"), [("balanced", 0), ("letters", 1), ("letters", 0)])
def test_one_split(write, arrays, split, first_label, packed):
    dataset = load_dataset(str(write(split, first_label=first_label, packed=packed)))
    assert dataset.name == f"emnist-{split}"
    assert dataset.num_classes == 3
    for key, expected in arrays.items():
        np.testing.assert_array_equal(getattr(dataset, key), expected)


def test_only_letters_start_at_one(write):
    assert load_dataset(str(write("digits", first_label=1))).num_classes == 4


def test_several_splits_need_a_choice(write):
    write("letters", first_label=1)
    folder = write("balanced")
    with pytest.raises(
        UserError, match=r"several splits \(emnist-balanced, emnist-letters\): name a file of one of them"
    ):
        load_dataset(str(folder))
    chosen = load_dataset(str(folder / "emnist-letters-train-images-idx3-ubyte.gz"))
    assert chosen.name == "emnist-letters"
    assert chosen.num_classes == 3


def test_a_missing_file_is_named(write):
    folder = write("balanced")
    (folder / "emnist-balanced-test-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UserError, match="holds no file emnist-balanced-test-labels-idx1-ubyte"):
        load_dataset(str(folder))
