"""Devices as people: how well the global model serves each of them.

**A device's own accuracy** is the accuracy on test samples, with every label counting as often as among the device's own
training samples: what its owner would see on new data of the same kind. It needs no further pass through the model: the
test set's right answers are counted by label at every look. A label that the test set lacks does not count; a device
that holds no other has no own accuracy (NaN). Where the model brings its own score, that score takes the accuracy's place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..base.files import Columns
from ..data.dataset import kinds_of

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..data.shards import Shards

Floats = NDArray[np.float64]
MAX_RECORDS = 2_000_000  # rows of a trajectory; of more, the last looks are kept


def own_scores(score_by_label: NDArray[Any], dataset: Dataset, shards: Shards) -> Floats:
    """The own accuracy of each device, [K].

    Args:
        score_by_label: sum of the score over the test samples of each label, [C].
        dataset: whose test samples were judged.
        shards: who holds which training samples.
    """
    count = np.bincount(kinds_of(dataset.y_test), minlength=dataset.num_classes)
    mean = np.divide(score_by_label, count, out=np.zeros(len(count)), where=count > 0)
    labels = kinds_of(dataset.y_train[shards.indices])
    # The mean over a device's samples of their label's accuracy is the mean over labels, weighted by its shares.
    total, known = (
        np.add.reduceat(values[labels], shards.offsets[:-1]) for values in (mean, (count > 0).astype(float))
    )
    return np.divide(total, known, out=np.full(len(total), np.nan), where=known > 0)


def device_score_records(
    looks: NDArray[np.int64], score_by_label: NDArray[Any], dataset: Dataset, shards: Shards, *, every: int
) -> Columns:
    """Columns round, device, samples (that it holds) and accuracy, a row for each device at every `every`-th look.

    Args:
        looks: rounds whose models were judged, [L], ascending.
        score_by_label: of these models, [L, C].
        every: 0 keeps the last look alone, which is kept in any case.
    """
    devices = shards.num_devices
    wanted = [i for i in range(len(looks)) if i == len(looks) - 1 or (every and (i + 1) % every == 0)]
    wanted = wanted[-max(1, MAX_RECORDS // devices) :]
    scores = [own_scores(score_by_label[i], dataset, shards) for i in wanted]
    return {
        "round": np.repeat(looks[wanted], devices),
        "device": np.tile(np.arange(devices), len(wanted)),
        "samples": np.tile(shards.sizes, len(wanted)),
        "accuracy": np.concatenate([np.zeros(0), *scores]),
    }


def final_scores(own: Columns) -> Floats:
    """The own accuracies of the last look, [K]; empty where they were not recorded."""
    rounds = np.asarray(own.get("round", ()))
    return np.asarray(own["accuracy"], float)[rounds == rounds.max()] if len(rounds) else np.zeros(0)


def by_device(metrics: Columns, devices: Columns, own: Columns) -> Columns:
    """One row a device, [K], from the tables of one trajectory; what is not known is NaN.

    device; samples: that it holds; accuracy: its own, of the last model that was judged; participation: share of the
    aggregations that it took part in; weight: its sum of weights beside an equal share (1); staleness_mean: rounds;
    channel_gain_mean: of |h_k|^2 when it sent (NaN for a digital method).
    """
    final = final_scores(own)
    device = np.asarray(devices.get("device", ()), int)
    count = max(len(final), int(device.max(initial=-1)) + 1)
    events = max(len(metrics["round"]) - 1, 1)
    times = np.bincount(device, minlength=count)
    unknown = np.full(count, np.nan)

    def total(column: str) -> Floats:
        amounts = np.asarray(devices.get(column, np.full(len(device), np.nan)), float)
        return np.bincount(device, amounts, minlength=count).astype(float)

    def mean(column: str) -> Floats:
        return np.divide(total(column), times, out=unknown.copy(), where=times > 0)

    columns: Columns = {
        "device": np.arange(count),
        "samples": own["samples"][:count] if len(final) else unknown,
        "accuracy": final if len(final) else unknown,
        "participation": times / events,
        "weight": total("weight") * count / events,
        "staleness_mean": mean("staleness"),
        "channel_gain_mean": mean("channel_gain"),
    }
    if len(device) < int(np.sum(metrics["ready"])):  # of a very large fleet, records of its first devices only
        beyond = np.arange(count) > device.max(initial=-1)
        for name in ("participation", "weight"):
            columns[name] = np.where(beyond, np.nan, columns[name])
    return columns
