"""EMNIST (Cohen et al., 2017) in IDX: several splits in one folder, images stored with rows and columns exchanged."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from paota.base.errors import UserError
from paota.data.dataset import Dataset
from paota.data.idx import IMAGE_AXES, LABEL_AXES, find_idx_file, read_idx

_FILE = re.compile(r"(emnist-[a-z]+)-(?:train|test)-(?:images|labels)[-.]idx[13]-ubyte(?:\.gz)?")


def split_of(name: str) -> str | None:
    """ "emnist-letters" for "emnist-letters-train-images-idx3-ubyte.gz"; None for other names."""
    match = _FILE.fullmatch(name)
    return match[1] if match else None


def load_emnist_folder(folder: Path, splits: list[str]) -> Dataset:
    """The only one of the `splits` that were found in a folder."""
    if len(splits) > 1:
        example = f"{splits[0]}-train-images-idx3-ubyte.gz"
        raise UserError(
            f"{folder}: holds several splits ({', '.join(splits)}): name a file of the one you want, say {folder / example}"
        )
    return load_emnist(folder, splits[0])


def load_emnist(folder: Path, split: str) -> Dataset:
    """One split, upright, with labels from 0 (those of `letters` start at 1)."""
    x, y = {}, {}
    for part in ("train", "test"):
        images = read_idx(find_idx_file(folder, f"{split}-{part}-images", axes=IMAGE_AXES), axes=IMAGE_AXES)
        x[part] = np.ascontiguousarray(images.transpose(0, 2, 1))
        y[part] = read_idx(find_idx_file(folder, f"{split}-{part}-labels", axes=LABEL_AXES), axes=LABEL_AXES)
    if split == "emnist-letters" and min(labels.min(initial=1) for labels in y.values()) == 1:
        y = {part: labels - 1 for part, labels in y.items()}
    return Dataset.from_arrays(name=split, x_train=x["train"], y_train=y["train"], x_test=x["test"], y_test=y["test"])
