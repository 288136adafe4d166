"""`Dataset`: arrays that are checked once, and the scaling of samples for models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from paota.base.errors import UserError
from paota.base.types import Floats, Ints, NumPyArray
from paota.data.adapters import Rows, TorchItems, column_arrays, torch_arrays

if TYPE_CHECKING:
    import jax

KEYS = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL_KEYS = ("device_train",)

BLOCK = 1024  # samples converted to float64 at once
MAX_CLASSES = 65_536  # a stray label of 10^9 would need an output layer of 10^9 rows
SMALLEST_IMAGE = 8  # pixels per side that distinguish an image from a short table
MAX_SAMPLES = 2**31 - 1  # sample indices are int32


@dataclass(frozen=True)
class Scaling:
    """The transformation (x - mean_c) / std_c of channel c; x is a byte / 255, or a float as it is.

    With a single entry, all values have the same mean and standard deviation.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, x: NumPyArray) -> Scaling:
        """Return the scaling of samples to mean 0 and standard deviation 1.

        Samples [N, H, W, C] get one entry per channel, samples of another shape one for all values. A constant channel is
        only shifted.
        """
        channels = x.shape[-1] if x.ndim == 4 else 1
        rows = x.reshape(len(x), -1)
        blocks = [slice(i, i + BLOCK) for i in range(0, len(x), BLOCK)]

        def mean_of(value: Callable[[Floats], Floats]) -> Floats:
            """Average over samples first, which is quick, then over the pixels of each channel."""
            total = np.sum([value(rows[block].astype(np.float64)).sum(axis=0) for block in blocks], axis=0)
            mean: Floats = total.reshape(-1, channels).mean(axis=0) / len(rows)
            return mean

        mean = mean_of(lambda row: row)
        centre = np.tile(mean, rows.shape[1] // channels)
        std = np.sqrt(mean_of(lambda row: (row - centre) ** 2))
        unit = 255.0 if x.dtype == np.uint8 else 1.0
        return cls(tuple((mean / unit).tolist()), tuple((np.where(std > 0, std, unit) / unit).tolist()))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """Images or feature vectors with their labels, split into a training and a test part.

    `x_*` is [N, *input_shape], either uint8 (pixels: the engine scales them by 1/255) or float32 (used as it is).
    `y_*` is int32 [N] with values in 0..num_classes-1. For a regression it is float32 [N] with `num_classes` = 1; the model
    then needs its own loss. `device_train` [N] is the natural owner of each training sample (its writer, its sensor), for
    the partition "natural". The arrays are read-only. `scaling` is applied before the model.

    Args:
        name: of the data set.
        x_train: training samples.
        y_train: their labels or targets.
        x_test: test samples.
        y_test: their labels or targets.
        num_classes: number of classes; 1 for a regression.
        device_train: owner of each training sample, or None.
        scaling: scaling of the samples before the model.
    """

    name: str
    x_train: NumPyArray
    y_train: NumPyArray
    x_test: NumPyArray
    y_test: NumPyArray
    num_classes: int
    device_train: Ints | None = None
    scaling: Scaling | None = None

    def __repr__(self) -> str:
        sizes = f"{len(self.x_train):,} training and {len(self.x_test):,} test samples"
        shape = " x ".join(map(str, self.x_train.shape[1:])) or "1"
        kind = "targets" if self.has_targets else f"{self.num_classes} classes"
        return f"<paota.Dataset '{self.name}': {sizes} of {shape} {self.x_train.dtype}, {kind}>"

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            _check_inputs(self.name, f"x_{part}", x)
            _check_labels(self.name, f"y_{part}", y, self.num_classes, targets=self.has_targets)
            if len(x) != len(y):
                raise UserError(f"{self.name}: x_{part} holds {len(x)} samples but y_{part} holds {len(y)} labels")
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            shapes = f"{self.x_train.shape[1:]} in x_train but {self.x_test.shape[1:]} in x_test"
            raise UserError(f"{self.name}: a sample has shape {shapes}")
        if self.x_train.dtype != self.x_test.dtype:
            kinds = f"x_train is {self.x_train.dtype} but x_test is {self.x_test.dtype}"
            raise UserError(f"{self.name}: {kinds}, and only uint8 is scaled by 1/255: save both alike")
        if self.device_train is not None:
            _check_devices(self.name, self.device_train, len(self.y_train))
        for key in (*KEYS, *(key for key in OPTIONAL_KEYS if getattr(self, key) is not None)):
            view = getattr(self, key).view()  # so that the caller's own array stays writable
            view.setflags(write=False)
            object.__setattr__(self, key, view)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return self.x_train.shape[1:]

    @property
    def has_targets(self) -> bool:
        """True if the labels are targets of a regression, not classes."""
        return self.num_classes == 1 and self.y_train.dtype.kind == "f"

    def equals(self, other: Dataset) -> bool:
        """Return whether another data set holds the same samples.

        Args:
            other: the other data set.
        """
        alike = all(np.array_equal(getattr(self, key), getattr(other, key)) for key in (*KEYS, *OPTIONAL_KEYS))
        return self is other or (alike and (self.num_classes, self.scaling) == (other.num_classes, other.scaling))

    def normalised(self) -> Dataset:
        """Return the same samples with a scaling to mean 0 and standard deviation 1 per channel of the training samples."""
        return replace(self, scaling=Scaling.of(self.x_train))

    @classmethod
    def from_arrays(
        cls,
        *,
        name: str,
        x_train: npt.ArrayLike,
        y_train: npt.ArrayLike,
        x_test: npt.ArrayLike,
        y_test: npt.ArrayLike,
        device_train: npt.ArrayLike | None = None,
        targets: bool = False,
    ) -> Dataset:
        """Return a dataset from arrays of any float type, with labels of any integer type.

        The classes are 0..(largest label), at least two: a softmax over one class learns nothing.

        Args:
            name: name in messages and reports.
            x_train: training samples [N, *input_shape]: uint8 (pixels, scaled by 1/255) or floats (used as they are);
                images are [height, width] or [height, width, channels].
            y_train: training labels, [N] or [N, 1].
            x_test: test samples, of the same type and shape.
            y_test: test labels.
            device_train: natural owner of each training sample, whole numbers or texts, [N] or [N, 1].
            targets: whether the labels are finite targets of a regression instead of classes.
        """
        convert = _as_targets if targets else _as_labels
        labels = {key: convert(name, key, np.asarray(y)) for key, y in (("y_train", y_train), ("y_test", y_test))}
        classes = 1 if targets else max(2, 1 + max(int(y.max(initial=0)) for y in labels.values()))
        return cls(
            name=name,
            x_train=_as_inputs(name, "x_train", np.asarray(x_train)),
            y_train=labels["y_train"],
            x_test=_as_inputs(name, "x_test", np.asarray(x_test)),
            y_test=labels["y_test"],
            num_classes=classes,
            device_train=None if device_train is None else _as_devices(name, np.asarray(device_train)),
        )

    @classmethod
    def from_files(cls, name: str, arrays: Mapping[str, NumPyArray]) -> Dataset:
        """Return a dataset from the arrays `KEYS` and, optionally, `OPTIONAL_KEYS`.

        Args:
            name: of the data set.
            arrays: arrays by key.
        """
        given = {key: arrays[key] for key in KEYS}
        return cls.from_arrays(name=name, device_train=arrays.get("device_train"), **given)  # type: ignore[arg-type]

    @classmethod
    def from_torch(
        cls, train: TorchItems, test: TorchItems, *, name: str = "torch", channels_first: bool = True
    ) -> Dataset:
        """Return a dataset from two `torch.utils.data.Dataset` of pairs (input, label), read once with their transforms.

        Tensors with three axes are taken as [C, H, W] and become [H, W, C], unless `channels_first` is false.

        Args:
            train: training part.
            test: test part.
            name: of the data set.
            channels_first: whether images are [C, H, W].
        """
        x_train, y_train = torch_arrays("train", train, channels_first=channels_first)
        x_test, y_test = torch_arrays("test", test, channels_first=channels_first)
        return cls.from_arrays(name=name, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)

    @classmethod
    def from_hugging_face(
        cls, train: Rows, test: Rows, *, x: str = "image", y: str = "label", device: str | None = None,
        name: str = "hugging-face",
    ) -> Dataset:  # fmt: skip
        """Return a dataset from two Hugging Face `datasets.Dataset`.

        Args:
            train: training rows.
            test: test rows.
            x: column of the inputs, images or lists of numbers.
            y: column of the labels.
            device: column of `train` with the owner of each sample, for the partition "natural".
            name: name in messages and reports.
        """
        x_train, y_train, *owner = column_arrays("train", train, (x, y) if device is None else (x, y, device))
        x_test, y_test = column_arrays("test", test, (x, y))
        return cls.from_arrays(
            name=name, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test,
            device_train=owner[0] if owner else None,
        )  # fmt: skip


def _as_inputs(name: str, key: str, x: NumPyArray) -> NumPyArray:
    """Keep uint8, and convert floats to float32. Other integers are refused: their scale is ambiguous."""
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x)
    if x.dtype.kind != "f":
        raise UserError(
            f"{name}: {key} holds {x.dtype}; save it as uint8 (pixels, scaled by 1/255) or as floats (used as they are)"
        )
    with np.errstate(all="ignore"):  # a float64 beyond float32 becomes infinite, which the check below reports
        return np.ascontiguousarray(x, dtype=np.float32)


