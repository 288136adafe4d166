"""Cells as tasks of the pool: runs as everywhere, and what only the reproduction computes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..pool import PoolJob, ReportShare
from ..study import RunJob
from . import store
from .cells import CROSSED, OPTIMUM, RUNS, Cell


def task_of(cell: Cell, folder: Path) -> PoolJob:
    """The task that computes a cell into its place in `folder`, which is made ready for it."""
    path = str(store.prepare(folder, cell))
    if cell.kind == RUNS:
        table = cell.experiment.to_dict()
        return RunJob(key=cell.name, experiment=table, seeds=cell.seeds, folder=path, devices=cell.devices)
    return TheoryJob(cell=cell, folder=path)


@dataclass(frozen=True, kw_only=True)
class TheoryJob:
    """A cell of one of the other kinds: a search for the optimum, all optima crossed, or Theorem 1 beside a run."""

    cell: Cell
    folder: str

    @property
    def key(self) -> str:
        """The name of the cell."""
        return self.cell.name

    def compute(self, report: ReportShare) -> None:
        """Nothing is reported on the way: the parts are short."""
        make = _optimum if self.cell.kind == OPTIMUM else _crossed if self.cell.kind == CROSSED else _bound
        make(self.cell, Path(self.folder))


def _optimum(cell: Cell, path: Path) -> None:
    from ... import simulate
    from ..bound.landscape import Landscape
    from ..bound.optimum import minimise

    experiment = cell.experiment
    plan = simulate.prepare(experiment)
    landscape = Landscape(plan.dataset, plan.shards[experiment.seed], experiment.model)
    found = minimise(landscape, seed=experiment.seed, **cell.options)
    facts = {"value": found.value, "gradient_norm": found.gradient_norm, "last_gain": found.last_gain}
    store.keep(path, {"model": found.model}, {**facts, "seed": experiment.seed})


def _crossed(cell: Cell, path: Path) -> None:
    """F of seed i at the best model of search j, [seeds, searches]; needs the cells of all searches to be there."""
    import numpy as np

    from ... import simulate
    from ...base import files
    from ..bound.landscape import Landscape

    experiment = cell.experiment
    plan = simulate.prepare(experiment, seeds=cell.seeds)
    seeds = range(experiment.seed, experiment.seed + cell.seeds)
    searched = seeds[: cell.options["searches"]]
    models = [files.read_npz(path.parent / f"optimum-{seed}" / store.ARRAYS)["model"] for seed in searched]
    values = []
    for seed in seeds:
        landscape = Landscape(plan.dataset, plan.shards[seed], experiment.model)
        values.append([landscape.value_and_gradient(model)[0] for model in models])
    store.keep(path, {"values": np.array(values)}, {})


def _bound(cell: Cell, path: Path) -> None:
    from ..bound.analysis import analyse

    made = analyse(cell.experiment, probes=2, **cell.options)
    facts = made.to_dict()
    facts.pop("rounds")
    store.keep(path, made.table(), facts)
