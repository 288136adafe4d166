"""From a name or a path to a `Dataset`."""

from __future__ import annotations

from pathlib import Path

from paota.data.bounded import reason, short
from paota.data.dataset import Dataset
from paota.errors import UserError, unknown_name
from paota.registry import DATASETS


def load_dataset(name_or_path: str, *, base: Path | None = None) -> Dataset:
    """A registered dataset ("mnist", "synthetic"), a folder of IDX files, or an `.npz`.

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
    from paota.data.idx import load_idx_folder
    from paota.data.npz import load_npz

    try:
        path = base / Path(text).expanduser()
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be entered, an unknown ~user
        raise UserError(f"dataset '{short(text)}' cannot be read ({reason(error)})") from None
    if not text.strip() or not exists:
        raise _not_found(text, path)
    if is_folder:
        return load_idx_folder(path)
    if path.suffix.lower() != ".npz":
        raise UserError(f"dataset '{short(text)}' is neither a folder of IDX files nor an .npz file")
    return load_npz(path)


def _not_found(text: str, path: Path) -> UserError:
    if path.suffix.lower() == ".npz" or len(Path(text).parts) > 1:
        return UserError(f"dataset '{short(text)}' not found: there is no folder or .npz file {short(str(path))}")
    return UserError(
        f"{unknown_name('dataset', short(text), DATASETS)} (nor is there a folder or .npz file of that name)"
    )