def _as_labels(name: str, key: str, y: NumPyArray) -> npt.NDArray[np.int32]:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind not in "uif":
        raise UserError(f"{name}: {key} holds {y.dtype}, and labels must be whole numbers from 0")
    if y.ndim != 1:
        raise UserError(f"{name}: {key} has shape {y.shape}, and labels must be one whole number for each sample")
    if y.size == 0:
        return y.astype(np.int32)
    low, high = _extremes(y)
    if y.dtype.kind == "f" and not (np.isfinite((low, high)).all() and np.array_equal(y, np.trunc(y))):
        raise UserError(
            f"{name}: {key} holds labels that are not whole numbers (for a regression: Dataset.from_arrays, targets=True)"
        )
    if low < 0:
        raise UserError(f"{name}: {key} holds the negative label {int(low)}, and labels start at 0")
    if high >= MAX_CLASSES:
        raise UserError(f"{name}: {key} holds the label {int(high)}, and the largest allowed is {MAX_CLASSES - 1}")
    return np.ascontiguousarray(y, dtype=np.int32)


LabelArray = TypeVar("LabelArray", "NumPyArray", "jax.Array")


def kinds_of(labels: LabelArray) -> LabelArray:
    """Return the kind of each sample for scores by device: its class [N]; 0 for all targets of a regression."""
    return labels if labels.dtype.kind in "iu" else labels.astype("int32") * 0


