"""Experiment trackers: TensorBoard, MLflow and Weights & Biases. Each algorithm and seed is a run of its own there.

What a tracker gets: every metric of every round, with the round as its step; the settings, flat; at the end of a unit a
summary, and three files: `experiment.toml`, `metrics.csv` and `model.npz`.
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
from typing import TYPE_CHECKING, Any

from ..base import files
from ..base.errors import UserError, install_command
from ..results import measures
from .base import Callback, Round, Start

if TYPE_CHECKING:
    from ..results.result import Result, Trajectory

Key = tuple[str, int]  # label, seed


class Tracker(Callback):
    """What all of them share; each says how to open a run, log numbers and files into it, and close it."""

    package: str  # that must be installed
    extra: str  # of paota, that installs it

    def start(self, run: Start) -> None:
        self.module = _needed(self.package, self.extra)
        self.run, self._open = run, dict[Key, Any]()

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
        while self._open:  # only when the run was cut short
            _, run = self._open.popitem()
            self.close(run, {}, [], finished=False)

    def _settings(self, unit: Key) -> dict[str, Any]:
        """The settings of one unit, flat: `timing.period_s`, ...; its own algorithm's as `algorithm.*`."""
        table = self.run.experiment.to_dict()
        entries = table.pop("algorithms")
        (mine,) = (entry for entry in entries if entry.get("label", entry["name"]) == unit[0])
        chosen = {"label": unit[0], "seed": unit[1], "algorithm": mine, "title": self.run.title}
        return dict(_flat(table | chosen))

    def open(self, unit: Key, settings: Mapping[str, Any]) -> Any:
        """Begin a run of the tracker for a label and seed with these settings."""
        raise NotImplementedError

    def log(self, run: Any, metrics: Mapping[str, float], step: int) -> None:
        """Numbers of one round."""
        raise NotImplementedError

    def close(self, run: Any, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        """End a run; not `finished` if it was cut short."""
        raise NotImplementedError


class TensorBoard(Tracker):
    """Writes event files: `tensorboard --logdir DIR`.

    Args:
        folder: where each algorithm and seed gets a folder (default: `tensorboard` in the run folder, or here).
    """

    package, extra = "tensorboard", "tensorboard"

    def __init__(self, folder: str | Path | None = None) -> None:
        self._folder = folder

    def start(self, run: Start) -> None:
        super().start(run)
        proto = "tensorboard.compat.proto"
        self._writer = importlib.import_module("tensorboard.summary.writer.event_file_writer").EventFileWriter
        self._event = importlib.import_module(f"{proto}.event_pb2").Event
        self._summary = importlib.import_module(f"{proto}.summary_pb2")
        self._tensor = importlib.import_module(f"{proto}.tensor_pb2").TensorProto
        self._base = Path(self._folder) if self._folder is not None else (run.folder or Path()) / "tensorboard"

    def open(self, unit: Key, settings: Mapping[str, Any]) -> Any:
        parts = self.run.title, unit[0], f"seed-{unit[1]}"
        place = self._base.joinpath(*(re.sub(r"[^\w.=-]+", "-", part).strip(".-") or "run" for part in parts))
        writer = self._writer(str(place))
        self._add(writer, [self._text("settings", settings)], 0)
        return writer, place

    def log(self, run: Any, metrics: Mapping[str, float], step: int) -> None:
        values = [self._summary.Summary.Value(tag=tag, simple_value=value) for tag, value in metrics.items()]
        self._add(run[0], values, step)

    def close(self, run: Any, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        writer, place = run
        for path in artifacts:
            with files.atomic(place / path.name) as copy:
                copy.write(path.read_bytes())
        writer.close()

    def _add(self, writer: Any, values: list[Any], step: int) -> None:
        summary = self._summary.Summary(value=values)
        writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def _text(self, tag: str, table: Mapping[str, Any]) -> Any:
        """What the dashboard's text plugin shows: Markdown, indented to stand as it is."""
        text = "\n".join(f"    {key} = {value}" for key, value in table.items())
        return self._summary.Summary.Value(
            tag=tag,
            metadata=self._summary.SummaryMetadata(plugin_data={"plugin_name": "text"}),
            tensor=self._tensor(dtype="DT_STRING", string_val=[text.encode()]),
        )


class MLflow(Tracker):
    """Logs to an MLflow store: `mlflow ui --backend-store-uri URI`.

    Args:
        uri: of the tracking store (default: what MLflow is configured for, `MLFLOW_TRACKING_URI`).
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

    def open(self, unit: Key, settings: Mapping[str, Any]) -> Any:
        run = self._client.create_run(self._experiment, run_name=_name(unit))
        identifier = run.info.run_id
        params = [self._entities.Param(key, str(value)[:500]) for key, value in settings.items()]
        for first in range(0, len(params), 100):  # as many as MLflow takes at once
            self._client.log_batch(identifier, params=params[first : first + 100])
        return identifier

    def log(self, run: Any, metrics: Mapping[str, float], step: int) -> None:
        now_ms = int(time.time() * 1000)
        self._client.log_batch(run, metrics=[self._entities.Metric(k, v, now_ms, step) for k, v in metrics.items()])

    def close(self, run: Any, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        for key, value in summary.items():
            self._client.log_metric(run, key, value)
        for path in artifacts:
            self._client.log_artifact(run, str(path))
        self._client.set_terminated(run, status="FINISHED" if finished else "KILLED")


class WandB(Tracker):
    """Logs to Weights & Biases, as `wandb` is configured (`WANDB_MODE=offline` keeps everything on this machine).

    Args:
        project: of the runs (default: `paota`); the experiment's name groups them.
        options: further arguments of `wandb.init`, e.g. `mode="offline"`, `dir=...`, `tags=[...]`.
    """

    package, extra = "wandb", "wandb"

    def __init__(self, project: str = "paota", **options: Any) -> None:
        self._project, self._options = project, options

    def open(self, unit: Key, settings: Mapping[str, Any]) -> Any:
        return self.module.init(
            project=self._project, group=self.run.title, name=_name(unit), config=dict(settings), reinit="create_new",
            **self._options,
        )  # fmt: skip

    def log(self, run: Any, metrics: Mapping[str, float], step: int) -> None:
        run.log(dict(metrics), step=step)

    def close(self, run: Any, summary: Mapping[str, float], artifacts: list[Path], *, finished: bool) -> None:
        run.summary.update(dict(summary))
        if artifacts:
            artifact = self.module.Artifact(f"run-{run.id}", type="paota-unit")
            for path in artifacts:
                artifact.add_file(str(path))
            run.log_artifact(artifact)
        run.finish(exit_code=0 if finished else 1)


def _needed(package: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UserError(f"this callback needs {package}: {install_command(extra)}") from None


def _name(unit: Key) -> str:
    return f"{unit[0]}, seed {unit[1]}"


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _summary(run: Start, t: Trajectory) -> dict[str, float]:
    """What a tracker's table of runs should show: all finite numbers."""
    values = {"final_accuracy": measures.final_accuracy(t), "final_loss": measures.final_loss(t)}
    for target in run.experiment.targets:
        values |= {f"{name}_to_{target:g}": measures.reach(t, target, column)
                   for name, column in (("rounds", "round"), ("seconds", "time_s"))}  # fmt: skip
    ends = {"diverged_round": t.diverged_round, "stopped_round": t.stopped_round}
    values |= {name: float(value) for name, value in ends.items() if value is not None}
    return {name: value for name, value in values.items() if math.isfinite(value)}


@contextmanager
def _artifacts(run: Start, trajectory: Trajectory) -> Iterator[list[Path]]:
    """The files of one unit, for as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="paota-track-") as folder:
        here = Path(folder)
        files.write_text(here / "experiment.toml", files.to_toml(run.experiment.to_dict()))
        files.write_csv(here / "metrics.csv", trajectory.metrics)
        files.write_npz(here / "model.npz", {"model": trajectory.model})
        yield sorted(here.iterdir())
