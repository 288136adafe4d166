"""The run folder: what a run leaves behind, readable by people and programs, complete or marked as unfinished.

While a run goes on, the folder holds `experiment.toml`, `unfinished.json` and `checkpoints/`, and for those who watch
`rounds.csv` and `live.json`. When it ends, the results are written, `run.json` last, and only then are the others removed: a
folder with a `run.json` is whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base import files
from ..base.bounded import digest
from ..base.columns import DEVICES, METRICS, with_new_names
from ..base.errors import UserError, is_plain
from ..base.files import Columns
from ..base.rng import Seeds, seed_numbers
from ..experiment.experiment import Experiment
from ..experiment.files import read_toml
from ..experiment.recorded import RecordedExperiment
from ..experiment.sections import check_outline
from .checkpoint import differences
from .result import Result, Trajectory
from .tables import check_tables
from .views import view

METRIC_TYPES: dict[str, type] = {"label": str, "algorithm": str, "seed": int}
METRIC_TYPES |= {column.name: int for column in METRICS if column.integer}
CHECKPOINTS = "checkpoints"
UNFINISHED = "unfinished.json"
LIVE = ("rounds.csv", "live.json")  # what a run tells while it goes on
DATA_FILES = (  # what a run is read back from
    "experiment.toml", "metrics.csv", "devices.npz", "device_scores.npz", "own.npz", "models.npz"
)  # fmt: skip
DEVICE_SCORES, OWN = "device_scores.npz", "own.npz"  # scores on data like each device's own; and its older name


def refuse_used_folder(folder: str | Path) -> None:
    """Raise if `folder` is a file, or holds anything: results of two runs must not mix."""
    path = Path(folder)
    try:
        used = path.exists() and (not path.is_dir() or any(path.iterdir()))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot look into '{folder}': {getattr(error, 'strerror', error)}") from None
    if used:
        raise UserError(f"'{folder}' exists already and is not empty: choose another folder")


def new_folder(folder: str | Path) -> Path:
    """Make `folder`, and what is above it; one that holds something is refused."""
    refuse_used_folder(folder)
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the folder '{folder}': {error.strerror}") from None
    return path


def begin_folder(folder: str | Path, experiment: Experiment, seeds: Sequence[int]) -> Path:
    """A folder for a run that is about to start, from which it can be resumed."""
    path = new_folder(folder)
    try:
        files.write_text(path / "experiment.toml", files.to_toml(experiment.to_dict()))
        files.write_json(path / UNFINISHED, {"seeds": list(seeds)})
    except UserError:  # read-only or full: leave no half-made folder
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
        raise
    return path


def read_unfinished(folder: Path) -> list[int]:
    """The seeds of the unfinished run in `folder`."""
    if not (folder / UNFINISHED).is_file():
        raise UserError(f"'{folder}' holds no run to go on with (no {UNFINISHED} in it)")
    found = files.read_json(folder / UNFINISHED)
    seeds = found.get("seeds") if isinstance(found, dict) else None
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int for seed in seeds):
        raise UserError(f"'{folder / UNFINISHED}' is damaged: it does not say which seeds the run has")
    return seeds


def finish_folder(result: Result, path: Path) -> None:
    """Write the results, then remove what was needed only to go on."""
    write_folder(result, path)
    remove_leftovers(path)


def remove_leftovers(path: Path) -> None:
    """What was needed only to go on; harmless to repeat, should the first time have been cut short."""
    shutil.rmtree(path / CHECKPOINTS, ignore_errors=True)
    parts = path.glob(".*.part")  # of writes that were killed
    for file in (path / UNFINISHED, *(path / name for name in LIVE), *parts):
        with contextlib.suppress(OSError):  # not there, or on a disk that can only be read
            file.unlink()


def is_finished(path: Path) -> bool:
    """Whether the run folder `path` is whole."""
    return (path / "run.json").is_file()


def write_folder(result: Result, path: Path, *, report: bool = True) -> None:
    """Write all files of a run folder, `run.json` last; `report`: the page too."""
    files.write_text(path / "experiment.toml", files.to_toml(result.experiment.to_dict()))
    files.write_csv(path / "metrics.csv", result.metrics)
    files.write_npz(path / "devices.npz", _text_to_codes(result.devices, result.labels))
    files.write_npz(path / DEVICE_SCORES, _text_to_codes(result.device_scores, result.labels))
    files.write_npz(path / "models.npz", {f"{i}": t.model for i, t in enumerate(result.trajectories)})
    files.write_json(path / "summary.json", result.summary)
    if report:
        view("report")([result], path / "report.html")
    told = files.jsonable({**result.info, "trajectories": [_facts(t) for t in result.trajectories]})
    files.write_json(path / "run.json", {**told, "checksums": {**checksums(path), "run.json": _checksum_of(told)}})


def checksums(path: Path) -> dict[str, str]:
    """SHA-256 of the files of a run folder from which it is read back."""
    return {name: digest(path / name, "sha256").hex() for name in DATA_FILES if (path / name).is_file()}


def _checksum_of(told: Any) -> str:
    """Of what `run.json` says beside the checksums."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def load(folder: str | Path, *, check: bool = True, trust_plugins: bool = False) -> Result:
    """Read a run folder back. Nothing is imported that it names.

    A run of your own algorithm, model, ... opens without the code too: its tables, figures and models are there, and its
    `experiment` is the table as it was written. Import or register your code first, or trust the folder, to go further.

    Args:
        folder: what `paota run` or `Result.save` has written.
        check: refuse a folder whose files have been changed since; False reads them as they are.
        trust_plugins: import the Python code that the folder names: plug-ins, and a model of its own when it is needed.
    """
    path = Path(folder)
    if not is_finished(path):
        raise UserError(f"'{folder}' is not a finished run folder (no run.json in it)")
    info = files.read_json(path / "run.json")
    try:
        written = dict(info.pop("checksums", {}))  # runs of version 0.1 have none
        now = {**checksums(path), "run.json": _checksum_of(info)} if check else written
        changed = [name for name, checksum in written.items() if now.get(name) != checksum]
        if changed:
            raise UserError(
                f"'{folder}': {' and '.join(changed)} changed after the run had been written, so its results are not what "
                "was computed; paota.load(..., check=False) and paota report --unchecked read them as they are"
            )
        facts = [_checked_facts(fact) for fact in info.pop("trajectories")]
        experiment = _experiment(path, trust_plugins)
        metrics = with_new_names(files.read_csv(path / "metrics.csv", METRIC_TYPES), METRICS)
        devices = with_new_names(files.read_npz(path / "devices.npz"), DEVICES)
        stored = [path / name for name in (DEVICE_SCORES, OWN) if (path / name).is_file()]  # none in version 0.1
        scores = files.read_npz(stored[0]) if stored else {}
        models = files.read_npz(path / "models.npz")
        trajectories = list(_trajectories(facts, metrics, devices, scores, models))
        check_tables(trajectories, int(experiment.to_dict()["data"]["devices"]))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise UserError(f"'{folder}' is not a run folder of this version of paota ({error!r:.200})") from None
    return Result(experiment=experiment, trajectories=trajectories, info=info)


