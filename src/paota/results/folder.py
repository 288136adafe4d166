"""The run folder: the files of a run, readable by people and programs, complete or marked as unfinished.

During a run, the folder holds `experiment.toml`, `unfinished.json`, `checkpoints/`, and for the live dashboard `rounds.csv`
and `live.json`. At the end, the results are written, `run.json` last, and then the other files are removed: a folder with
a `run.json` is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import pkgutil
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType

import numpy as np

from ..base import files
from ..base.bounded import digest
from ..base.columns import DEVICE_SCORES, DEVICES, METRICS, needed, with_new_names
from ..base.errors import UserError, concise, is_plain
from ..base.files import Columns
from ..base.rng import Seeds, seed_numbers
from ..base.types import Json, Settings, Table
from ..experiment.experiment import Experiment, RecordedExperiment, override
from ..experiment.files import read_toml
from ..experiment.sections import check_outline
from .checkpoint import differences
from .result import Result, Trajectory

METRIC_TYPES: dict[str, type] = {"label": str, "algorithm": str, "seed": int}
METRIC_TYPES |= {column.name: int for column in METRICS if column.integer}
CHECKPOINTS = "checkpoints"
UNFINISHED = "unfinished.json"
LIVE = ("rounds.csv", "live.json")  # files for the live dashboard
SCORES = ("device_scores.npz", "own.npz")  # the second is an older name of the first
DATA_FILES = ("experiment.toml", "metrics.csv", "devices.npz", *SCORES, "models.npz")  # a run is read back from these
FACTS: dict[str, type | UnionType] = {  # of a trajectory, in run.json
    "label": str, "algorithm": str, "seed": int, "diverged_round": int | None, "stopped_round": int | None,
    "compute_s": float | int | None,
}  # fmt: skip


def refuse_used_folder(folder: str | Path) -> None:
    """Raise if `folder` is a file or is not empty, so that results of two runs do not mix."""
    path = Path(folder)
    try:
        used = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot look into '{folder}': {getattr(error, 'strerror', error)}") from None
    if used:
        raise UserError(f"'{folder}' exists already and is not empty: choose another folder")


def new_folder(folder: str | Path) -> Path:
    """Make `folder` and its parents, and return its path; refuse a folder that is not empty."""
    refuse_used_folder(folder)
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder '{folder}': {error.strerror}") from None
    return path


def begin_folder(folder: str | Path, experiment: Experiment, seeds: Sequence[int]) -> Path:
    """Make the folder of a run that is about to start, from which it can be resumed, and return its path."""
    path = new_folder(folder)
    try:
        files.write_text(path / "experiment.toml", files.to_toml(experiment.to_dict()))
        files.write_json(path / UNFINISHED, {"seeds": list(seeds)})
    except UserError:  # read-only or full: leave no incomplete folder
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
        raise
    return path


def read_unfinished(folder: Path) -> list[int]:
    """Return the seeds of the unfinished run in `folder`."""
    if not (folder / UNFINISHED).is_file():
        raise UserError(f"'{folder}' holds no run to resume (no {UNFINISHED} in it)")
    found = files.read_json(folder / UNFINISHED)
    seeds = found.get("seeds") if isinstance(found, dict) else None
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise UserError(f"'{folder / UNFINISHED}' is damaged: it does not list the seeds of the run")
    return seeds


def finish_folder(result: Result, path: Path) -> None:
    """Write the results, then remove the files that served only to resume the run."""
    write_folder(result, path)
    remove_leftovers(path)


def remove_leftovers(path: Path) -> None:
    """Remove the files of an unfinished run. Repeating it is harmless."""
    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
    parts = path.glob(".*.part")  # of writes that were killed
    for file in (path / UNFINISHED, *(path / name for name in LIVE), *parts):
        with contextlib.suppress(OSError):  # missing, or on a read-only disk
            file.unlink()


def is_finished(path: Path) -> bool:
    """Return whether the run folder `path` is complete."""
    return (path / "run.json").is_file()


def write_folder(result: Result, path: Path, *, report: bool = True) -> None:
    """Write all files of a run folder, `run.json` last; with `report`, also the page."""
    files.write_text(path / "experiment.toml", files.to_toml(result.experiment.to_dict()))
    files.write_csv(path / "metrics.csv", result.metrics)
    files.write_npz(path / "devices.npz", _text_to_codes(result.devices, result.labels))
    files.write_npz(path / SCORES[0], _text_to_codes(result.device_scores, result.labels))
    files.write_npz(path / "models.npz", {f"{i}": t.model for i, t in enumerate(result.trajectories)})
    files.write_json(path / "summary.json", result.summary)
    if report:
        pkgutil.resolve_name("paota.studies.report.report:write")([result], path / "report.html")
    facts = [{name: getattr(t, name) for name in FACTS} for t in result.trajectories]
    content = files.jsonable({**result.info, "trajectories": facts})
    files.write_json(
        path / "run.json", {**content, "checksums": {**checksums(path), "run.json": _checksum_of(content)}}
    )


def checksums(path: Path) -> dict[str, str]:
    """Return the SHA-256 of the files from which a run folder is read back, by name."""
    return {name: digest(path / name, "sha256").hex() for name in DATA_FILES if (path / name).is_file()}


def _checksum_of(content: Json) -> str:
    """Return the SHA-256 of the content of `run.json` without its checksums."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@concise
