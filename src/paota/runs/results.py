"""What happened: the trajectories of every algorithm and seed, and their summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError, unknown_name
from ..experiment import Experiment
from .files import Columns


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One algorithm with one seed."""

    label: str
    algorithm: str
    seed: int
    metrics: Columns  # one row a round; row 0 is the initial model
    devices: Columns  # one row for every device in every event
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
        return list(dict.fromkeys(t.label for t in self.trajectories))

    @property
    def seeds(self) -> list[int]:
        return sorted({t.seed for t in self.trajectories})

    @property
    def metrics(self) -> Columns:
        return _stack(self.trajectories, "metrics")

    @property
    def devices(self) -> Columns:
        return _stack(self.trajectories, "devices")

    @property
    def summary(self) -> dict[str, Any]:
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
        """Median simulated seconds to a test accuracy (infinite if more than half the seeds never reach it)."""
        if label is None:
            return {name: float(self.time_to(accuracy, name)) for name in self.labels}  # type: ignore[arg-type]
        return float(np.median([first_reach(t.metrics, accuracy, "time_s") for t in self.of(label)]))

    def to_pandas(self, table: str = "metrics") -> Any:
        """The table `metrics` or `devices` as a pandas DataFrame."""
        if table not in ("metrics", "devices"):
            raise unknown_name("table", table, ("metrics", "devices"))
        try:
            import pandas
        except ImportError:
            raise UserError("to_pandas needs pandas: pip install pandas") from None
        return pandas.DataFrame(self.metrics if table == "metrics" else self.devices)

    def save(self, folder: str | Path, *, report: bool = True) -> Path:
        """Write the run folder. It must not hold anything yet."""
        from .folder import new_folder, write_folder

        path = new_folder(folder)
        write_folder(self, path, report=report)
        return path


def first_reach(metrics: Columns, accuracy: float, column: str) -> float:
    """Value of `column` in the first row whose test accuracy is at least `accuracy`; infinity if there is none."""
    reached = np.flatnonzero(np.nan_to_num(metrics["test_accuracy"], nan=-1.0) >= accuracy)
    return float(metrics[column][reached[0]]) if len(reached) else math.inf


def accuracy_at(metrics: Columns, value: float, column: str) -> float:
    """The newest test accuracy known when `column` has reached `value`."""
    known = ~np.isnan(metrics["test_accuracy"]) & (metrics[column] <= value)
    return float(metrics["test_accuracy"][known][-1]) if known.any() else math.nan


def summarise(result: Result) -> dict[str, Any]:
    equal_time_s = min(float(t.metrics["time_s"][-1]) for t in result.trajectories)
    equal_rounds = min(int(t.metrics["round"][-1]) for t in result.trajectories)
    algorithms: dict[str, Any] = {}
    for label in result.labels:
        runs = result.of(label)
        rounds = sum(len(t.metrics["round"]) - 1 for t in runs)
        algorithms[label] = {
            "algorithm": runs[0].algorithm,
            "final_accuracy": _spread([accuracy_at(t.metrics, math.inf, "time_s") for t in runs]),
            "accuracy_at_equal_rounds": _spread([accuracy_at(t.metrics, equal_rounds, "round") for t in runs]),
            "accuracy_at_equal_time": _spread([accuracy_at(t.metrics, equal_time_s, "time_s") for t in runs]),
            "rounds_to": {
                f"{a:g}": _reach([first_reach(t.metrics, a, "round") for t in runs]) for a in _targets(result)
            },
            "seconds_to": {
                f"{a:g}": _reach([first_reach(t.metrics, a, "time_s") for t in runs]) for a in _targets(result)
            },
            "rounds_per_second": rounds / max(sum(t.compute_s for t in runs), 1e-9),
            "diverged": [{"seed": t.seed, "round": t.diverged_round} for t in runs if t.diverged_round is not None],
        }
    return {
        "name": result.experiment.name,
        "version": result.info.get("paota"),
        "seeds": result.seeds,
        "targets": list(_targets(result)),
        "equal_time_s": equal_time_s,
        "equal_rounds": equal_rounds,
        "algorithms": algorithms,
    }


def _targets(result: Result) -> tuple[float, ...]:
    return result.experiment.targets


def _spread(values: list[float]) -> dict[str, Any]:
    array = np.array(values)
    known = array[~np.isnan(array)]
    if not len(known):
        return {"mean": None, "std": None, "median": None, "values": values}
    return {"mean": known.mean(), "std": known.std(), "median": np.median(known), "values": values}


def _reach(values: list[float]) -> dict[str, Any]:
    """Quartiles over all seeds, a seed that never reaches the target counting as infinitely late (null in JSON)."""
    array = np.array(values)
    method = "linear" if np.isfinite(array).all() else "nearest"  # no interpolating towards infinity
    q25, median, q75 = np.quantile(array, [0.25, 0.5, 0.75], method=method)  # type: ignore[call-overload]
    reached = int(np.isfinite(array).sum())
    return {"median": median, "q25": q25, "q75": q75, "reached": reached, "values": values}


def _stack(trajectories: Sequence[Trajectory], table: str) -> Columns:
    parts = []
    for t in trajectories:
        columns: Columns = getattr(t, table)
        length = len(next(iter(columns.values())))
        names = {"label": t.label, "algorithm": t.algorithm} if table == "metrics" else {"label": t.label}
        constant: Columns = {name: np.full(length, value, dtype=object) for name, value in names.items()}
        parts.append({**constant, "seed": np.full(length, t.seed), **columns})
    names_of_all = dict.fromkeys(name for part in parts for name in part)
    return {  # a column that only some trajectories have, such as `lost`, is NaN for the others
        name: np.concatenate([part.get(name, np.full(len(part["seed"]), np.nan)) for part in parts])
        for name in names_of_all
    }
