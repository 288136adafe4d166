"""`Shards`: which training samples each device holds, as one flat array."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paota.base.errors import UserError
from paota.base.types import Ints

MAX_TOTAL = 2**30
"""Largest number of sample indices of all devices together: 4 GiB of int32."""


@dataclass(frozen=True, eq=False, repr=False)
class Shards:
    """The samples of each device: device k of K holds `indices[offsets[k] : offsets[k + 1]]`.

    Every device holds at least one sample, and no sample twice; devices may share samples. The order within a device has
    no meaning: the built-in partitions make it ascending, and a random order must be drawn.
    """

    indices: npt.NDArray[np.int32]  # [total]
    offsets: Ints  # [K + 1]

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
        """The number of devices K."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Ints:
        """Number of samples of each device, [K]."""
        return np.diff(self.offsets)

    def of(self, device: int) -> npt.NDArray[np.int32]:
        """Return the samples of one device.

        Args:
            device: number of the device, from 0.
        """
        if not 0 <= device < self.num_devices:
            raise IndexError(f"device {device} of {self.num_devices}")
        return self.indices[self.offsets[device] : self.offsets[device + 1]]

    @classmethod
    def from_pairs(cls, device: npt.ArrayLike, sample: npt.ArrayLike, *, devices: int) -> Shards:
        """Return the shards of (device [n], sample [n]) pairs in any order; a repeated pair counts once.

        Args:
            device: device of each pair, [n].
            sample: position of its sample in the training set, [n].
            devices: K.
        """
        device, sample = np.asarray(device, np.int64), np.asarray(sample, np.int64)
        span = int(sample.max(initial=0)) + 1
        keys = np.unique(device * span + sample)
        offsets = np.searchsorted(keys, np.arange(devices + 1, dtype=np.int64) * span)
        return cls(indices=(keys % span).astype(np.int32), offsets=offsets.astype(np.int64))


def _check(indices: npt.NDArray[np.int32], offsets: Ints) -> None:
    if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(indices):
        raise UserError("shards: offsets must run from 0 to the number of indices, with one more entry than devices")
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if len(empty):
        raise UserError(f"shards: device {empty[0]} holds no sample")
    if indices.min() < 0:
        raise UserError(f"shards: index {indices.min()} is negative")
    rises = np.diff(indices) > 0
    rises[offsets[1:-1] - 1] = True  # the indices may fall from one device to the next
    if not rises.all():  # not ascending: search for a sample that a device holds twice
        device = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        pairs = np.sort(device * (int(indices.max()) + 1) + indices)
        if (np.diff(pairs) == 0).any():
            raise UserError("shards: a device holds the same sample twice")