def load(
    folder: str | Path, *, check: bool = True, trust_plugins: bool = False, model: object = None, dataset: object = None
) -> Result:
    """Return the result in a run folder. Nothing that the folder names is imported by default.

    A run of your own algorithm or model opens without the code too: its tables, figures and weights are available, and its
    `experiment` is the table as written. To compute with it, import or register your code first, or trust the folder.

    Args:
        folder: written by `paota run` or `Result.save`.
        check: refuse a folder whose files changed later; False reads them as they are.
        trust_plugins: import the Python code that the folder names: plug-ins, and a model when it is needed.
        model: the model that the run got as an object, for `Result.predict` and `Result.model`.
        dataset: likewise its data set.
    """
    path = Path(folder)
    if not is_finished(path):
        raise UserError(f"'{folder}' is not a finished run folder (no run.json in it)")
    info = files.read_json(path / "run.json")
    try:
        written = dict(info.pop("checksums", {}))  # version 0.1 wrote none
        now = {**checksums(path), "run.json": _checksum_of(info)} if check else written
        changed = [name for name, checksum in written.items() if now.get(name) != checksum]
        if changed:
            raise UserError(
                f"'{folder}': {' and '.join(changed)} changed after the run had been written, so its results are not what "
                "was computed; paota.load(..., check=False) and paota report --unchecked read them as they are"
            )
        facts = [_checked_facts(fact) for fact in info.pop("trajectories")]
        experiment = _experiment(path, trust_plugins, {"model.name": model, "data.dataset": dataset})
        metrics = with_new_names(files.read_csv(path / "metrics.csv", METRIC_TYPES), METRICS)
        devices = with_new_names(files.read_npz(path / "devices.npz"), DEVICES)
        stored = [path / name for name in SCORES if (path / name).is_file()]  # version 0.1 wrote none
        scores = files.read_npz(stored[0]) if stored else {}
        models = files.read_npz(path / "models.npz")
        trajectories = list(_trajectories(facts, metrics, devices, scores, models))
        _check_tables(trajectories, int(experiment.to_dict()["data"]["devices"]))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise UserError(f"'{folder}' is not a run folder of this version of paota ({error!r:.200})") from None
    return Result(experiment=experiment, trajectories=trajectories, info=info)


def _trajectories(
    facts: list[Table], metrics: Columns, devices: Columns, scores: Columns, models: Columns
) -> Iterator[Trajectory]:
    if not facts:
        raise ValueError("there is no trajectory in it")
    order = list(dict.fromkeys(fact["label"] for fact in facts))
    for i, fact in enumerate(facts):
        code, seed = order.index(fact["label"]), fact["seed"]
        yield Trajectory(
            **fact,
            metrics=_rows_of(metrics, fact["label"], seed),
            devices=_rows_of(devices, code, seed),
            device_scores=_rows_of(scores, code, seed) if scores else {},
            model=models[str(i)],
        )


