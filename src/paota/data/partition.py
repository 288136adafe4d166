"""Partitions of the samples among the devices. Each is a small recipe `(labels, devices, rng) -> Shards`.

Every partition terminates, gives each device at least one sample and none twice, and depends on its arguments alone. With
more devices than samples, devices share samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from paota.base.errors import UserError
from paota.base.settings import check, setting
from paota.base.types import Floats, Ints, NumPyArray
from paota.data.dataset import Dataset
from paota.data.sampling import blocks, draw_distinct, ragged_ranges
from paota.data.shards import MAX_TOTAL, Shards

BLOCK = 2**20  # numbers that `Paper` draws at once: they fit into the processor's cache, and bound the memory


class Partition(Protocol):
    """The interface of a partition. A frozen dataclass gets its options from the experiment file."""

    def __call__(self, labels: NumPyArray, *, devices: int, rng: Generator) -> Shards: ...


def deal(partition: Partition | Natural, dataset: Dataset, *, devices: int, rng: Generator) -> Shards:
    """Return the shards of the training samples of `dataset`: by their labels, or by their owners for `Natural`."""
    if isinstance(partition, Natural):
        return partition.of(dataset, devices=devices, rng=rng)
    if dataset.has_targets and isinstance(partition, Paper | Dirichlet):
        raise UserError(
            f"data.partition assigns samples by their classes, but {dataset.name} has targets instead: "
            "choose 'iid', 'shards' or 'natural'"
        )
    return partition(dataset.y_train, devices=devices, rng=rng)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """The paper's split: each device draws its size and its classes, then its samples from those classes.

    The paper says "at most" five classes; a device here gets exactly `classes_per_device` different ones, or all. Samples
    are drawn uniformly from the union of these classes, without repeats within a device. Devices may share samples: the
    paper needs about 90,000 of MNIST's 60,000. If the classes have fewer samples than the drawn size, the device gets all
    of them.
    """

    sizes: tuple[int, ...] = setting(
        (300, 600, 900, 1200, 1500),
        low=1,
        doc="Sizes from which each device draws its number of samples.",
        aliases=("samples_per_device", "num_samples"),
    )
    classes_per_device: int = setting(
        5, low=1, doc="Classes that a device holds.", aliases=("classes", "labels_per_device", "classes_per_client")
    )

    def __post_init__(self) -> None:
        if not self.sizes:
            raise UserError("data.sizes must name at least one size")

    def __call__(self, labels: NumPyArray, *, devices: int, rng: Generator) -> Shards:
        _check_call(self, labels, devices)
        by_class = np.argsort(labels, kind="stable")
        _, class_start, class_size = np.unique(labels[by_class], return_index=True, return_counts=True)
        largest = np.minimum(self.sizes, len(labels))  # also avoids overflow of sizes beyond int64
        asked = largest[rng.integers(len(largest), size=devices)].astype(np.int64)
        _check_total(int(asked.sum()))
        per_device = min(self.classes_per_device, len(class_size))
        indices, taken = [], []
        for block in blocks(2 * (asked + per_device), BLOCK):
            chosen = self._classes(np.arange(block.start, block.stop), devices, len(class_size), per_device, rng)
            counts = class_size[chosen]
            take = np.minimum(asked[block], counts.sum(axis=1))
            position = draw_distinct(counts.sum(axis=1), take, rng)
            place = position + _shift_to_class(position, take, counts, class_start[chosen])
            indices.append(_sort_rows(by_class[place], take, span=len(labels)))
            taken.append(take)
        return Shards(np.concatenate(indices), _offsets(np.concatenate(taken)))

    def _classes(self, device: Ints, devices: int, classes: int, per_device: int, rng: Generator) -> Ints:
        """Draw `per_device` different ones of the `classes` for each `device` [n] of all `devices`, [n, per_device]."""
        same = np.ones(len(device), np.int64)
        return draw_distinct(same * classes, same * per_device, rng).reshape(-1, per_device)


@dataclass(frozen=True, kw_only=True)
class RareClass(Paper):
    """The paper's split with a rare class: only the first devices (a share `holders`) hold the class `rare_class`.

    Each of them holds it beside `classes_per_device` - 1 other classes. With the latency `two-speeds` the holders are the
    slow devices: an algorithm that neglects slow devices then misses a class.
    """

    classes_per_device: int = setting(3, low=1, doc="Classes that a device holds.")
    rare_class: int = setting(9, low=0, doc="The rare class, counted from 0 in the order of the labels.")
    holders: float = setting(0.3, above=0, high=1, doc="Share of the devices that hold the rare class.")

    def __call__(self, labels: NumPyArray, *, devices: int, rng: Generator) -> Shards:
        _check_call(self, labels, devices)
        classes = len(np.unique(labels))
        if self.rare_class >= classes or classes < 2:
            raise UserError(f"data.rare_class = {self.rare_class}, but there are {classes} classes, counted from 0")
        return super().__call__(labels, devices=devices, rng=rng)

    def _classes(self, device: Ints, devices: int, classes: int, per_device: int, rng: Generator) -> Ints:
        common = min(per_device, classes - 1)
        chosen = super()._classes(device, devices, classes - 1, common, rng)
        chosen += chosen >= self.rare_class  # the numbers of the other classes
        chosen[device < max(1, round(self.holders * devices)), -1] = self.rare_class
        return chosen


@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    """A split of each class among the devices in proportions drawn from a symmetric Dirichlet distribution.

    A small concentration gives every device few classes and unequal sizes, a large one an even split. Every sample goes
    to exactly one device. Devices with fewer than `min_samples` get samples drawn from the surplus of the others;
    rejection sampling of the whole split might never terminate.
    """

    concentration: float = setting(
        0.5,
        above=0,
        doc="Concentration of the Dirichlet distribution: small is uneven, large is even.",
        aliases=("alpha", "dirichlet_alpha", "beta"),
    )
    min_samples: int = setting(1, low=1, doc="Smallest number of samples of a device.")

    def __call__(self, labels: NumPyArray, *, devices: int, rng: Generator) -> Shards:
        _check_call(self, labels, devices)
        if self.min_samples > 1 and self.min_samples * devices > len(labels):
            raise UserError(
                f"data.min_samples = {self.min_samples} for {devices} devices asks for more than "
                f"the {len(labels)} training samples"
            )
        by_label = _sort_by_label(labels, rng)
        owner = np.empty(len(labels), np.int64)  # device of the sample by_label[i]
        ends = np.cumsum(np.unique(labels, return_counts=True)[1])
        for start, end in zip(ends - np.diff(ends, prepend=0), ends, strict=True):
            cuts = (np.cumsum(_dirichlet(self.concentration, devices, rng)) * (end - start)).astype(np.int64)
            cuts[-1] = end - start  # rounding of the sum must not lose the last sample
            owner[start:end] = np.searchsorted(cuts, np.arange(end - start), side="right")
        return _top_up(owner, by_label, devices=devices, min_samples=self.min_samples, rng=rng)


@dataclass(frozen=True, kw_only=True)
class LabelShards:
    """The split of the FedAvg paper: sort by label, cut into equal shards, give each device `shards_per_device` of them."""

    shards_per_device: int = setting(2, low=1, doc="Number of shards per device.", aliases=("shards_per_client",))

    def __call__(self, labels: NumPyArray, *, devices: int, rng: Generator) -> Shards:
        _check_call(self, labels, devices)
        samples, pieces = len(labels), devices * self.shards_per_device
        _check_total(pieces)
        by_label = _sort_by_label(labels, rng)
        start = np.arange(pieces, dtype=np.int64) * samples // pieces
        # More shards than samples: each shard is one sample, and neighbours share it.
        length = np.maximum(np.append(start[1:], samples) - start, 1)
        piece = rng.permutation(pieces)
        device = np.repeat(np.arange(pieces) // self.shards_per_device, length[piece])
        return Shards.from_pairs(device, by_label[ragged_ranges(start[piece], length[piece])], devices=devices)


@dataclass(frozen=True, kw_only=True)
class Iid:
    """A random split into disjoint parts whose sizes differ by at most one."""

    def __call__(self, labels: NumPyArray, *, devices: int, rng: Generator) -> Shards:
        _check_call(self, labels, devices)
        pairs = np.arange(max(len(labels), devices))
        return Shards.from_pairs(pairs % devices, rng.permutation(len(labels))[pairs % len(labels)], devices=devices)


@dataclass(frozen=True, kw_only=True)
class Natural:
    """The dataset's own split: one device for each different id in `device_train`, in the order of the ids.

    With fewer devices than ids, the devices are a random choice of the ids, the same for all algorithms of a seed.
    """

    def of(self, dataset: Dataset, *, devices: int, rng: Generator) -> Shards:
        """Return the shards by the ids of the dataset; the labels do not matter."""
        if dataset.device_train is None:
            raise UserError(f"data.partition = 'natural' needs an array device_train, and {dataset.name} has none")
        ids, owner = np.unique(dataset.device_train, return_inverse=True)
        _check_call(self, owner, devices)
        if devices > len(ids):
            raise UserError(
                f"data.devices = {devices}, but device_train of {dataset.name} names {len(ids)}: "
                f"set data.devices to {len(ids)}, or lower for a random choice of them"
            )
        chosen = np.sort(rng.permutation(len(ids))[:devices])
        place = np.full(len(ids), -1)
        place[chosen] = np.arange(devices)
        sample = np.flatnonzero(place[owner] >= 0)
        return Shards.from_pairs(place[owner[sample]], sample, devices=devices)


def _check_call(partition: object, labels: NumPyArray, devices: int) -> None:
    check(partition, "data")  # objects made in Python have not passed the checks of an experiment file
    if devices < 1:
        raise UserError(f"data.devices must be at least 1, not {devices}")
    if len(labels) == 0:
        raise UserError("the dataset holds no training samples")
    _check_total(devices)


def _check_total(total: int) -> None:
    if total > MAX_TOTAL:
        raise UserError(f"the devices ask for {total} samples together, and the most allowed is {MAX_TOTAL}")


def _sort_by_label(labels: NumPyArray, rng: Generator) -> Ints:
    """Return all samples sorted by class, in random order within a class."""
    shuffled = rng.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _offsets(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)])


def _shift_to_class(position: Ints, take: Ints, counts: Ints, class_start: Ints) -> Ints:
    """Return the shift from a position in the union of a device's classes to a position in the samples sorted by class.

    Args:
        position: positions of all devices, one device after the other, ascending within a device.
        take: number of positions of each device, [devices].
        counts: samples of each chosen class, [devices, classes].
        class_start: start of each chosen class in the sorted samples, [devices, classes].
    """
    ends = np.cumsum(counts, axis=1)
    stride = int(ends[:, -1].max())
    row = np.arange(len(take))
    keys = position + np.repeat(row * stride, take)
    in_class = np.diff(np.searchsorted(keys, (row[:, None] * stride + ends).ravel()), prepend=0)
    return np.repeat((class_start - (ends - counts)).ravel(), in_class)


def _sort_rows(values: Ints, lengths: Ints, *, span: int) -> npt.NDArray[np.int32]:
    """Sort each row; `span` exceeds every value."""
    row_start = np.repeat(np.arange(len(lengths)) * span, lengths)
    return (np.sort(values + row_start) - row_start).astype(np.int32)


def _dirichlet(concentration: float, devices: int, rng: Generator) -> Floats:
    """Draw the shares of all devices.

    Beyond the bounds below, the result is a single owner or an even split, up to rounding, but the gamma variates that
    produce it underflow or overflow.
    """
    return rng.dirichlet(np.full(devices, min(max(concentration, 1e-12), 1e12)))


def _top_up(owner: Ints, sample: Ints, *, devices: int, min_samples: int, rng: Generator) -> Shards:
    """Move surplus samples to devices below `min_samples`; without surplus (devices > samples), let devices share samples."""
    size = np.bincount(owner, minlength=devices)
    needy = rng.permutation(np.repeat(np.arange(devices), np.maximum(min_samples - size, 0)))
    shuffled = rng.permutation(len(owner))  # a device gives away random samples
    by_owner = shuffled[np.argsort(owner[shuffled], kind="stable")]
    rank_in_owner = np.arange(len(owner)) - np.repeat(np.cumsum(size) - size, size)
    surplus = rng.permutation(by_owner[rank_in_owner >= min_samples])
    given = min(len(surplus), len(needy))
    owner[surplus[:given]] = needy[:given]
    shared = rng.integers(len(sample), size=len(needy) - given)
    return Shards.from_pairs(
        np.concatenate([owner, needy[given:]]), np.concatenate([sample, sample[shared]]), devices=devices
    )
