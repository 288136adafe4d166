"""Device scores: the accuracy of the global model on data like each device's own.

**The own accuracy of a device** is the accuracy on test samples, weighted by the shares of the labels in the device's
training samples. It estimates the accuracy on new data of the same kind. It needs no further evaluation of the model:
correct answers are counted by label in every evaluation. A label that the test set lacks does not count; a device that
holds no other label has no own accuracy (NaN). If the model brings its own score, that score replaces the accuracy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.files import Columns
from ..data.dataset import kinds_of

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from ..data.dataset import Dataset
    from ..data.shards import Shards

MAX_RECORDS = 2_000_000  # rows of a trajectory; beyond them only the last evaluations are kept


def own_scores(score_by_label: Float[np.ndarray, " C"], dataset: Dataset, shards: Shards) -> Float[np.ndarray, " K"]:
    """Return the own accuracy of each device.

    Args:
        score_by_label: sum of the score over the test samples of each label.
        dataset: with these test samples.
        shards: the training samples of each device.
    """
    count = np.bincount(kinds_of(dataset.y_test), minlength=dataset.num_classes)
    mean = np.divide(score_by_label, count, out=np.zeros(len(count)), where=count > 0)
    labels = kinds_of(dataset.y_train[shards.indices])
    # The mean of the labels' accuracies over a device's samples is their mean, weighted by the device's shares.
    total, known = (
        np.add.reduceat(values[labels], shards.offsets[:-1]) for values in (mean, (count > 0).astype(float))
    )
    return np.divide(total, known, out=np.full(len(total), np.nan), where=known > 0)


def device_score_records(
    evaluated: Int[np.ndarray, " E"], score_by_label: Float[np.ndarray, "E C"], dataset: Dataset, shards: Shards, *,
    every: int,
) -> Columns:  # fmt: skip
    """Return the table of device scores: one row per device at every `every`-th evaluation.

    Args:
        evaluated: rounds of the evaluated models, ascending.
        score_by_label: sum of the score over the test samples of each label, for these models.
        dataset: with these test samples.
        shards: the training samples of each device.
        every: 0 keeps only the last evaluation, which is kept in any case.

    Returns:
        Columns `round`, `device`, `samples` (number of training samples) and `accuracy`.
    """
    devices = shards.num_devices
    wanted = [i for i in range(len(evaluated)) if i == len(evaluated) - 1 or (every and (i + 1) % every == 0)]
    wanted = wanted[-max(1, MAX_RECORDS // devices) :]
    scores = [own_scores(score_by_label[i], dataset, shards) for i in wanted]
    return {
        "round": np.repeat(evaluated[wanted], devices),
        "device": np.tile(np.arange(devices), len(wanted)),
        "samples": np.tile(shards.sizes, len(wanted)),
        "accuracy": np.concatenate([np.zeros(0), *scores]),
    }


def final_scores(own: Columns) -> Float[np.ndarray, " K"]:
    """Return the own accuracies of the last evaluation; empty if they were not recorded."""
    rounds = np.asarray(own.get("round", ()))
    return np.asarray(own["accuracy"], float)[rounds == rounds.max()] if len(rounds) else np.zeros(0)


def by_device(metrics: Columns, devices: Columns, own: Columns) -> Columns:
    """Return one row per device, from the three tables of one trajectory.

    Args:
        metrics: the table of metrics.
        devices: the table of devices.
        own: the table of device scores.

    Returns:
        Columns of K rows; unknown values are NaN. `accuracy` is the device's own, of the last evaluated model;
        `participation` the share of aggregations that use an update of the device; `weight` the sum of its weights,
        relative to an equal share; `channel_gain_mean` the mean |h_k|^2 of its transmissions.
    """
    final = final_scores(own)
    device = np.asarray(devices.get("device", ()), int)
    count = max(len(final), int(device.max(initial=-1)) + 1)
    events = max(len(metrics["round"]) - 1, 1)
    times = np.bincount(device, minlength=count)
    unknown = np.full(count, np.nan)

    def total(column: str) -> Float[np.ndarray, " K"]:
        amounts = np.asarray(devices.get(column, np.full(len(device), np.nan)), float)
        return np.bincount(device, amounts, minlength=count).astype(float)

    def mean(column: str) -> Float[np.ndarray, " K"]:
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
    if len(device) < int(np.sum(metrics["ready"])):  # a very large fleet records only its first devices
        beyond = np.arange(count) > device.max(initial=-1)
        for name in ("participation", "weight"):
            columns[name] = np.where(beyond, np.nan, columns[name])
    return columns