def _trajectories(
    facts: list[dict[str, Any]], metrics: Columns, devices: Columns, scores: Columns, models: Columns
) -> Iterator[Trajectory]:
    if not facts:
        raise ValueError("there is no trajectory in it")
    order = list(dict.fromkeys(fact["label"] for fact in facts))
    for i, fact in enumerate(facts):
        mine = (metrics["label"] == fact["label"]) & (metrics["seed"] == fact["seed"])
        unit = order.index(fact["label"]), fact["seed"]
        yield Trajectory(
            **fact,
            metrics={k: v[mine] for k, v in metrics.items() if k not in ("label", "algorithm", "seed")},
            devices=_rows_of(devices, *unit),
            device_scores=_rows_of(scores, *unit) if scores else {},
            model=models[str(i)],
        )


def _experiment(path: Path, trust_plugins: bool) -> Experiment | RecordedExperiment:
    """What was run; as data where it needs code that is unknown here and not trusted."""
    table = read_toml(path / "experiment.toml")
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


def differences_from(result: Result, experiment: Experiment, seeds: Seeds) -> Iterator[tuple[str, Any, Any]]:
    """(dotted name, value asked for, value found) wherever a run that was read is not the one that is wanted."""
    asked = {"seeds": seed_numbers(seeds, experiment.seed), "experiment": experiment.to_dict()}
    found = {"seeds": result.seeds, "experiment": result.experiment.to_dict()}
    yield from differences(files.jsonable(asked), files.jsonable(found))


def _checked_facts(fact: dict[str, Any]) -> dict[str, Any]:
    """What `_facts` has written, and not more."""
    compute_s = fact["compute_s"]
    kinds: dict[str, Any] = {
        "label": str, "algorithm": str, "seed": int, "diverged_round": int | None, "stopped_round": int | None,
        "compute_s": float | int | None,
    }  # fmt: skip
    for name, kind in kinds.items():
        value = fact.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, str) and not is_plain(value)):
            raise ValueError(f"{name} of a trajectory is {value!r:.60}")
    kept = {name: fact.get(name) for name in kinds}
    return {**kept, "compute_s": math.nan if compute_s is None else float(compute_s)}


def _facts(t: Trajectory) -> dict[str, Any]:
    return {
        "label": t.label, "algorithm": t.algorithm, "seed": t.seed,
        "diverged_round": t.diverged_round, "stopped_round": t.stopped_round, "compute_s": t.compute_s,
    }  # fmt: skip


def _rows_of(columns: Columns, label: int, seed: int) -> Columns:
    """The rows of one trajectory in a table whose labels are codes."""
    mine = (columns["label"] == label) & (columns["seed"] == seed)
    return {name: values[mine] for name, values in columns.items() if name not in ("label", "seed")}


def _text_to_codes(columns: Columns, labels: list[str]) -> Columns:
    """Labels as their position in the run's list of labels: arrays of text would need pickles."""
    position = {label: i for i, label in enumerate(labels)}
    codes = np.array([position[label] for label in columns["label"]], dtype=np.int32)
    return {**columns, "label": codes}
