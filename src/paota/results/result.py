"""The result of a run: the trajectories of every algorithm and seed, and their summary."""

from __future__ import annotations

import functools
import math
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..base.errors import UserError, unknown_name
from ..base.files import Columns, to_pandas
from ..base.formatting import Score
from ..base.rng import Purpose, host_rng
from ..base.types import Settings, Table
from ..data.load import load_data
from ..data.partition import deal
from ..experiment.experiment import Experiment, RecordedExperiment, as_experiment
from . import measures, trained
from .device_scores import by_device, final_scores

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped
    from pandas import DataFrame
    from plotly.graph_objects import Figure as PlotlyFigure

    from ..data.dataset import Dataset
    from ..data.shards import Shards

VIEWS = "paota.studies.report.report"  # draws results; above this folder, therefore imported by name when it is needed
TABLES = ("metrics", "devices", "device_scores")
COLUMN_SYNONYMS = {
    "accuracy": "test_accuracy", "acc": "test_accuracy", "loss": "test_loss", "time": "time_s", "seconds": "time_s",
    "rounds": "round", "staleness": "staleness_mean", "energy": "energy_j", "noise": "noise_std",
    "power": "transmit_power_w_mean", "participants": "ready",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class Trajectory:
    """The recorded course of one algorithm with one seed.

    Args:
        label: of the algorithm in the experiment.
        algorithm: its registered name.
        seed: of the run.
        metrics: one row per round, column by column; row 0 is the initial model.
        devices: one row per device and aggregation.
        device_scores: one row per device and recorded evaluation; empty without such evaluations.
        model: weights of the last global model, [d].
        diverged_round: first round whose model is not finite; None if all are.
        compute_s: seconds of computing, evaluation included and compilation excluded.
        stopped_round: last round, if a callback or a setting ended the unit early.
    """

    label: str
    algorithm: str
    seed: int
    metrics: Columns
    devices: Columns
    device_scores: Columns = field(default_factory=dict)
    model: Float[np.ndarray, " d"]
    diverged_round: int | None = None
    compute_s: float = math.nan
    stopped_round: int | None = None

    def __repr__(self) -> str:
        end = "diverged" if self.diverged_round is not None else f"{measures.final_accuracy(self):.1%}"
        return f"<paota.Trajectory of '{self.label}', seed {self.seed}: {len(self.metrics['round']) - 1} rounds, {end}>"


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """All trajectories of an experiment. A notebook shows its headline, table and figure.

    Args:
        experiment: the settings of the run; a `RecordedExperiment` if they need code that is not loaded.
        trajectories: one per algorithm and seed.
        info: versions of the software and facts about the machine.
    """

    experiment: Experiment | RecordedExperiment
    trajectories: Sequence[Trajectory]
    info: Settings = field(default_factory=dict)

    def __repr__(self) -> str:
        ends = (measures.median([measures.final_accuracy(t) for t in self.of(label)]) for label in self.labels)
        listed = ", ".join(f"{label} {end:.1%}" for label, end in zip(self.labels, ends, strict=True))
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        return f"<paota.Result '{self.experiment.name}', {seeds}: final accuracy {listed}>"

    def _repr_html_(self) -> str:
        return str(pkgutil.resolve_name(f"{VIEWS}:result_html")(self))

    @property
    def labels(self) -> list[str]:
        """The labels of the algorithms, in the order of the experiment."""
        return list(dict.fromkeys(t.label for t in self.trajectories))

    @property
    def seeds(self) -> list[int]:
        """The seeds in the order in which they were given."""
        return list(dict.fromkeys(t.seed for t in self.trajectories))

    @property
    def metrics(self) -> Columns:
        """The table of metrics: one row per round of every trajectory; row 0 of each is its initial model."""
        return _stack(self.trajectories, "metrics")

    @property
    def devices(self) -> Columns:
        """The table of devices: one row per device and aggregation of every trajectory."""
        return _stack(self.trajectories, "devices")

    @property
    def device_scores(self) -> Columns:
        """The table of device scores: one row per device and evaluation that `evaluation.devices_every` records."""
        return _stack(self.trajectories, "device_scores")

    def by_device(self, label: str) -> Columns:
        """Return one row per device and seed of an algorithm.

        Args:
            label: of the algorithm.

        Returns:
            Columns `seed`, `device`, `samples`, `accuracy` on data like the device's own (0 to 1, last evaluated model),
            `participation` (share of the aggregations), `weight` (relative to an equal share), `staleness_mean`
            (versions) and `channel_gain_mean` (|h|^2). Unknown values are NaN.
        """
        tables = [(t.seed, by_device(t.metrics, t.devices, t.device_scores)) for t in self.of(label)]
        return _rows([{"seed": np.full(len(table["device"]), seed), **table} for seed, table in tables])

    @property
    def summary(self) -> Table:
        """The content of `summary.json`: see `summarise`."""
        return summarise(self)

    def _column(self, trajectory: Trajectory, name: str) -> Shaped[np.ndarray, " R+1"]:
        """Return a column of the metrics; NaN if only other trajectories have it."""
        if name in trajectory.metrics:
            return trajectory.metrics[name]
        known = dict.fromkeys(column for t in self.trajectories for column in t.metrics)
        if name not in known:
            raise unknown_name("column", name, known, COLUMN_SYNONYMS)
        return np.full(len(trajectory.metrics["round"]), np.nan)

    def of(self, label: str) -> list[Trajectory]:
        """Return the trajectories of one algorithm, one per seed.

        Args:
            label: of the algorithm.
        """
        found = [t for t in self.trajectories if t.label == label]
        if not found:
            raise unknown_name("algorithm label", label, self.labels)
        return found

    def array(self, label: str, column: str) -> Float[np.ndarray, "seeds R+1"]:
        """Return one metric as [seeds, rounds + 1]; shorter trajectories end in NaN.

        Args:
            label: of an algorithm.
            column: of the table `metrics`, such as "test_accuracy", "time_s" or "energy_j".
        """
        rows = [self._column(t, column) for t in self.of(label)]
        longest = max(len(row) for row in rows)
        return np.array([np.pad(row.astype(float), (0, longest - len(row)), constant_values=np.nan) for row in rows])

    def time_to(self, accuracy: float, label: str | None = None) -> dict[str, float] | float:
        """Return the median simulated seconds until a test accuracy; infinite if at least half of the seeds never reach it.

        Args:
            accuracy: share of the test set, 0 to 1.
            label: of one algorithm (default: all of them; the result is a dictionary by label).
        """
        if not isinstance(accuracy, int | float | np.number) or isinstance(accuracy, bool):
            raise UserError(f"time_to: an accuracy is a number, not {accuracy!r}")
        if Score(self.info.get("score", "accuracy")).is_share and not 0 <= accuracy <= 1:
            hint = f"; did you mean time_to({accuracy / 100:g})?" if 1 < accuracy <= 100 else ""
            raise UserError(f"time_to: an accuracy is a share from 0 to 1, not {accuracy:g}{hint}")
        labels = self.labels if label is None else [label]
        times = {name: measures.median([measures.reach(t, accuracy) for t in self.of(name)]) for name in labels}
        return times if label is None else times[label]

    @functools.cached_property
    def dataset(self) -> Dataset:
        """The data set of the run, loaded again: `x_train`, `y_train`, `x_test`, `y_test`."""
        experiment = as_experiment(self.experiment)
        return load_data(experiment.data, base=experiment.base)

    @functools.cached_property
    def shards(self) -> Mapping[int, Shards]:
        """The training samples of every device, by seed: `shards[0].of(device)` are positions in the training set."""
        data, dataset = as_experiment(self.experiment).data, self.dataset
        return {
            seed: deal(data.partition, dataset, devices=data.devices, rng=host_rng(seed, Purpose.PARTITION))
            for seed in self.seeds
        }

    def model(self, label: str | None = None, *, seed: int | None = None) -> object:
        """Return the last global model in the form that your own model has.

        Args:
            label: of an algorithm (default: the first).
            seed: of a run (default: the first).

        Returns:
            A pytree of arrays as `init` makes it. For Flax linen: its `params`. For Equinox, Flax nnx and PyTorch: a copy
            of the module.
        """
        model = self._one(label, seed).model
        return trained.trained_model(as_experiment(self.experiment), self.dataset, model)

    def predict(
        self, x: ArrayLike, label: str | None = None, *, seed: int | None = None
    ) -> Shaped[np.ndarray, "n ..."]:
        """Return the predictions of the last global model.

        Args:
            x: samples [n, *input_shape] in the form of the data set, bytes or floats; they are scaled as in training.
            label: of an algorithm (default: the first).
            seed: of a run (default: the first).

        Returns:
            The class of each sample, [n]; for a model with its own loss and score, the outputs [n, ...].
        """
        model = self._one(label, seed).model
        return trained.predictions(as_experiment(self.experiment), self.dataset, model, x)

    def _one(self, label: str | None, seed: int | None) -> Trajectory:
        found = self.of(self.labels[0] if label is None else label)
        if seed is not None and seed not in [t.seed for t in found]:
            raise UserError(f"there is no seed {seed} in this run: its seeds are {', '.join(map(str, self.seeds))}")
        return next(t for t in found if seed in (None, t.seed))

    def plot(self, column: str = "test_accuracy", *, against: str = "time_s") -> PlotlyFigure:
        """Draw a column of the metrics as in the report: the median over the seeds, and a band from quartile to quartile.

        Args:
            column: of the table `metrics`.
            against: "time_s" (simulated seconds) or "round".

        Returns:
            A Plotly figure; `.write_html` saves it.
        """
        self._column(self.trajectories[0], column)  # raises for an unknown name
        return pkgutil.resolve_name(f"{VIEWS}:plot")(self, column, against)

    def plot_timeline(self, label: str | None = None) -> PlotlyFigure:
        """Draw the first rounds as in the report: trainings, waiting times and transmissions of the devices.

        Args:
            label: of an algorithm (default: the first).

        Returns:
            A Plotly figure.
        """
        return pkgutil.resolve_name(f"{VIEWS}:plot_timeline")(self, label)

    def plot_power(self, column: str = "transmit_power_w_mean", *, against: str = "round") -> PlotlyFigure:
        """Draw the transmit power and the limit P_max as in the report.

        Args:
            column: "transmit_power_w_mean" or "transmit_power_w_max" (watts), "amplitude_sum", "noise_std",
                "weight_square_sum" or "over_budget".
            against: "round" or "time_s".

        Returns:
            A Plotly figure.
        """
        return self.plot(column, against=against)

    def to_pandas(self, table: str = "metrics") -> DataFrame:
        """Return a table as a pandas DataFrame.

        Args:
            table: "metrics" (one row per round), "devices" (one row per device and aggregation) or "device_scores" (one row
                per device and evaluation on data like the device's own).
        """
        if table not in TABLES:
            raise unknown_name("table", table, TABLES)
        return to_pandas(getattr(self, table))

    def save(self, folder: str | Path, *, report: bool = True) -> Path:
        """Write the run folder: experiment, tables, models, summary and report.

        Args:
            folder: a new or an empty folder.
            report: also write `report.html`.

        Returns:
            The folder.
        """
        from .folder import new_folder, write_folder  # start-up time

        path = new_folder(folder)
        write_folder(self, path, report=report)
        return path


def summarise(result: Result) -> Table:
    """Return the content of `summary.json`: every measure of `measures` by algorithm label, with its value for each seed.

    `equal_time_s` and `equal_rounds` are the largest values that all trajectories reach.
    """
    targets = result.experiment.targets
    equal_time_s = min(float(t.metrics["time_s"][-1]) for t in result.trajectories)
    equal_rounds = min(int(t.metrics["round"][-1]) for t in result.trajectories)
    algorithms: Table = {}
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


def _accuracies(values: list[float]) -> Table:
    return {"mean": np.mean(values), "std": np.std(values), "median": measures.median(values), "values": values}


def _reaches(runs: Sequence[Trajectory], target: float, along: str) -> Table:
    """Return quartiles over all seeds. An unreached target is infinite, and null in JSON."""
    spread = measures.Spread(tuple(measures.reach(run, target, along) for run in runs))
    return {
        "median": spread.median, "q25": spread.low, "q75": spread.high,
        "reached": spread.reached, "values": list(spread.values),
    }  # fmt: skip


def _devices(runs: Sequence[Trajectory]) -> Table:
    """Return measures over the devices of the last recorded scores; empty where a run did not record them."""
    finals = [final_scores(t.device_scores) for t in runs]
    if not all(len(final) for final in finals):
        return {}
    diverged = [t.diverged_round is not None for t in runs]
    return {
        measure.__name__: _accuracies([0.0 if lost else measure(f) for lost, f in zip(diverged, finals, strict=True)])
        for measure in (measures.worst_tenth, measures.best_tenth, measures.deviation)
    }


def _over_budget(runs: Sequence[Trajectory]) -> dict[str, float]:
    """Return the share of transmissions above the power budget, and the largest power; empty if there are none."""
    sent, over, largest_w = (
        np.concatenate([np.asarray(t.metrics.get(name, np.full(len(t.metrics["round"]), np.nan)), float) for t in runs])
        for name in ("ready", "over_budget", "transmit_power_w_max")
    )
    if not np.nansum(over) > 0:
        return {}
    known = ~np.isnan(over)
    return {"share": float(np.average(over[known], weights=sent[known])), "largest_w": float(np.nanmax(largest_w))}


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
    """Return tables stacked below each other."""
    names_of_all = dict.fromkeys(name for part in parts for name in part)
    return {  # NaN where a trajectory has no such column, for example `lost`
        name: np.concatenate([part.get(name, np.full(len(part["seed"]), np.nan)) for part in parts])
        for name in names_of_all
    }