def _as_targets(name: str, key: str, y: NumPyArray) -> npt.NDArray[np.float32]:
    if y.dtype.kind not in "uif":
        raise UserError(f"{name}: {key} holds {y.dtype}, and targets must be numbers")
    with np.errstate(all="ignore"):  # a float64 beyond float32 becomes infinite, which the check below reports
        return np.ascontiguousarray(y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y, dtype=np.float32)


def _as_devices(name: str, device: NumPyArray) -> Ints:
    """Keep whole numbers, and number texts in alphabetical order."""
    if device.ndim == 2 and device.shape[1] == 1:
        device = device[:, 0]
    if device.dtype.kind in "US" and device.ndim == 1:
        return np.unique(device, return_inverse=True)[1].astype(np.int64)
    if device.dtype.kind not in "ui":
        raise UserError(f"{name}: device_train holds {device.dtype}, and names of devices are whole numbers or texts")
    return device.astype(np.int64)


def _check_devices(name: str, device: NumPyArray, samples: int) -> None:
    if device.dtype != np.int64 or device.ndim != 1:
        raise UserError(f"{name}: device_train must be an int64 vector, not {device.dtype} of shape {device.shape}")
    if len(device) != samples:
        raise UserError(f"{name}: device_train names {len(device)} devices for {samples} training samples")


def _check_inputs(name: str, key: str, x: NumPyArray) -> None:
    if x.dtype not in (np.uint8, np.float32):
        raise UserError(f"{name}: {key} must be uint8 or float32, not {x.dtype}")
    if x.ndim < 2:
        raise UserError(
            f"{name}: {key} has shape {x.shape}, but needs one axis for samples and one or more for features"
        )
    if x.size == 0:
        raise UserError(f"{name}: {key} is empty (shape {x.shape})")
    if _looks_channels_first(x.shape[1:]):
        raise UserError(
            f"{name}: {key} has samples of shape {x.shape[1:]}, which look like channels first; images are [height, width, "
            "channels] here: np.moveaxis(x, 1, -1) turns them"
        )
    if len(x) > MAX_SAMPLES:
        raise UserError(f"{name}: {key} holds {len(x)} samples, and the most allowed is {MAX_SAMPLES}")
    if x.dtype == np.float32 and not np.isfinite(_extremes(x)).all():
        raise UserError(f"{name}: {key} holds NaN or infinite values (or values beyond float32)")


def _looks_channels_first(shape: tuple[int, ...]) -> bool:
    """Return whether samples look like images [C, H, W] of one or three channels; as [H, W, C] they would be a narrow strip."""
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) >= SMALLEST_IMAGE


def _extremes(array: NumPyArray) -> tuple[float, float]:
    """Return (min, max), both NaN if any value is NaN. Unlike isfinite(array), this allocates no second array."""
    with np.errstate(invalid="ignore"):
        return array.min(), array.max()


def _check_labels(name: str, key: str, y: NumPyArray, num_classes: int, *, targets: bool) -> None:
    dtype, wanted = (np.float32, "a float32 vector of targets") if targets else (np.int32, "an int32 vector")
    if y.dtype != dtype or y.ndim != 1:
        raise UserError(f"{name}: {key} must be {wanted}, not {y.dtype} of shape {y.shape}")
    if targets and y.size and not np.isfinite(_extremes(y)).all():
        raise UserError(f"{name}: {key} holds NaN or infinite targets (or targets beyond float32)")
    if not targets and not 2 <= num_classes <= MAX_CLASSES:
        raise UserError(f"{name}: num_classes must lie between 2 and {MAX_CLASSES}, not {num_classes}")
    if not targets and y.size and not (y.min() >= 0 and y.max() < num_classes):
        raise UserError(f"{name}: {key} holds labels outside 0..{num_classes - 1}")
