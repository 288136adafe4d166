"""The partition by an id column."""

from __future__ import annotations

import numpy as np
import pytest

from paota.base.errors import UserError
from paota.base.registry import PARTITIONS
from paota.data.dataset import Dataset
from paota.data.partition import Iid, Natural, deal


def dataset_of(device_train) -> Dataset:
    n = 6
    x, y = np.zeros((n, 2), np.float32), np.zeros(n, int)
    return Dataset.from_arrays(name="mine", x_train=x, y_train=y, x_test=x, y_test=y, device_train=device_train)


def dealt(device_train, devices, seed=0):
    shards = deal(Natural(), dataset_of(device_train), devices=devices, rng=np.random.default_rng(seed))
    return [shards.of(k).tolist() for k in range(shards.num_devices)]


@pytest.mark.parametrize("ids", [[7, -3, 7, 100, -3, 7], ["b", "a", "b", "c", "a", "b"]])
def test_one_device_for_each_id_in_their_order(ids):
    assert (dealt([7, -3, 7, 100, -3, 7], 3)) == [[1, 4], [0, 2, 5], [3]]
    order = sorted(set(ids))
    assert dealt(ids, 3) == [[i for i, one in enumerate(ids) if one == wanted] for wanted in order]


def test_fewer_devices_are_a_random_choice():
    ids = [0, 1, 2, 0, 1, 2]
    whole = dealt(ids, 3)
    found = {tuple(map(tuple, dealt(ids, 2, seed))) for seed in range(20)}
    assert found == {tuple(tuple(whole[k]) for k in pair) for pair in ((0, 1), (0, 2), (1, 2))}
    assert dealt(ids, 2, seed=5) == dealt(ids, 2, seed=5)


def test_more_devices_than_ids_are_refused():
    with pytest.raises(UserError, match=r"data.devices = 100, but device_train of mine names 3: set data.devices to 3"):
        dealt([0, 1, 2, 0, 1, 2], 100)


def test_without_ids():
    with pytest.raises(UserError, match=r"data.partition = 'natural' needs an array device_train, and mine has none"):
        dealt(None, 3)


def test_registered_and_others_are_dealt_by_labels():
    assert PARTITIONS["natural"] is Natural
    data = dataset_of(np.zeros(6, int))
    one = deal(Iid(), data, devices=2, rng=np.random.default_rng(1))
    other = Iid()(data.y_train, devices=2, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(one.indices, other.indices)
