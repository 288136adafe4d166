"""The evidence as one file. It allows judging the claims again, also by other rules, without running anything.

verdicts = judge_all(archive.read(Path("reproduction/evidence.npz")), claims())
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...base import files
from ...base.errors import UserError
from ...base.files import Columns
from .catalogue import noise_series
from .evidence import Curves, Evidence, NoiseCurve, Radiated

FILE = "evidence.npz"
SETTINGS = ("quiet", "loud", "six")
ARRAYS = ("accuracy", "time_s", "objective", "diverged")  # of `Curves`
AXES = {  # the possible numbers of axes of every array
    "optimum": (1,), "targets": (1,), "accuracy": (2,), "time_s": (2,), "objective": (2,), "diverged": (0, 1),
    "radiated": (1,), "levels_dbm": (1,),
}  # fmt: skip


def write(path: Path, evidence: Evidence) -> None:
    """Write the evidence as plain arrays named `setting/method/array` or `noise/series/array`."""
    arrays = {"optimum": evidence.optimum, "targets": np.asarray(evidence.targets)}
    for name in SETTINGS:
        for method, curves in getattr(evidence, name).items():
            for array in ARRAYS:
                arrays[f"{name}/{method}/{array}"] = np.asarray(getattr(curves, array))
            if curves.radiated is not None:
                arrays[f"{name}/{method}/radiated"] = np.array(curves.radiated)
    for series, curve in evidence.noise.items():
        arrays[f"noise/{series}/levels_dbm"] = np.asarray(curve.levels_dbm)
        arrays[f"noise/{series}/accuracy"] = curve.accuracy
        if curve.radiated is not None:
            arrays[f"noise/{series}/radiated"] = np.array(curve.radiated)
    files.write_npz(path, arrays)


def read(path: Path) -> Evidence:
    """Read the evidence that `write` has written; a file that holds something else is refused with a `UserError`."""
    arrays = files.read_npz(path)
    for name, array in arrays.items():
        kind = name.rpartition("/")[2]
        wrong_shape = array.ndim not in AXES.get(kind, ()) or (kind == "radiated" and array.size != 2)
        if array.dtype.kind not in "bif" or wrong_shape:
            raise UserError(f"'{path}' is not the evidence of a reproduction ('{name[:60]}' is something else)")
    lines = {series.name: series for series in noise_series()}
    try:
        settings = {
            setting: {
                method: Curves(
                    **{array: arrays[f"{setting}/{method}/{array}"] for array in ARRAYS},
                    radiated=_spent(arrays, f"{setting}/{method}"),
                )
                for method in _names(arrays, setting)
            }
            for setting in SETTINGS
        }
        noise = {
            name: NoiseCurve(
                title=lines[name].title,
                levels_dbm=tuple(arrays[f"noise/{name}/levels_dbm"].tolist()),
                accuracy=arrays[f"noise/{name}/accuracy"],
                path_loss=lines[name].path_loss,
                radiated=_spent(arrays, f"noise/{name}"),
            )
            for name in _names(arrays, "noise")
        }
        targets = tuple(arrays["targets"].tolist())
        return Evidence(**settings, noise=noise, optimum=arrays["optimum"], targets=targets)
    except (KeyError, IndexError) as error:
        raise UserError(f"'{path}' is not the evidence of a reproduction (it lacks {error})") from None


def _names(arrays: Columns, place: str) -> list[str]:
    return list(dict.fromkeys(key.split("/")[1] for key in arrays if key.startswith(f"{place}/")))


def _spent(arrays: Columns, place: str) -> Radiated | None:
    found = arrays.get(f"{place}/radiated")
    return None if found is None else Radiated(*map(float, found))
