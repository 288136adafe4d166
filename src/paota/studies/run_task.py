"""One experiment with all its seeds as a task of the pool: what a point of a sweep and a cell of the reproduction are."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base.rng import Seeds
from ..callbacks.base import Callback, Round, Start
from ..results import folder as run_folder
from ..results.checkpoint import Checkpoints
from ..results.result import Result
from .pool import ReportShare

REPORT_EVERY_S = 0.5


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """A run into `folder`, without its page. One that was cut short goes on from its checkpoints, to the same bits."""

    key: str
    experiment: Mapping[str, Any]  # in the vocabulary of an experiment file
    base: str = "."  # what paths in it are relative to
    seeds: Seeds
    folder: str
    callbacks: tuple[Any, ...] = ()  # names, or objects that can travel; every task has its own copies
    title: str | None = None  # that callbacks are told
    devices: bool = True  # keep the records of who took part when, which are most of a folder's size

    def compute(self, report: ReportShare) -> None:
        """Plan, run and write; `report` is called with the share of all rounds that is done."""
        from .. import simulate
        from ..callbacks.stream import LiveStream
        from ..experiment.experiment import Experiment

        plan = simulate.prepare(Experiment.from_dict(dict(self.experiment), base=Path(self.base)), seeds=self.seeds)
        path = Path(self.folder)
        path.mkdir(exist_ok=True)
        checkpoints = Checkpoints(path / run_folder.CHECKPOINTS, simulate.identity(plan))
        callbacks = [ShareReporter(report), LiveStream(), *copy.deepcopy(self.callbacks)]
        result = simulate.execute(plan, callbacks=callbacks, checkpoints=checkpoints, title=self.title, folder=path)
        run_folder.write_folder(result if self.devices else _without_devices(result), path, report=False)
        run_folder.remove_leftovers(path)


class ShareReporter(Callback):
    """How far a run is, as a share of all rounds of all algorithms and seeds, reported now and then."""

    def __init__(self, report: ReportShare) -> None:
        self._report = report
        self._last = time.monotonic()
        self._done: dict[tuple[str, int], int] = {}
        self._total = 1

    def start(self, run: Start) -> None:
        self._total = max(1, sum(unit.rounds for unit in run.units))

    def round(self, round: Round) -> None:
        self._done[round.label, round.seed] = round.round
        if time.monotonic() - self._last >= REPORT_EVERY_S:
            self._last = time.monotonic()
            self._report(sum(self._done.values()) / self._total)


def _without_devices(result: Result) -> Result:
    kept = [replace(t, devices={name: column[:0] for name, column in t.devices.items()}) for t in result.trajectories]
    return replace(result, trajectories=kept)
