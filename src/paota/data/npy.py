"""A folder of `.npy` files, memory-mapped: samples are read from the disk where they are used."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from paota.base.bounded import open_regular, reason
from paota.base.errors import UserError
from paota.base.npz import read_npy_header
from paota.data.dataset import KEYS, OPTIONAL_KEYS, Dataset


def load_npy_folder(folder: Path) -> Dataset:
    """The dataset of x_train.npy, y_train.npy, x_test.npy and y_test.npy, and of device_train.npy if it is there.

    uint8 and float32 in C order stay on the disk; other floats are turned into float32 in memory.
    """
    missing = [f"{key}.npy" for key in KEYS if not (folder / f"{key}.npy").exists()]
    if missing:
        raise UserError(f"{folder}: lacks {', '.join(missing)}")
    keys = [*KEYS, *(key for key in OPTIONAL_KEYS if (folder / f"{key}.npy").exists())]
    arrays: dict[str, Any] = {key: map_npy(folder / f"{key}.npy") for key in keys}
    return Dataset.from_arrays(name=folder.resolve().name or str(folder), **arrays)


def map_npy(path: Path) -> npt.NDArray[Any]:
    """One array of numbers, read-only and mapped; objects are refused and never unpickled."""
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
