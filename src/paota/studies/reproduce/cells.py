"""The units of work: each cell is one experiment with all its seeds, named, hashed, and kept when it is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ...experiment.experiment import Experiment

RUNS, OPTIMUM, CROSSED, BOUND = "runs", "optimum", "crossed", "bound"
FORMAT = 2  # of the stored cells; a new one makes old cells run again


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One experiment (`table`, in the vocabulary of an experiment file) and how often it is repeated."""

    name: str
    kind: str = RUNS
    table: Mapping[str, Any] = field(default_factory=dict)
    seeds: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)  # of the kinds `optimum` and `bound`
    devices: bool = False  # keep the records of who took part when

    @property
    def experiment(self) -> Experiment:
        """The table, checked."""
        return Experiment.from_dict(self.table)

    @property
    def work(self) -> int:
        """About how many rounds there are to compute: for the progress bar."""
        if self.kind != RUNS:
            return 400
        experiment = self.experiment
        duration_s, total = experiment.horizon.duration_s, 0.0
        for entry in experiment.algorithms:
            rounds = experiment.horizon.rounds
            total += rounds if rounds is not None else (duration_s or 0.0) / entry.timing.period_s
        return max(1, round(total * self.seeds))

    @property
    def digest(self) -> str:
        """Changes with every setting (defaults too), the seeds and the package's version."""
        try:
            package = version("paota")
        except PackageNotFoundError:
            package = "source"
        content = [FORMAT, package, self.kind, self.seeds, dict(self.options), self.devices, self.experiment.to_dict()]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
