"""What happened: the trajectories of every algorithm and seed, and their summary."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..base.errors import UserError, unknown_name
from ..base.files import Columns, to_pandas
from ..experiment.experiment import Experiment
from ..experiment.recorded import RecordedExperiment
from . import measures, trained
from .device_scores import by_device, final_scores
from .views import view

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

    from ..data.dataset import Dataset
    from ..data.shards import Shards

TABLES = ("metrics", "devices", "device_scores")
COLUMN_SYNONYMS = {
    "accuracy": "test_accuracy", "acc": "test_accuracy", "loss": "test_loss", "time": "time_s", "seconds": "time_s",
    "rounds": "round", "staleness": "staleness_mean", "energy": "energy_j", "noise": "noise_std",
    "power": "transmit_power_w_mean", "participants": "ready",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Trajectory:
    """One algorithm with one seed."""

    label: str
    algorithm: str
    seed: int
    metrics: Columns  # one row a round; row 0 is the initial model
    devices: Columns  # one row for every device in every event
    device_scores: Columns = field(default_factory=dict)  # one row per device and recorded evaluation
    model: NDArray[Any]  # the last global model, [d]
    diverged_round: int | None = None  # the first round whose model is not finite
    compute_s: float = math.nan  # compiling excluded, evaluation included
    stopped_round: int | None = None  # the last round, if a callback or setting stopped it before its timeline ended

    def __repr__(self) -> str:
        end = "diverged" if self.diverged_round is not None else f"{measures.final_accuracy(self):.1%}"
        return f"<paota.Trajectory of '{self.label}', seed {self.seed}: {len(self.metrics['round']) - 1} rounds, {end}>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """All trajectories of an experiment. `metrics` and `devices` are tidy tables, column by column.

    A notebook shows it as its headline, table and figure. `experiment` is what was run, `info` where: versions, machine.
    """

    experiment: Experiment | RecordedExperiment
    trajectories: Sequence[Trajectory]
    info: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        ends = (measures.median([measures.final_accuracy(t) for t in self.of(label)]) for label in self.labels)
        said = ", ".join(f"{label} {end:.1%}" for label, end in zip(self.labels, ends, strict=True))
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        return f"<paota.Result '{self.experiment.name}', {seeds}: final accuracy {said}>"

    def _repr_html_(self) -> str:
        return str(view("html")(self))

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
    def device_scores(self) -> Columns:
        """One row for every device at the looks of `evaluation.devices_every`: how well the model does on its own data."""
        return _stack(self.trajectories, "device_scores")

    def by_device(self, label: str) -> Columns:
        """One row for every device and seed of one algorithm, from its last model: see `device_scores.by_device`.

        `accuracy` on the device's own kind of data, beside how often, how stale and over what channel it was heard.
        """
        tables = [(t.seed, by_device(t.metrics, t.devices, t.device_scores)) for t in self.of(label)]
        return _rows([{"seed": np.full(len(table["device"]), seed), **table} for seed, table in tables])

    @property
    def summary(self) -> dict[str, Any]:
        """What `summary.json` holds: see `summarise`."""
        return summarise(self)

    def _column(self, trajectory: Trajectory, name: str) -> NDArray[Any]:
        """A column of the metrics; NaN where only other trajectories have it."""
        if name in trajectory.metrics:
            return trajectory.metrics[name]
        known = dict.fromkeys(column for t in self.trajectories for column in t.metrics)
        if name not in known:
            raise unknown_name("column", name, known, COLUMN_SYNONYMS)
        return np.full(len(trajectory.metrics["round"]), np.nan)

    def of(self, label: str) -> list[Trajectory]:
        """The trajectories of one algorithm, one a seed.

        Args:
            label: of the algorithm.
        """
        found = [t for t in self.trajectories if t.label == label]
        if not found:
            raise unknown_name("algorithm label", label, self.labels)
        return found

    def array(self, label: str, column: str) -> NDArray[Any]:
        """One metric as [seeds, rounds + 1]; shorter trajectories end in NaN.

        Args:
            label: of an algorithm.
            column: of the table `metrics`, such as "test_accuracy", "time_s" or "energy_j".
        """
        rows = [self._column(t, column) for t in self.of(label)]
        longest = max(len(row) for row in rows)
        return np.array([np.pad(row.astype(float), (0, longest - len(row)), constant_values=np.nan) for row in rows])

    def time_to(self, accuracy: float, label: str | None = None) -> dict[str, float] | float:
        """Median simulated seconds to a test accuracy; infinite if at least half of the seeds never reach it.

        Args:
            accuracy: share of the test set, 0 to 1.
            label: of one algorithm (default: all, and a dictionary by label is returned).
        """
        from ..base.formatting import Score

        if not isinstance(accuracy, int | float | np.number) or isinstance(accuracy, bool):
            raise UserError(f"time_to: an accuracy is a number, not {accuracy!r}")
        if Score(self.info.get("score", "accuracy")).is_share and not 0 <= accuracy <= 1:
            hint = f"; did you mean time_to({accuracy / 100:g})?" if 1 < accuracy <= 100 else ""
            raise UserError(f"time_to: an accuracy is a share from 0 to 1, not {accuracy:g}{hint}")
        if label is None:
            return {name: float(self.time_to(accuracy, name)) for name in self.labels}  # type: ignore[arg-type]
        return measures.median([measures.reach(t, accuracy) for t in self.of(label)])

    @functools.cached_property
    def shards(self) -> Mapping[int, Shards]:
        """Who held which training samples, by seed: `result.shards[0].of(device)` are positions in the training set."""
        return trained.shards_of(self)

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The data set of the run: `x_train`, `y_train`, `x_test`, `y_test`."""
        return trained.dataset_of(self)

    def model(self, label: str | None = None, *, seed: int | None = None) -> Any:
        """The last global model, in the form that your own model has.

        A pytree of arrays as `init` made it; for Flax linen its `params`; for Equinox, Flax nnx and PyTorch a copy of the
        module itself.

        Args:
            label: of an algorithm (default: the first).
            seed: of a repetition (default: the first).
        """
        return trained.model_of(self, self._one(label, seed))

    def predict(self, x: ArrayLike, label: str | None = None, *, seed: int | None = None) -> NDArray[Any]:
        """What the last global model says of samples.

        Args:
            x: samples [n, *input_shape] as the data set holds them: bytes, or floats; they are scaled as in training.
            label: of an algorithm (default: the first).
            seed: of a repetition (default: the first).

        Returns:
            The class of each sample, [n]; of a model with a loss and a score of its own, its outputs [n, ...].
        """
        return trained.predictions_of(self, self._one(label, seed), x)

    def _one(self, label: str | None, seed: int | None) -> Trajectory:
        found = self.of(self.labels[0] if label is None else label)
        if seed is not None and seed not in [t.seed for t in found]:
            raise UserError(f"there is no seed {seed} in this run: its seeds are {', '.join(map(str, self.seeds))}")
        return next(t for t in found if seed in (None, t.seed))

    def plot(self, column: str = "test_accuracy", *, against: str = "time_s") -> PlotlyFigure:
        """A column of the metrics as the report draws it: median over the seeds, and the middle half of them as a band.

        Args:
            column: of the table `metrics`.
            against: "time_s" (simulated seconds) or "round".

        Returns:
            A Plotly figure, to show, change or save (`.write_html`).
        """
        self._column(self.trajectories[0], column)  # or a sentence
        return view("plot")(self, column, against)

    def plot_timeline(self, label: str | None = None) -> PlotlyFigure:
        """Who trains, who waits and who sends at the beginning of the run, as the report draws it.

        Args:
            label: of an algorithm (default: the first).
        """
        return view("timeline")(self, label)

    def plot_power(self, column: str = "transmit_power_w_mean", *, against: str = "round") -> PlotlyFigure:
        """How loud the devices are, beside the limit P_max, as the report draws it.

        Args:
            column: "transmit_power_w_mean", "transmit_power_w_max" (watts), "amplitude_sum" (of the amplitudes), "noise_std",
                "weight_square_sum" or "over_budget".
            against: "round" or "time_s".
        """
        return self.plot(column, against=against)

    def to_pandas(self, table: str = "metrics") -> Any:
        """A table as a pandas DataFrame.

        Args:
            table: "metrics" (one row a round), "devices" (one row for every device in every event) or "device_scores" (how well
                the model does on each device's own kind of data).
        """
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        return to_pandas(getattr(self, table))

    def save(self, folder: str | Path, *, report: bool = True) -> Path:
        """Write the run folder: experiment, tables, models, summary, report.

        Args:
            folder: where to; it must not hold anything yet.
            report: whether to render `report.html` too.

        Returns:
            The folder.
        """
        from .folder import new_folder, write_folder

        path = new_folder(folder)
        write_folder(self, path, report=report)
        return path


