"""Load a `Dataset` by its name or path."""

from __future__ import annotations

import itertools
import math
import weakref
from pathlib import Path

import numpy as np

from paota.base.bounded import open_regular, read_arrays, read_npy_header, reason, short
from paota.base.errors import UserError
from paota.base.registry import DATASETS
from paota.base.types import NumPyArray
from paota.data import cifar, idx
from paota.data.dataset import KEYS, OPTIONAL_KEYS, Dataset
from paota.data.settings import Data

GIVEN: weakref.WeakValueDictionary[str, Dataset] = weakref.WeakValueDictionary()  # data sets of Python, while they live


def load_data(data: Data, *, base: Path | None = None) -> Dataset:
    """Return the dataset of the section `[data]`, with the scaling of `data.normalise`."""
    dataset = load_dataset(data.dataset, base=base)
    return dataset.normalised() if data.normalise == "channel" else dataset


def name_given(dataset: Dataset) -> str:
    """Return a name for which `load_dataset` returns these samples, as long as the data set in `GIVEN` is alive."""
    for name in itertools.chain([dataset.name], (f"{dataset.name}-{i}" for i in itertools.count(2))):
        try:
            known = load_dataset(name) if name in GIVEN or name in DATASETS else GIVEN.setdefault(name, dataset)
        except UserError:  # a registered name, whose files are not here
            continue
        if known.equals(dataset):
            return name
    raise AssertionError("there are infinitely many names")


def load_dataset(name_or_path: str, *, base: Path | None = None) -> Dataset:
    """Return a dataset.

    Args:
        name_or_path: a registered dataset ("mnist", "cifar10", "synthetic"), or the path of a folder (IDX or `.npy` files,
            CIFAR-10's batches) or of a file (an `.npz`, CIFAR-10's binary archive, a file of one of EMNIST's splits). A
            registered name precedes a folder of the same name (write `./mnist` for the folder).
        base: folder from which relative paths start; None: the current folder.
    """
    if name_or_path in DATASETS:
        dataset = DATASETS[name_or_path]()
        if not isinstance(dataset, Dataset):
            raise UserError(
                f"the registered dataset '{name_or_path}' gave {type(dataset).__name__}, not a paota Dataset"
            )
        return dataset
    return GIVEN.get(name_or_path) or _load_path(name_or_path, base or Path())


def _load_path(text: str, base: Path) -> Dataset:
    try:
        path = base / Path(text).expanduser()
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be entered, an unknown ~user
        raise UserError(f"dataset '{short(text)}' cannot be read ({reason(error)})") from None
    if not text.strip() or not exists:
        raise _not_found(text, path)
    try:
        dataset = _load_folder(path) if is_folder else _load_file(path)
    except OSError as error:
        raise UserError(f"dataset '{short(text)}' cannot be read ({reason(error)})") from None
    if dataset is None:
        raise UserError(
            f"dataset '{short(text)}' is neither a folder of IDX or .npy files, nor an .npz file, "
            "nor CIFAR-10's binary archive"
        )
    return dataset


def _load_folder(path: Path) -> Dataset:
    if (found := cifar.locate(path)) is not None:
        return cifar.load_from(found)
    if any((path / f"{key}.npy").exists() for key in KEYS):
        return _load_npy_folder(path)
    if splits := {split for file in path.iterdir() if (split := idx.emnist_split_of(file.name)) is not None}:
        return idx.load_emnist_folder(path, sorted(splits))
    return idx.load_idx_folder(path)


def _load_file(path: Path) -> Dataset | None:
    name = path.name.lower()
    if name.endswith(".npz"):
        return Dataset.from_files(path.name, read_arrays(path, KEYS, OPTIONAL_KEYS))
    if name.endswith((".tar.gz", ".tgz", ".tar")):
        return cifar.load_from(path)
    split = idx.emnist_split_of(path.name)
    return None if split is None else idx.load_emnist(path.parent, split)


def _not_found(text: str, path: Path) -> UserError:
    if path.suffix.lower() == ".npz" or len(Path(text).parts) > 1:
        return UserError(f"dataset '{short(text)}' not found: there is no folder or .npz file {short(str(path))}")
    return UserError(f"{DATASETS.unknown(short(text))} (nor is there a folder or .npz file of that name)")


def _load_npy_folder(folder: Path) -> Dataset:
    """Return the dataset in x_train.npy, y_train.npy, x_test.npy, y_test.npy and, optionally, device_train.npy.

    The files are memory-mapped: uint8 and float32 in C order stay on the disk until they are used. Other floats are
    converted to float32 in memory.
    """
    missing = [f"{key}.npy" for key in KEYS if not (folder / f"{key}.npy").exists()]
    if missing:
        raise UserError(f"{folder}: lacks {', '.join(missing)}")
    keys = [*KEYS, *(key for key in OPTIONAL_KEYS if (folder / f"{key}.npy").exists())]
    arrays = {key: _map_npy(folder / f"{key}.npy") for key in keys}
    return Dataset.from_files(folder.resolve().name or str(folder), arrays)


def _map_npy(path: Path) -> NumPyArray:
    """Return one memory-mapped, read-only array of numbers; objects are refused and never unpickled."""
    file, file_bytes = open_regular(path)
    with file:
        dtype, fortran_order, shape, header_bytes = read_npy_header(file, str(path))
        claimed_bytes, held_bytes = math.prod(shape) * dtype.itemsize, file_bytes - header_bytes
        if claimed_bytes > held_bytes:
            raise UserError(f"{path}: is truncated, its header claims shape {shape} but {held_bytes} bytes follow")
        if claimed_bytes < held_bytes:
            raise UserError(f"{path}: has {held_bytes - claimed_bytes} bytes left over after shape {shape}")
        if claimed_bytes == 0:  # nothing to map
            return np.empty(shape, dtype)
        try:
            return np.memmap(file, dtype, "r", header_bytes, shape, "F" if fortran_order else "C")
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be mapped into memory ({reason(error)})") from None
