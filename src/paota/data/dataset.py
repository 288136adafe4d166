"""`Dataset`: arrays that have been checked once, so that nothing after it needs to check them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paota.errors import UserError

MAX_CLASSES = 65_536  # one stray label of 10^9 would ask for an output layer of 10^9 rows
MAX_SAMPLES = 2**31 - 1  # sample indices are int32


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Images or feature vectors with their labels, split into a training and a test part.

    `x_*` is [N, *input_shape], either uint8 (pixels: the engine scales them by 1/255) or float32 (used as it is).
    `y_*` is int32 [N] with values in 0..num_classes-1. The arrays are read-only.
    """

    name: str
    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[np.int32]
    x_test: npt.NDArray[Any]
    y_test: npt.NDArray[np.int32]
    num_classes: int

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            _check_inputs(self.name, f"x_{part}", x)
            _check_labels(self.name, f"y_{part}", y, self.num_classes)
            if len(x) != len(y):
                raise UserError(f"{self.name}: x_{part} holds {len(x)} samples but y_{part} holds {len(y)} labels")
        if self.x_train.shape[1:] != self.x_test.shape[1:]:
            shapes = f"{self.x_train.shape[1:]} in x_train but {self.x_test.shape[1:]} in x_test"
            raise UserError(f"{self.name}: a sample has shape {shapes}")
        if self.x_train.dtype != self.x_test.dtype:
            kinds = f"x_train is {self.x_train.dtype} but x_test is {self.x_test.dtype}"
            raise UserError(f"{self.name}: {kinds}, and only uint8 is scaled by 1/255: save both alike")
        for key in ("x_train", "y_train", "x_test", "y_test"):
            view = getattr(self, key).view()  # so that the caller's own array stays writable
            view.setflags(write=False)
            object.__setattr__(self, key, view)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.x_train.shape[1:]

    @classmethod
    def from_arrays(
        cls,
        *,
        name: str,
        x_train: npt.ArrayLike,
        y_train: npt.ArrayLike,
        x_test: npt.ArrayLike,
        y_test: npt.ArrayLike,
    ) -> Dataset:
        """A dataset from arrays as people keep them: any float type, any integer type for labels, labels [N] or [N, 1].

        The classes are 0..(largest label); at least two, because a softmax over one class learns nothing.
        """
        labels = {key: _as_labels(name, key, np.asarray(y)) for key, y in (("y_train", y_train), ("y_test", y_test))}
        return cls(
            name=name,
            x_train=_as_inputs(name, "x_train", np.asarray(x_train)),
            y_train=labels["y_train"],
            x_test=_as_inputs(name, "x_test", np.asarray(x_test)),
            y_test=labels["y_test"],
            num_classes=max(2, 1 + max(int(y.max(initial=0)) for y in labels.values())),
        )


def _as_inputs(name: str, key: str, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """uint8 stays, floats become float32. Other integers are refused: nobody can tell whether they want scaling."""
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x)
    if x.dtype.kind != "f":
        raise UserError(
            f"{name}: {key} holds {x.dtype}; save it as uint8 (pixels, scaled by 1/255) or as floats (used as they are)"
        )
    with np.errstate(all="ignore"):  # a float64 beyond float32 becomes infinite, which the check below reports
        return np.ascontiguousarray(x, dtype=np.float32)


def _as_labels(name: str, key: str, y: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
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
        raise UserError(f"{name}: {key} holds labels that are not whole numbers")
    if low < 0:
        raise UserError(f"{name}: {key} holds the negative label {int(low)}, and labels start at 0")
    if high >= MAX_CLASSES:
        raise UserError(f"{name}: {key} holds the label {int(high)}, and the largest allowed is {MAX_CLASSES - 1}")
    return np.ascontiguousarray(y, dtype=np.int32)


def _check_inputs(name: str, key: str, x: npt.NDArray[Any]) -> None:
    if x.dtype not in (np.uint8, np.float32):
        raise UserError(f"{name}: {key} must be uint8 or float32, not {x.dtype}")
    if x.ndim < 2:
        raise UserError(
            f"{name}: {key} has shape {x.shape}, but needs one axis for samples and one or more for features"
        )
    if x.size == 0:
        raise UserError(f"{name}: {key} is empty (shape {x.shape})")
    if len(x) > MAX_SAMPLES:
        raise UserError(f"{name}: {key} holds {len(x)} samples, and the most allowed is {MAX_SAMPLES}")
    if x.dtype == np.float32 and not np.isfinite(_extremes(x)).all():
        raise UserError(f"{name}: {key} holds NaN or infinite values (or values beyond float32)")


def _extremes(array: npt.NDArray[Any]) -> tuple[Any, Any]:
    """(min, max), both NaN if any value is. Needs no second array of the data's size, as isfinite(array) would."""
    with np.errstate(invalid="ignore"):
        return array.min(), array.max()


def _check_labels(name: str, key: str, y: npt.NDArray[np.int32], num_classes: int) -> None:
    if y.dtype != np.int32 or y.ndim != 1:
        raise UserError(f"{name}: {key} must be an int32 vector, not {y.dtype} of shape {y.shape}")
    if not 2 <= num_classes <= MAX_CLASSES:
        raise UserError(f"{name}: num_classes must lie between 2 and {MAX_CLASSES}, not {num_classes}")
    if y.size and not (y.min() >= 0 and y.max() < num_classes):
        raise UserError(f"{name}: {key} holds labels outside 0..{num_classes - 1}")
