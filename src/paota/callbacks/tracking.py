"""Experiment trackers: TensorBoard, MLflow and Weights & Biases. Each algorithm and seed is one run of the tracker.

A tracker receives every metric of every round with the round as its step, and the settings. At the end of a unit it
receives a summary and three files: `experiment.toml`, `metrics.csv` and `model.npz`.
"""

from __future__ import annotations

import importlib
import math
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..base import files
from ..base.errors import UserError, install_command
from ..base.types import Settings, Table
from ..results import measures
from .base import Callback, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory

Key = tuple[str, int]  # label, seed
Run: TypeAlias = Any  # a run in the type of the tracker


class Tracker(Callback):
    """The base class of trackers. A subclass opens a run, logs numbers and files to it, and closes it."""

    package: str  # name for the import
    extra: str  # of paota that installs the package

    def start(self, run: Start) -> None:
        self.module = _needed(self.package, self.extra)
        self.run, self._open = run, dict[Key, Run]()

    def round(self, round: Round) -> None:
        unit = round.label, round.seed
        if unit not in self._open:
            self._open[unit] = self.open(unit, self._settings(unit))
        known = {name: value for name, value in round.metrics.items() if name != "round" and not math.isnan(value)}
        self.log(self._open[unit], known, round.round)

    def finish(self, trajectory: Trajectory) -> None:
        run = self._open.pop((trajectory.label, trajectory.seed))
        with _artifacts(self.run, trajectory) as paths:
            self.close(run, _summary(self.run, trajectory), paths, finished=True)

    def end(self, result: Result | None) -> None:
        while self._open:  # only after an interruption
            _, run = self._open.popitem()
            self.close(run, {}, [], finished=False)

    def _settings(self, unit: Key) -> Table:
        """Return the settings of one unit by dotted key: `timing.period_s`, ..., and `algorithm.*` for its algorithm."""
        table = self.run.experiment.to_dict()
        entries = table.pop("algorithms")
        (mine,) = (entry for entry in entries if entry.get("label", entry["name"]) == unit[0])
        chosen = {"label": unit[0], "seed": unit[1], "algorithm": mine, "title": self.run.title}
        return dict(_flat(table | chosen))

    def open(self, unit: Key, settings: Settings) -> Run:
        """Return a new run of the tracker for a label and seed with these settings."""
        raise NotImplementedError

    def log(self, run: Run, metrics: Mapping[str, float], step: int) -> None:
        """Log the numbers of one round."""
        raise NotImplementedError

    def close(self, run: Run, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        """End a run; `finished` is False after an interruption."""
        raise NotImplementedError


class TensorBoard(Tracker):
    """A writer of event files, for `tensorboard --logdir DIR`.

    Args:
        folder: parent of one folder per algorithm and seed (default: `tensorboard` in the run folder, or in the current
            folder).
    """

    package, extra = "tensorboard", "tensorboard"

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = folder

    def start(self, run: Start) -> None:
        super().start(run)
        self._writer = importlib.import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        self._event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
        self._base = Path(self._folder) if self._folder is not None else (run.folder or Path()) / "tensorboard"

    def open(self, unit: Key, settings: Settings) -> Run:
        parts = self.run.title, unit[0], f"seed-{unit[1]}"
        folder = self._base.joinpath(*(re.sub(r"[^\w.=-]+", "-", part).strip(".-") or "run" for part in parts))
        writer = self._writer(str(folder))
        text = "\n".join(f"    {key} = {value}" for key, value in settings.items())  # a code block in Markdown
        tensor = {"dtype": "DT_STRING", "string_val": [text.encode()]}
        metadata = {"plugin_data": {"plugin_name": "text"}}
        self._add(writer, [{"tag": "settings", "metadata": metadata, "tensor": tensor}], 0)
        return writer, folder

    def log(self, run: Run, metrics: Mapping[str, float], step: int) -> None:
        self._add(run[0], [{"tag": tag, "simple_value": value} for tag, value in metrics.items()], step)

    def close(self, run: Run, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        writer, folder = run
        for path in artifacts:
            with files.atomic(folder / path.name) as copy:
                copy.write(path.read_bytes())
        writer.close()

    def _add(self, writer: Run, values: list[Table], step: int) -> None:
        writer.add_event(self._event(wall_time=time.time(), step=step, summary={"value": values}))


class MLflow(Tracker):
    """A logger to an MLflow store, for `mlflow ui --backend-store-uri URI`.

    Args:
        uri: of the tracking store (default: MLflow's configuration, `MLFLOW_TRACKING_URI`).
    """

    package, extra = "mlflow", "mlflow"

    def __init__(self, uri: str | None = None) -> None:
        self._uri = uri

    def start(self, run: Start) -> None:
        super().start(run)
        self._entities = importlib.import_module("mlflow.entities")
        self._client = self.module.MlflowClient(tracking_uri=self._uri)
        known = self._client.get_experiment_by_name(run.title)
        self._experiment = known.experiment_id if known else self._client.create_experiment(run.title)

    def open(self, unit: Key, settings: Settings) -> Run:
        run = self._client.create_run(self._experiment, run_name=_name(unit))
        identifier = run.info.run_id
        params = [self._entities.Param(key, str(value)[:500]) for key, value in settings.items()]
        for first in range(0, len(params), 100):  # MLflow's limit per call
            self._client.log_batch(identifier, params=params[first : first + 100])
        return identifier

    def log(self, run: Run, metrics: Mapping[str, float], step: int) -> None:
        now_ms = int(time.time() * 1000)
        self._client.log_batch(run, metrics=[self._entities.Metric(k, v, now_ms, step) for k, v in metrics.items()])

    def close(self, run: Run, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        for key, value in summary.items():
            self._client.log_metric(run, key, value)
        for path in artifacts:
            self._client.log_artifact(run, str(path))
        self._client.set_terminated(run, status="FINISHED" if finished else "KILLED")


class WandB(Tracker):
    """A logger to Weights & Biases in the configuration of `wandb` (`WANDB_MODE=offline` sends nothing).

    Args:
        project: of the runs (default: `paota`); the experiment's name groups them.
        options: other arguments of `wandb.init`, e.g. `mode="offline"`, `dir=...`, `tags=[...]`.
    """

    package, extra = "wandb", "wandb"

    def __init__(self, project: str = "paota", **options: object) -> None:
        self._project, self._options = project, options

    def open(self, unit: Key, settings: Settings) -> Run:
        return self.module.init(
            project=self._project, group=self.run.title, name=_name(unit), config=dict(settings), reinit="create_new",
            **self._options,
        )  # fmt: skip

    def log(self, run: Run, metrics: Mapping[str, float], step: int) -> None:
        run.log(dict(metrics), step=step)

    def close(self, run: Run, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        run.summary.update(dict(summary))
        if artifacts:
            artifact = self.module.Artifact(f"run-{run.id}", type="paota-unit")
            for path in artifacts:
                artifact.add_file(str(path))
            run.log_artifact(artifact)
        run.finish(exit_code=0 if finished else 1)


def _needed(package: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UserError(f"this callback needs {package}: {install_command(extra)}") from None


def _name(unit: Key) -> str:
    return f"{unit[0]}, seed {unit[1]}"


def _flat(table: Settings, prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _summary(run: Start, t: Trajectory) -> dict[str, float]:
    """Return the finite final numbers of a unit, for the tracker's table of runs."""
    values = {"final_accuracy": measures.final_accuracy(t), "final_loss": measures.final_loss(t)}
    for target in run.experiment.targets:
        values |= {f"{name}_to_{target:g}": measures.reach(t, target, column)
                   for name, column in (("rounds", "round"), ("seconds", "time_s"))}  # fmt: skip
    ends = {"diverged_round": t.diverged_round, "stopped_round": t.stopped_round}
    values |= {name: float(value) for name, value in ends.items() if value is not None}
    return {name: value for name, value in values.items() if math.isfinite(value)}


@contextmanager
def _artifacts(run: Start, trajectory: Trajectory) -> Iterator[list[Path]]:
    """Yield the files of one unit, which exist during the `with` block."""
    with tempfile.TemporaryDirectory(prefix="paota-track-") as folder:
        here = Path(folder)
        files.write_text(here / "experiment.toml", files.to_toml(run.experiment.to_dict()))
        files.write_csv(here / "metrics.csv", trajectory.metrics)
        files.write_npz(here / "model.npz", {"model": trajectory.model})
        yield sorted(here.iterdir())
