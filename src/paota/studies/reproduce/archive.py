"""The evidence as one file: whoever has it can judge again, by other rules too, without running anything.

verdicts = judge_all(archive.read(Path("reproduction/evidence.npz")), claims())
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base import files
from ...base.errors import UserError
from .catalogue import noise_series
from .evidence import Curves, Evidence, NoiseCurve, Radiated

FILE = "evidence.npz"
SETTINGS = ("quiet", "loud", "six")
ARRAYS = ("accuracy", "time_s", "objective", "diverged")  # of `Curves`
AXES = {  # of every array
    "optimum": (1,), "targets": (1,), "accuracy": (2,), "time_s": (2,), "objective": (2,), "diverged": (0, 1),
    "radiated": (1,), "levels_dbm": (1,),
}  # fmt: skip


def write(path: Path, evidence: Evidence) -> None:
    """Everything that the claims are judged by, as plain arrays named `setting/method/array` or `noise/series/array`."""
    files.write_npz(path, dict(_arrays(evidence)))


def _arrays(evidence: Evidence) -> Iterator[tuple[str, NDArray[Any]]]:
    yield "optimum", evidence.optimum
    yield "targets", np.asarray(evidence.targets)
    for name in SETTINGS:
        for method, curves in getattr(evidence, name).items():
            for array in ARRAYS:
                yield f"{name}/{method}/{array}", np.asarray(getattr(curves, array))
            yield from _radiated(f"{name}/{method}", curves.radiated)
    for series, curve in evidence.noise.items():
        yield f"noise/{series}/levels_dbm", np.asarray(curve.levels_dbm)
        yield f"noise/{series}/accuracy", curve.accuracy
        yield from _radiated(f"noise/{series}", curve.radiated)


def _radiated(place: str, spent: Radiated | None) -> Iterator[tuple[str, NDArray[Any]]]:
    if spent is not None:
        yield f"{place}/radiated", np.array([spent.median_w, spent.over_budget])


def read(path: Path) -> Evidence:
    """What `write` wrote."""
    arrays = files.read_npz(path)
    for name, array in arrays.items():
        kind = name.rpartition("/")[2]
        if (
            array.dtype.kind not in "bif"
            or array.ndim not in AXES.get(kind, ())
            or (kind == "radiated" and array.size != 2)
        ):
            raise UserError(f"'{path}' is not the evidence of a reproduction ('{name[:60]}' is something else)")
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
        lines = {series.name: series for series in noise_series()}
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
        return Evidence(
            **settings, noise=noise, optimum=arrays["optimum"], targets=tuple(arrays["targets"].tolist())
        )  # fmt: skip
    except (KeyError, IndexError) as error:
        raise UserError(f"'{path}' is not the evidence of a reproduction (it lacks {error})") from None


def _names(arrays: Mapping[str, Any], place: str) -> list[str]:
    return list(dict.fromkeys(key.split("/")[1] for key in arrays if key.startswith(f"{place}/")))


def _spent(arrays: Mapping[str, NDArray[Any]], place: str) -> Radiated | None:
    found = arrays.get(f"{place}/radiated")
    return None if found is None else Radiated(median_w=float(found[0]), over_budget=float(found[1]))
