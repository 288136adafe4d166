"""`Shards`: which training samples each device holds, as one flat array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paota.base.errors import UserError
from paota.data.dataset import Dataset

MAX_TOTAL = 2**30
"""The most sample indices that all devices may hold together: 4 GiB of int32."""


@dataclass(frozen=True, eq=False, repr=False)
class Shards:
    """Device k of K holds the samples `indices[offsets[k] : offsets[k + 1]]`.

    Every device holds at least one sample and none of its own twice; two devices may hold the same one. The order
    inside a device means nothing (the partitions here give it ascending): whoever needs a random order draws one.
    """

    indices: npt.NDArray[np.int32]  # [total]
    offsets: npt.NDArray[np.int64]  # [K + 1]

    def __post_init__(self) -> None:
        for key, dtype in (("indices", np.int32), ("offsets", np.int64)):
            given = np.asarray(getattr(self, key))
            if given.ndim != 1 or given.dtype.kind not in "iu":
                raise UserError(f"shards: {key} must be a vector of whole numbers, not {given.dtype} {given.shape}")
            array = np.ascontiguousarray(given, dtype=dtype).view()
            array.setflags(write=False)
            object.__setattr__(self, key, array)
        _check(self.indices, self.offsets)

    def __repr__(self) -> str:
        sizes = self.sizes
        return f"<paota.Shards of {self.num_devices:,} devices with {sizes.min():,} to {sizes.max():,} samples>"

    @property
    def num_devices(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many samples each device holds, [K]."""
        return np.diff(self.offsets)

    def of(self, device: int) -> npt.NDArray[np.int32]:
        """The samples of one device."""
        if not 0 <= device < self.num_devices:
            raise IndexError(f"device {device} of {self.num_devices}")
        return self.indices[self.offsets[device] : self.offsets[device + 1]]

    @classmethod
    def from_pairs(cls, device: npt.ArrayLike, sample: npt.ArrayLike, *, devices: int) -> Shards:
        """From (device, sample) pairs in any order; a pair that comes twice counts once."""
        device, sample = np.asarray(device, np.int64), np.asarray(sample, np.int64)
        span = int(sample.max(initial=0)) + 1
        keys = np.unique(device * span + sample)
        offsets = np.searchsorted(keys, np.arange(devices + 1, dtype=np.int64) * span)
        return cls(indices=(keys % span).astype(np.int32), offsets=offsets.astype(np.int64))


def _check(indices: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]) -> None:
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(indices):
        raise UserError("shards: offsets must run from 0 to the number of indices, with one more entry than devices")
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if len(empty):
        raise UserError(f"shards: device {empty[0]} holds no sample")
    if indices.min() < 0:
        raise UserError(f"shards: {indices.min()} is not a sample")
    rises = np.diff(indices) > 0
    rises[offsets[1:-1] - 1] = True  # from one device to the next it may fall
    if not rises.all():  # not ascending: look properly for a sample that a device holds twice
        device = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        pairs = np.sort(device * (int(indices.max()) + 1) + indices)
        if (np.diff(pairs) == 0).any():
            raise UserError("shards: a device holds the same sample twice")


def describe(dataset: Dataset, shards: Shards) -> dict[str, Any]:
    """Facts for the report: plain numbers, and the arrays `device_sizes` [K] and `device_class_counts` [K, classes]."""
    samples = len(dataset.y_train)
    if shards.indices.max() >= samples:
        raise UserError(f"shards: sample {shards.indices.max()} is asked of a dataset with {samples} training samples")
    sizes, classes, devices = shards.sizes, dataset.num_classes, shards.num_devices
    device = np.repeat(np.arange(devices), sizes)
    cells = device * classes + (0 if dataset.has_targets else dataset.y_train[shards.indices])
    counts = np.bincount(cells, minlength=devices * classes).reshape(devices, classes)
    return {
        "dataset": dataset.name,
        "input_shape": dataset.input_shape,
        "train_samples": samples,
        "test_samples": len(dataset.y_test),
        "classes": classes,
        "devices": devices,
        "held_samples": len(shards.indices),  # shared samples counted for each holder
        "distinct_samples": int(np.count_nonzero(np.bincount(shards.indices, minlength=samples))),
        "smallest_device": int(sizes.min()),
        "median_device": float(np.median(sizes)),
        "largest_device": int(sizes.max()),
        "device_sizes": sizes,
        "device_class_counts": counts,
    }
