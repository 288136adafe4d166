"""CIFAR-10 (Krizhevsky, 2009) in its binary distribution: records of one label and 3 x 32 x 32 pixels, plane after plane."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from paota.base.bounded import Readable, check_claim, open_regular, read_array, reason, unpacked
from paota.base.errors import UserError
from paota.data import tar
from paota.data.dataset import Dataset

ARCHIVE, FOLDER = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"
PICKLED = ("cifar-10-python.tar.gz", "cifar-10-batches-py")
TRAIN_FILES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_FILE = "test_batch.bin"
FILES = (*TRAIN_FILES, TEST_FILE)

CLASSES = 10
PLANES = (3, 32, 32)  # red, green, blue
RECORD_BYTES = 1 + 3 * 32 * 32

PLACE = "PAOTA_DATA"
"""The environment variable that names the folder of data sets that are not shipped."""

HOW_TO_GET = (
    f"download {ARCHIVE} (https://www.cs.toronto.edu/~kriz/{ARCHIVE}), put it into a folder, "
    f"and name that folder in the environment variable {PLACE} or the file itself as data.dataset"
)


def load() -> Dataset:
    """CIFAR-10 from the folder that the environment variable PAOTA_DATA names."""
    place = os.environ.get(PLACE)
    if not place:
        raise UserError(f"the dataset 'cifar10' is not shipped: {HOW_TO_GET}")
    try:
        found = locate(Path(place).expanduser())
    except (OSError, RuntimeError) as error:
        raise UserError(f"{PLACE}: '{place}' cannot be read ({reason(error)})") from None
    if found is None:
        raise UserError(f"the dataset 'cifar10' is not in {place} ({PLACE}): {HOW_TO_GET}")
    return load_from(found)


def locate(path: Path) -> Path | None:
    """The archive or the folder of batches that lies at `path` or in the folder `path`; None if neither does."""
    if any((path / name).exists() for name in FILES):
        return path
    for name in (FOLDER, ARCHIVE):
        if (path / name).exists():
            return path / name
    if path.name in PICKLED or any((path / name).exists() for name in (*PICKLED, "data_batch_1")):
        raise _pickled(path)
    return None


def load_from(path: Path) -> Dataset:
    """CIFAR-10 from its binary archive, packed or not, or from the folder that it unpacks to; pixels uint8 [N, 32, 32, 3]."""
    batches = _read_folder(path) if path.is_dir() else _read_archive(path)
    missing = [name for name in FILES if name not in batches]
    if missing:
        raise UserError(f"{path}: lacks {', '.join(missing)} of CIFAR-10's binary version: {HOW_TO_GET}")
    # All files of CIFAR-10 are equally long: so one that was cut between two records is noticed, too.
    lengths = {name: len(batches[name]) for name in FILES}
    odd = next((name for name in FILES if lengths[name] != max(lengths.values())), None)
    if odd is not None:
        raise UserError(
            f"{path}: {odd} holds {lengths[odd]} images where others hold {max(lengths.values())}: cut short?"
        )
    x_train, y_train = _images([batches[name] for name in TRAIN_FILES])
    x_test, y_test = _images([batches[TEST_FILE]])
    return Dataset(name="cifar10", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test, num_classes=CLASSES)


def _read_folder(folder: Path) -> dict[str, npt.NDArray[np.uint8]]:
    batches = {}
    for name in FILES:
        if (folder / name).exists():
            file, size = open_regular(folder / name)
            with file:
                batches[name] = _records(file, size, str(folder / name))
    return batches


def _read_archive(path: Path) -> dict[str, npt.NDArray[np.uint8]]:
    batches = {}
    with unpacked(path) as content:
        for member in tar.members(content, str(path)):
            name = PurePosixPath(member.name)
            if PICKLED[1] in name.parts:
                raise _pickled(path)
            if name.name in FILES:
                batches[name.name] = _records(member, member.size, f"{path}: {name.name}")
    return batches


def _records(stream: Readable, size: int, source: str) -> npt.NDArray[np.uint8]:
    """[N, 3073]: labels in front, checked."""
    if size == 0 or size % RECORD_BYTES:
        raise UserError(
            f"{source}: holds {size} bytes, not whole records of {RECORD_BYTES} (a label and 3 x 32 x 32 pixels): "
            "it is cut short, or not of CIFAR-10"
        )
    check_claim(source, claimed_bytes=size)
    rows: npt.NDArray[Any] = read_array(stream, source, shape=(size // RECORD_BYTES, RECORD_BYTES), dtype=np.uint8)
    wrong = np.flatnonzero(rows[:, 0] >= CLASSES)
    if len(wrong):
        raise UserError(
            f"{source}: record {wrong[0]} has the label {rows[wrong[0], 0]}, and labels are 0 to {CLASSES - 1}"
        )
    return rows


def _images(batches: list[npt.NDArray[np.uint8]]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """(pixels [N, 32, 32, 3], labels [N]): channels last, as the models want them."""
    pixels = [np.moveaxis(rows[:, 1:].reshape(-1, *PLANES), 1, -1) for rows in batches]
    labels = np.concatenate([rows[:, 0] for rows in batches]).astype(np.int32)
    return np.ascontiguousarray(np.concatenate(pixels)), labels


def _pickled(path: Path) -> UserError:
    return UserError(f"{path}: is the pickled version of CIFAR-10, and no pickle is ever loaded: {HOW_TO_GET}")
