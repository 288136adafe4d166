"""The data of a report: the runs, and one `Entry` for each algorithm label of each run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...base.files import Columns
from ...base.formatting import Score
from ...base.types import Settings
from ...pages.curves import number
from ...pages.figure import Style
from ...pages.palette import MOST_SERIES, style_of

if TYPE_CHECKING:
    from ...results.result import Result, Trajectory


@dataclass(frozen=True, kw_only=True)
class Run:
    """One experiment: its settings, its machine, and the time at which its algorithms are compared."""

    name: str
    settings: Settings
    info: Settings
    seeds: tuple[int, ...]
    targets: tuple[float, ...]
    equal_time_s: float | None

    @property
    def score(self) -> str:
        """The name of the models' score."""
        return str(self.info.get("score", "accuracy"))

    @property
    def dataset(self) -> str | None:
        """The name of the data set, where the settings give it."""
        return _section(self.settings, "data").get("dataset")

    @property
    def devices(self) -> int | None:
        """The number of devices, where the settings give it."""
        devices = number(_section(self.settings, "data").get("devices"))
        return None if devices is None else int(devices)

    @property
    def power_limits_w(self) -> set[float]:
        """P_max of the experiment and of the algorithms that have their own."""
        parts = [self.settings, *self.settings.get("algorithms", ())]
        limits = (number(_section(part, "power").get("max_power_w")) for part in parts)
        return {limit for limit in limits if limit and limit > 0}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One algorithm label of the run at position `run`.

    `metrics` and `devices` are its rows of all seeds, with a column `seed`. `summary` is its part of summary.json.
    """

    run: int
    label: str
    metrics: Columns
    devices: Columns
    trajectories: Sequence[Trajectory] = ()
    summary: Settings

    @property
    def seeds(self) -> np.ndarray:
        """Its seeds, in ascending order."""
        return np.unique(self.metrics["seed"])


@dataclass(frozen=True, kw_only=True)
class Entry(Part):
    """A part with its place and style in the report: it has a legend button and a row of the table."""

    index: int
    style: Style

    @property
    def name(self) -> str:
        """The label, after the name of the run if there are several runs."""
        return self.style.name


@dataclass(frozen=True, kw_only=True)
class Study:
    """All runs of a report, and the entries of all of them."""

    runs: tuple[Run, ...]
    entries: tuple[Entry, ...]

    @property
    def drawn(self) -> tuple[Entry, ...]:
        """The entries that figures show; the table shows all."""
        return self.entries[:MOST_SERIES]

    @property
    def several(self) -> bool:
        """True if the report compares runs."""
        return len(self.runs) > 1

    @property
    def targets(self) -> tuple[float, ...]:
        """The target accuracies of all runs, ascending."""
        return tuple(sorted({target for run in self.runs for target in run.targets}))

    @property
    def score(self) -> Score:
        """The models' score; "score" where the runs do not agree."""
        names = {run.score for run in self.runs}
        return Score(names.pop() if len(names) == 1 else "score")

    @property
    def equal_time_s(self) -> float | None:
        """The simulated time that every entry has reached."""
        times = [run.equal_time_s for run in self.runs]
        known = [time for time in times if time is not None]
        return min(known) if len(known) == len(times) and known else None


def gather(results: Sequence[Result]) -> Study:
    """Return the runs as a study; with several of them every label is prefixed by its run's name."""
    runs, parts = [], []
    names = distinct_names([_name_of(result) for result in results])
    for position, (name, result) in enumerate(zip(names, results, strict=True)):
        summary = result.summary  # computed at each access
        runs.append(run_of(name, result.experiment.to_dict(), result.info, summary))
        for label in result.labels:
            own = replace(result, trajectories=result.of(label))
            parts.append(
                Part(
                    run=position,
                    label=label,
                    metrics=own.metrics,
                    devices=own.devices,
                    trajectories=own.trajectories,
                    summary=summary["algorithms"][label],
                )
            )
    return study_of(runs, parts)


def run_of(name: str, settings: Settings, info: Settings, summary: Settings) -> Run:
    """Return a run from its resolved settings, the `info` of its result, and its summary."""
    return Run(
        name=name,
        settings=settings,
        info=info,
        seeds=tuple(int(seed) for seed in summary["seeds"]),
        targets=tuple(float(target) for target in summary["targets"]),
        equal_time_s=number(summary.get("equal_time_s")),
    )


def study_of(runs: Sequence[Run], parts: Sequence[Part]) -> Study:
    """Return the study of all parts, each with a different style."""
    styles = style_of([(part.run, part.label) for part in parts])
    names = [f"{runs[part.run].name}: {part.label}" if len(runs) > 1 else part.label for part in parts]
    entries = [
        Entry(**vars(part), index=index, style=Style(name=names[index], colour=styles[index][0], dash=styles[index][1]))
        for index, part in enumerate(parts)
    ]
    return Study(runs=tuple(runs), entries=tuple(entries))


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names with a number after each that appeared before: `name`, `name (2)`."""
    distinct: list[str] = []
    for name in names:
        candidate, copy = name, 1
        while candidate in distinct:
            copy += 1
            candidate = f"{name} ({copy})"
        distinct.append(candidate)
    return distinct


def _name_of(result: Result) -> str:
    """Return the run's name, with a mark for a deployment: it is often compared with the simulation of its file."""
    name = str(result.experiment.name)
    return f"{name}, deployed" if "deployment" in result.info else name


def _section(settings: Settings, name: str) -> Settings:
    section = settings.get(name)
    return section if isinstance(section, Mapping) else {}
