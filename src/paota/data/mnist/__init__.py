"""MNIST, whose files are in this folder; README.md gives its origin and licence."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from paota.base.errors import UserError
from paota.data.dataset import Dataset
from paota.data.idx import IMAGE_AXES, LABEL_AXES, read_idx

FOLDER = Path(__file__).parent

SHA256 = {
    "train-images-idx3-ubyte.gz": "0b367032e93c5d0cea0925647cfdb18614af8ee15f83e6f2fc2ad904a6835971",
    "train-labels-idx1-ubyte.gz": "1787548bbe0bff1ec2ecdc0ef292b02df999e2d1a6002d27500982c652b17203",
    "t10k-images-idx3-ubyte.gz": "1a1a05eab793c14bb050b398624a11b0ffd1a2953baed553b1b9bd079e2a20be",
    "t10k-labels-idx1-ubyte.gz": "b91679a0acfe4ba0e50a2437a903084cba1f5f92592b016a25a7dfd00455798b",
}


@functools.cache  # safe to share: a Dataset's arrays are read-only
def load() -> Dataset:
    """Return the 60,000 training and 10,000 test digits; a checksum verifies the files."""
    return load_from(FOLDER)


def load_from(folder: Path) -> Dataset:
    """Return MNIST from copies of the shipped files in another folder."""
    for name, expected in SHA256.items():
        _verify(folder / name, expected)
    return Dataset.from_arrays(
        name="mnist",
        x_train=read_idx(folder / "train-images-idx3-ubyte.gz", axes=IMAGE_AXES),
        y_train=read_idx(folder / "train-labels-idx1-ubyte.gz", axes=LABEL_AXES),
        x_test=read_idx(folder / "t10k-images-idx3-ubyte.gz", axes=IMAGE_AXES),
        y_test=read_idx(folder / "t10k-labels-idx1-ubyte.gz", axes=LABEL_AXES),
    )


def _verify(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: the shipped MNIST file cannot be read ({error.strerror}): reinstall paota") from None
    if found != expected:
        raise UserError(f"{path}: the shipped MNIST file is damaged (SHA-256 {found[:12]}..., not {expected[:12]}...)")