def _experiment(path: Path, trust_plugins: bool, objects: Settings) -> Experiment | RecordedExperiment:
    """Return the experiment of a folder with `objects`; as data if it needs code that is neither loaded nor trusted."""
    table = override(read_toml(path / "experiment.toml"), {k: one for k, one in objects.items() if one is not None})
    try:
        return Experiment.from_dict(table, base=path, trust_plugins=trust_plugins)
    except UserError as error:
        if trust_plugins:
            raise
        why = str(error)
    try:
        check_outline(table)
    except UserError as error:
        raise UserError(f"'{path / 'experiment.toml'}': {error}") from None
    return RecordedExperiment(table=table, why=why)


def differences_from(result: Result, experiment: Experiment, seeds: Seeds) -> Iterator[tuple[str, object, object]]:
    """Yield (dotted name, requested value, found value) for each difference of a stored run from the requested one."""
    asked = {"seeds": seed_numbers(seeds, experiment.seed), "experiment": experiment.to_dict()}
    found = {"seeds": result.seeds, "experiment": result.experiment.to_dict()}
    yield from differences(files.jsonable(asked), files.jsonable(found))


def _checked_facts(fact: Table) -> Table:
    """Return the `FACTS` of a trajectory in `run.json`; raise a ValueError if one has the wrong type."""
    for name, kind in FACTS.items():
        value = fact.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, str) and not is_plain(value)):
            raise ValueError(f"{name} of a trajectory is {value!r:.60}")
    compute_s = fact["compute_s"]
    kept = {name: fact.get(name) for name in FACTS}
    return {**kept, "compute_s": math.nan if compute_s is None else float(compute_s)}


def _rows_of(columns: Columns, label: str | int, seed: int) -> Columns:
    """Return the rows of one trajectory; `label` is a text in the metrics, else its position in the list of labels."""
    mine = (columns["label"] == label) & (columns["seed"] == seed)
    return {name: values[mine] for name, values in columns.items() if name not in ("label", "algorithm", "seed")}


def _text_to_codes(columns: Columns, labels: list[str]) -> Columns:
    """Replace labels by their position in the run's list of labels, because arrays of text need pickles."""
    position = {label: i for i, label in enumerate(labels)}
    codes = np.array([position[label] for label in columns["label"]], dtype=np.int32)
    return {**columns, "label": codes}


def _check_tables(trajectories: Sequence[Trajectory], num_devices: int) -> None:
    """Raise a ValueError if tables are inconsistent: files edited by hand may lack columns or demand any memory."""
    for t in trajectories:
        unit = f"'{t.label}', seed {t.seed}"
        _check_columns(t.metrics, needed(METRICS), f"metrics.csv of {unit}")
        rounds = t.metrics["round"]
        if not len(rounds) or not np.array_equal(rounds, rounds[0] + np.arange(len(rounds))):
            raise ValueError(f"metrics.csv has not every round of {unit}")
        for name, columns, table in (("devices", t.devices, DEVICES), (SCORES[0][:-4], t.device_scores, DEVICE_SCORES)):
            if columns or table is DEVICES:  # scores are optional
                _check_columns(columns, needed(table), f"{name}.npz of {unit}")
                _check_range(columns["device"], num_devices, f"device in {name}.npz of {unit}")
                for column in ("round", "version", "staleness"):
                    numbers = columns.get(column, np.zeros(0))
                    _check_range(numbers, int(rounds[-1]) + 1, f"{column} in {name}.npz of {unit}")
        scored = t.device_scores.get("device", np.zeros(0))
        if not np.array_equal(scored, np.tile(np.arange(num_devices), len(scored) // num_devices)):
            raise ValueError(f"device_scores.npz has not every device of {unit}")
        if t.model.ndim != 1 or not np.issubdtype(t.model.dtype, np.floating):
            raise ValueError(f"models.npz has no model of {unit}")


def _check_columns(columns: Columns, names: Sequence[str], where: str) -> None:
    missing = [name for name in names if name not in columns]
    if missing:
        raise ValueError(f"{where} has no column '{missing[0]}'")
    if any(column.ndim != 1 or column.dtype.kind not in "biuf" for column in columns.values()):
        raise ValueError(f"{where} holds something else than numbers")


def _check_range(numbers: np.ndarray, end: int, where: str) -> None:
    if len(numbers) and (numbers.dtype.kind not in "iu" or numbers.min() < 0 or numbers.max() >= end):
        raise ValueError(f"a {where} is not from 0 to {end - 1}")
