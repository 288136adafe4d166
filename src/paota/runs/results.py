"""What happened: the trajectories of every algorithm and seed, and their summary."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import unknown_name
from ..experiment import Experiment
from . import fairness, measures
from .files import Columns, to_pandas

TABLES = ("metrics", "devices", "own")


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One algorithm with one seed."""

    label: str
    algorithm: str
    seed: int
    metrics: Columns  # one row a round; row 0 is the initial model
    devices: Columns  # one row for every device in every event
    own: Columns = field(default_factory=dict)  # one row for every device at some looks: see `fairness.own_records`
    model: NDArray[Any]  # the last global model, [d]
    diverged_round: int | None = None  # the first round whose model is not finite
    compute_s: float = math.nan  # compiling excluded, evaluation included


@dataclass(frozen=True, kw_only=True)
class Result:
    """All trajectories of an experiment. `metrics` and `devices` are tidy tables, column by column."""

    experiment: Experiment
    trajectories: Sequence[Trajectory]
    info: Mapping[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """Of the algorithms, in the order of the experiment."""
        return list(dict.fromkeys(t.label for t in self.trajectories))

    @property
    def seeds(self) -> list[int]:
        """In rising order."""
        return sorted({t.seed for t in self.trajectories})

    @property
    def metrics(self) -> Columns:
        """One row a round of every trajectory; row 0 of each is its initial model."""
        return _stack(self.trajectories, "metrics")

    @property
    def devices(self) -> Columns:
        """One row for every device in every event of every trajectory."""
        return _stack(self.trajectories, "devices")

    @property
    def own(self) -> Columns:
        """One row for every device at the looks of `evaluation.devices_every`: how well the model does on its own data."""
        return _stack(self.trajectories, "own")

    def by_device(self, label: str) -> Columns:
        """One row for every device and seed of one algorithm, from its last model: see `fairness.by_device`.

        `accuracy` on the device's own kind of data, beside how often, how stale and over what channel it was heard.
        """
        tables = [(t.seed, fairness.by_device(t.metrics, t.devices, t.own)) for t in self.of(label)]
        return _rows([{"seed": np.full(len(table["device"]), seed), **table} for seed, table in tables])

    @property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` holds: see `summarise`."""
        return summarise(self)

    def of(self, label: str) -> list[Trajectory]:
        """The trajectories of one algorithm, one a seed."""
        found = [t for t in self.trajectories if t.label == label]
        if not found:
            raise unknown_name("algorithm label", label, self.labels)
        return found

    def array(self, label: str, column: str) -> NDArray[Any]:
        """One metric as [seeds, rounds + 1]; shorter trajectories end in NaN."""
        rows = [t.metrics[column] for t in self.of(label)]
        longest = max(len(row) for row in rows)
        return np.array([np.pad(row.astype(float), (0, longest - len(row)), constant_values=np.nan) for row in rows])

    def time_to(self, accuracy: float, label: str | None = None) -> dict[str, float] | float:
        """Median simulated seconds to a test accuracy; infinite if at least half of the seeds never reach it.

        Args:
            accuracy: share of the test set, 0 to 1.
            label: of one algorithm (default: all, and a dictionary by label is returned).
        """
        if label is None:
            return {name: float(self.time_to(accuracy, name)) for name in self.labels}  # type: ignore[arg-type]
        return measures.median([measures.reach(t, accuracy) for t in self.of(label)])

    def to_pandas(self, table: str = "metrics") -> Any:
        """The table `metrics`, `devices` or `own` as a pandas DataFrame."""
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        return to_pandas(getattr(self, table))

    def save(self, folder: str | Path, *, report: bool = True) -> Path:
        """Write the run folder. It must not hold anything yet."""
        from .folder import new_folder, write_folder

        path = new_folder(folder)
        write_folder(self, path, report=report)
        return path


def summarise(result: Result) -> dict[str, Any]:
    """What `summary.json` holds: every measure of `paota.runs.measures` by algorithm label, with the value of each seed.

    `equal_time_s` and `equal_rounds` are the largest that all trajectories have reached.
    """
    targets = result.experiment.targets
    equal_time_s = min(float(t.metrics["time_s"][-1]) for t in result.trajectories)
    equal_rounds = min(int(t.metrics["round"][-1]) for t in result.trajectories)
    algorithms: dict[str, Any] = {}
    for label in result.labels:
        runs = result.of(label)
        rounds = sum(len(t.metrics["round"]) - 1 for t in runs)
        algorithms[label] = {
            "algorithm": runs[0].algorithm,
            "final_accuracy": _accuracies([measures.final_accuracy(t) for t in runs]),
            "accuracy_at_equal_rounds": _accuracies([measures.accuracy_at(t, equal_rounds, "round") for t in runs]),
            "accuracy_at_equal_time": _accuracies([measures.accuracy_at(t, equal_time_s, "time_s") for t in runs]),
            "rounds_to": {f"{target:g}": _reaches(runs, target, "round") for target in targets},
            "seconds_to": {f"{target:g}": _reaches(runs, target, "time_s") for target in targets},
            "devices": _devices(runs),
            "rounds_per_second": rounds / max(sum(t.compute_s for t in runs), 1e-9),
            "diverged": [{"seed": t.seed, "round": t.diverged_round} for t in runs if t.diverged_round is not None],
        }
    return {
        "name": result.experiment.name,
        "version": result.info.get("paota"),
        "score": result.info.get("score", "accuracy"),
        "seeds": result.seeds,
        "targets": list(targets),
        "equal_time_s": equal_time_s,
        "equal_rounds": equal_rounds,
        "algorithms": algorithms,
    }


def _accuracies(values: list[float]) -> dict[str, Any]:
    return {"mean": np.mean(values), "std": np.std(values), "median": measures.median(values), "values": values}


def _reaches(runs: Sequence[Trajectory], target: float, along: str) -> dict[str, Any]:
    """Quartiles over all seeds; never is infinite, and null in JSON."""
    spread = measures.Spread(tuple(measures.reach(run, target, along) for run in runs))
    return {
        "median": spread.median, "q25": spread.low, "q75": spread.high,
        "reached": spread.reached, "values": list(spread.values),
    }  # fmt: skip


def _devices(runs: Sequence[Trajectory]) -> dict[str, Any]:
    """How the model serves the devices on their own data at the end; empty where it was not recorded."""
    finals = [fairness.final_scores(t.own) for t in runs]
    if not all(len(final) for final in finals):
        return {}
    lost = [t.diverged_round is not None for t in runs]
    return {
        name: _accuracies([0.0 if gone else measure(final) for gone, final in zip(lost, finals, strict=True)])
        for name, measure in _OVER_DEVICES.items()
    }


_OVER_DEVICES: dict[str, Callable[[Any], float]] = {
    "worst_tenth": measures.worst_tenth, "best_tenth": measures.best_tenth, "deviation": measures.deviation,
}  # fmt: skip


def _stack(trajectories: Sequence[Trajectory], table: str) -> Columns:
    parts = []
    for t in trajectories:
        columns: Columns = getattr(t, table)
        length = len(next(iter(columns.values()), ()))
        names = {"label": t.label, "algorithm": t.algorithm} if table == "metrics" else {"label": t.label}
        constant: Columns = {name: np.full(length, value, dtype=object) for name, value in names.items()}
        parts.append({**constant, "seed": np.full(length, t.seed), **columns})
    return _rows(parts)


def _rows(parts: Sequence[Columns]) -> Columns:
    """Tables below each other."""
    names_of_all = dict.fromkeys(name for part in parts for name in part)
    return {  # a column that only some trajectories have, such as `lost`, is NaN for the others
        name: np.concatenate([part.get(name, np.full(len(part["seed"]), np.nan)) for part in parts])
        for name in names_of_all
    }