def summarise(result: Result) -> dict[str, Any]:
    """What `summary.json` holds: every measure of `paota.results.measures` by algorithm label, with the value of each seed.

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
            "over_budget": _over_budget(runs),
            "rounds_per_second": rounds / max(sum(t.compute_s for t in runs), 1e-9),
            "diverged": [{"seed": t.seed, "round": t.diverged_round} for t in runs if t.diverged_round is not None],
            "stopped": [{"seed": t.seed, "round": t.stopped_round} for t in runs if t.stopped_round is not None],
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
    finals = [final_scores(t.device_scores) for t in runs]
    if not all(len(final) for final in finals):
        return {}
    lost = [t.diverged_round is not None for t in runs]
    return {
        name: _accuracies([0.0 if gone else measure(final) for gone, final in zip(lost, finals, strict=True)])
        for name, measure in _OVER_DEVICES.items()
    }


def _over_budget(runs: Sequence[Trajectory]) -> dict[str, float]:
    """Share of the transmissions that exceed the power budget, and the largest power; empty if none does."""
    sent, over, largest_w = (
        np.concatenate([np.asarray(t.metrics.get(name, np.full(len(t.metrics["round"]), np.nan)), float) for t in runs])
        for name in ("ready", "over_budget", "transmit_power_w_max")
    )
    if not np.nansum(over) > 0:
        return {}
    known = ~np.isnan(over)
    return {"share": float(np.average(over[known], weights=sent[known])), "largest_w": float(np.nanmax(largest_w))}


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
