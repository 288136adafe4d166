"""Cells: the parts of a reproduction. Each is one experiment with all its seeds, and has its own folder.

A cell is computed once and found again as long as its settings, its seeds and the version of the package stay the same.
`cell.json`, written first, identifies the cell. A cell of runs is a run folder. The other kinds hold `arrays.npz` and
`facts.json`, which is written last.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...base import files
from ...base.errors import UserError
from ...base.types import Settings
from ...experiment.experiment import Experiment
from ...results import folder as run_folder
from ...results.measures import Floats
from ...results.result import Result
from ..pool import PoolJob, ReportShare
from ..study import RunJob

RUNS, OPTIMUM, CROSSED, BOUND = "runs", "optimum", "crossed", "bound"
FORMAT = 2  # of the stored cells; a new one makes old cells run again
CELL, ARRAYS, FACTS = "cell.json", "arrays.npz", "facts.json"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One experiment (`table`, in the vocabulary of an experiment file) and its number of seeds."""

    name: str
    kind: str = RUNS
    table: Settings = field(default_factory=dict)
    seeds: int = 1
    options: Settings = field(default_factory=dict)  # of the kinds other than RUNS
    devices: bool = False  # keep the records of every participation

    @property
    def experiment(self) -> Experiment:
        """The table, checked."""
        return Experiment.from_dict(self.table)

    @property
    def work(self) -> int:
        """The approximate number of rounds to compute, for the progress bar."""
        if self.kind != RUNS:
            return 400
        experiment = self.experiment
        horizon, entries = experiment.horizon, experiment.algorithms
        rounds = sum(horizon.rounds or (horizon.duration_s or 0.0) / entry.timing.period_s for entry in entries)
        return max(1, round(rounds * self.seeds))

    @property
    def digest(self) -> str:
        """A hash that changes with every setting (defaults too), the seeds and the package's version."""
        try:
            package = version("paota")
        except PackageNotFoundError:
            package = "source"
        content = [FORMAT, package, self.kind, self.seeds, dict(self.options), self.devices, self.experiment.to_dict()]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Stored:
    """The content of a finished cell: a result, or arrays by name and plain facts."""

    result: Result | None = None
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Settings = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The labels of the algorithms; none if the cell holds no runs."""
        return [] if self.result is None else self.result.labels

    def of(self, label: str, column: str) -> Floats:
        """Return one metric of one algorithm, [seeds, rounds + 1]; a shorter run ends in NaN."""
        assert self.result is not None
        return self.result.array(label, column)

    def diverged(self, label: str) -> NDArray[np.bool_]:
        """Return the seeds whose run diverged, [seeds]."""
        assert self.result is not None
        return np.array([run.diverged_round is not None for run in self.result.of(label)])


def find(folder: Path, cell: Cell) -> Stored | None:
    """Return the stored cell; None if it is missing, unreadable, unfinished or made from other settings."""
    path = folder / cell.name
    try:
        if not _is_of(path, cell):
            return None
        if cell.kind != RUNS:
            return Stored(arrays=files.read_npz(path / ARRAYS), facts=files.read_json(path / FACTS))
        result = run_folder.load(path)
    except UserError:
        return None
    first = result.trajectories[0].devices  # for the figure of the work-flow
    return Stored(result, {f"devices/{name}": column for name, column in first.items()})


def task_of(cell: Cell, folder: Path) -> PoolJob:
    """Return the task that computes a cell into its place in `folder`, which is prepared for it.

    An interrupted cell is kept and resumed. An outdated or damaged one is removed.
    """
    path = folder / cell.name
    try:
        begun = _is_of(path, cell) and not run_folder.is_finished(path)
    except UserError:
        begun = False
    if not begun:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        files.write_json(path / CELL, {"name": cell.name, "digest": cell.digest})
    if cell.kind != RUNS:
        return TheoryJob(key=cell.name, cell=cell, folder=str(path))
    table = cell.experiment.to_dict()
    return RunJob(key=cell.name, experiment=table, seeds=cell.seeds, folder=str(path), devices=cell.devices)


def _is_of(path: Path, cell: Cell) -> bool:
    """Return True if the folder belongs to this cell with these settings."""
    found = files.read_json(path / CELL) if (path / CELL).is_file() else None
    return isinstance(found, dict) and found.get("digest") == cell.digest


@dataclass(frozen=True, kw_only=True)
class TheoryJob:
    """The task of a cell without runs: a search for F(w*), the objectives of all seeds at all optima, or Theorem 1."""

    key: str
    cell: Cell
    folder: str

    def compute(self, report: ReportShare) -> None:
        """Compute and write the cell. Progress is not reported, because the parts are short."""
        path = Path(self.folder)
        compute = {OPTIMUM: _optimum, CROSSED: _crossed, BOUND: _bound}[self.cell.kind]
        arrays, facts = compute(self.cell, path.parent)
        files.write_npz(path / ARRAYS, arrays)
        files.write_json(path / FACTS, facts)


def _optimum(cell: Cell, folder: Path) -> tuple[files.Columns, Settings]:
    from ... import simulate  # start-up time
    from ..bound.landscape import Landscape, minimise  # start-up time

    experiment = cell.experiment
    plan = simulate.prepare(experiment)
    landscape = Landscape(plan.dataset, plan.shards[experiment.seed], experiment.model)
    found = minimise(landscape, seed=experiment.seed, **cell.options)
    facts = {"value": found.value, "gradient_norm": found.gradient_norm, "last_gain": found.last_gain}
    return {"model": found.model}, {**facts, "seed": experiment.seed}


def _crossed(cell: Cell, folder: Path) -> tuple[files.Columns, Settings]:
    """Return F of seed i at the best model of search j, [seeds, searches]; the cells of all searches must exist."""
    from ... import simulate  # start-up time
    from ..bound.landscape import Landscape  # start-up time

    experiment = cell.experiment
    plan = simulate.prepare(experiment, seeds=cell.seeds)
    seeds = range(experiment.seed, experiment.seed + cell.seeds)
    searched = seeds[: cell.options["searches"]]
    models = [files.read_npz(folder / f"optimum-{seed}" / ARRAYS)["model"] for seed in searched]
    landscapes = (Landscape(plan.dataset, plan.shards[seed], experiment.model) for seed in seeds)
    values = [[landscape.value_and_gradient(model)[0] for model in models] for landscape in landscapes]
    return {"values": np.array(values)}, {}


def _bound(cell: Cell, folder: Path) -> tuple[files.Columns, Settings]:
    from ..bound.analysis import analyse  # start-up time

    made = analyse(cell.experiment, probes=2, **cell.options)
    facts = made.to_dict()
    facts.pop("rounds")
    return made.table(), facts
