"""From a name or a path to a `Dataset`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paota.base.bounded import reason, short
from paota.base.errors import UserError
from paota.base.npz import read_arrays
from paota.base.registry import DATASETS
from paota.data.dataset import KEYS, OPTIONAL_KEYS, Dataset
from paota.data.settings import Data


def load_data(data: Data, *, base: Path | None = None) -> Dataset:
    """The dataset that `[data]` names, seen as `data.normalise` says."""
    dataset = load_dataset(data.dataset, base=base)
    return dataset.normalised() if data.normalise == "channel" else dataset


def load_dataset(name_or_path: str, *, base: Path | None = None) -> Dataset:
    """A registered dataset ("mnist", "cifar10", "synthetic"), or the path of a folder (IDX or `.npy` files,
    CIFAR-10's batches) or of a file (an `.npz`, CIFAR-10's binary archive, a file of one of EMNIST's splits).

    A registered name wins over a folder of the same name (write `./mnist` for the folder). Relative paths start at
    `base`, by default the current folder.
    """
    if name_or_path in DATASETS:
        dataset = DATASETS[name_or_path]()
        if not isinstance(dataset, Dataset):
            raise UserError(
                f"the registered dataset '{name_or_path}' gave {type(dataset).__name__}, not a paota Dataset"
            )
        return dataset
    return _load_path(name_or_path, base or Path())


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
    from paota.data import cifar, emnist, npy
    from paota.data.idx import load_idx_folder

    if (found := cifar.locate(path)) is not None:
        return cifar.load_from(found)
    if any((path / f"{key}.npy").exists() for key in KEYS):
        return npy.load_npy_folder(path)
    if splits := {split for file in path.iterdir() if (split := emnist.split_of(file.name)) is not None}:
        return emnist.load_emnist_folder(path, sorted(splits))
    return load_idx_folder(path)


def _load_file(path: Path) -> Dataset | None:
    from paota.data import cifar, emnist

    name = path.name.lower()
    if name.endswith(".npz"):
        arrays: dict[str, Any] = {**read_arrays(path, KEYS, OPTIONAL_KEYS)}
        return Dataset.from_arrays(name=path.name, **arrays)
    if name.endswith((".tar.gz", ".tgz", ".tar")):
        return cifar.load_from(path)
    split = emnist.split_of(path.name)
    return None if split is None else emnist.load_emnist(path.parent, split)


def _not_found(text: str, path: Path) -> UserError:
    if path.suffix.lower() == ".npz" or len(Path(text).parts) > 1:
        return UserError(f"dataset '{short(text)}' not found: there is no folder or .npz file {short(str(path))}")
    return UserError(f"{DATASETS.unknown(short(text))} (nor is there a folder or .npz file of that name)")
