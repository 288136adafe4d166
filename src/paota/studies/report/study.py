"""What the report talks about: the runs, and one `Entry` for each algorithm label of each run.

Everything that later modules need is gathered here once, so that a figure never asks which run a row came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...base.formatting import Score
from ...pages.curves import Rows, number
from ...pages.figure import Style
from ...pages.palette import MOST_SERIES, style_of


class ResultLike(Protocol):
    """The part of `paota.Result` that the report reads."""

    @property
    def experiment(self) -> Any:
        """The resolved experiment: `name`, and `to_dict()` for the settings."""

    @property
    def info(self) -> Mapping[str, Any]:
        """Versions, machine, and `deployment` if it was one."""

    @property
    def metrics(self) -> Mapping[str, np.ndarray]:
        """One row for each label, seed and round, as in metrics.csv."""

    @property
    def devices(self) -> Mapping[str, np.ndarray]:
        """One row for each contribution of a device."""

    @property
    def device_scores(self) -> Mapping[str, np.ndarray]:
        """One row for each device at some looks: how well the model does on its own kind of data."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """As in summary.json."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """One experiment: its settings, where it ran, and the time at which its algorithms are compared."""

    name: str
    settings: Mapping[str, Any]
    info: Mapping[str, Any]
    seeds: tuple[int, ...]
    targets: tuple[float, ...]
    equal_time_s: float | None
    power_limits_w: tuple[float, ...]
    devices: int | None
    dataset: str | None
    score: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One algorithm label of one run: the unit that gets a style, a legend button and a table row.

    `metrics`, `devices` and `scores` are its rows, `summary` its part of summary.json, `run` the position of its run.
    """

    index: int
    style: Style
    run: int
    label: str
    metrics: Rows
    devices: Rows
    scores: Rows
    summary: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The label, with the run's name before it when there are several runs."""
        return self.style.name

    @property
    def seeds(self) -> np.ndarray:
        """Its seeds, in order."""
        return np.unique(self.metrics["seed"])


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
        """Whether runs are compared."""
        return len(self.runs) > 1

    @property
    def targets(self) -> tuple[float, ...]:
        """The accuracies that some run set as a target, ascending."""
        return tuple(sorted({target for run in self.runs for target in run.targets}))

    @property
    def score(self) -> Score:
        """What the models are judged by; "score" where the runs do not agree."""
        names = {run.score for run in self.runs}
        return Score(names.pop() if len(names) == 1 else "score")

    @property
    def equal_time_s(self) -> float | None:
        """The simulated time that every entry has reached."""
        times = [run.equal_time_s for run in self.runs]
        known = [time for time in times if time is not None]
        return min(known) if len(known) == len(times) and known else None


def gather(results: Sequence[ResultLike]) -> Study:
    """Read the runs; with several of them every label is prefixed by its run's name."""
    names = distinct_names([_called(result) for result in results])
    summaries = [result.summary for result in results]  # computed at each access, so asked for once
    runs = tuple(_run(*each) for each in zip(names, results, summaries, strict=True))
    found = [
        (position, label, metrics, devices, scores)
        for position, result in enumerate(results)
        for label, metrics, devices, scores in _split_by_label(result, summaries[position])
    ]
    styles = style_of([(position, label) for position, label, *_ in found])
    entries = tuple(
        Entry(
            index=index,
            style=Style(name=f"{names[position]}: {label}" if len(results) > 1 else label, colour=colour, dash=dash),
            run=position,
            label=label,
            metrics=metrics,
            devices=devices,
            scores=scores,
            summary=summaries[position].get("algorithms", {}).get(label, {}),
        )
        for index, ((position, label, metrics, devices, scores), (colour, dash)) in enumerate(
            zip(found, styles, strict=True)
        )
    )
    return Study(runs=runs, entries=entries)


def _called(result: ResultLike) -> str:
    """A deployment is named as one: it is mostly compared with the simulation of the same file."""
    name = str(result.experiment.name)
    return f"{name}, deployed" if "deployment" in result.info else name


def distinct_names(names: Sequence[str]) -> list[str]:
    """Two runs of the same name become `name` and `name (2)`."""
    taken: set[str] = set()
    distinct = []
    for name in names:
        candidate, copy = name, 1
        while candidate in taken:
            copy += 1
            candidate = f"{name} ({copy})"
        taken.add(candidate)
        distinct.append(candidate)
    return distinct


def _run(name: str, result: ResultLike, summary: Mapping[str, Any]) -> Run:
    settings = result.experiment.to_dict()
    devices = number(_section(settings, "data").get("devices"))
    return Run(
        name=name,
        settings=settings,
        info=result.info,
        seeds=tuple(int(seed) for seed in summary.get("seeds", ())),
        targets=tuple(float(target) for target in summary.get("targets", ())),
        equal_time_s=number(summary.get("equal_time_s")),
        power_limits_w=_power_limits_w(settings),
        devices=None if devices is None else int(devices),
        dataset=_section(settings, "data").get("dataset"),
        score=str(result.info.get("score", "accuracy")),
    )


def _power_limits_w(settings: Mapping[str, Any]) -> tuple[float, ...]:
    """P_max of the experiment and of the algorithms that have one of their own."""
    entries = [settings, *settings.get("algorithms", ())]
    limits = (number(_section(entry, "power").get("max_power_w")) for entry in entries)
    return tuple(sorted({limit for limit in limits if limit and limit > 0}))


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name)
    return section if isinstance(section, Mapping) else {}


def _split_by_label(result: ResultLike, summary: Mapping[str, Any]) -> Iterator[tuple[str, Rows, Rows, Rows]]:
    """The rows of each label (metrics, devices, scores), in the summary's order; metrics sorted by seed and round."""
    metrics, devices, scores = result.metrics, result.devices, result.device_scores
    in_rows = np.unique(_texts(metrics.get("label"))).tolist()
    in_summary = [str(label) for label in summary.get("algorithms", {})]
    for label in dict.fromkeys([label for label in in_summary if label in in_rows] + in_rows):
        mine, records, served = (_with_label(table, label) for table in (metrics, devices, scores))
        order = np.lexsort((mine["round"], mine["seed"]))
        yield label, {name: values[order] for name, values in mine.items()}, records, served


def _with_label(table: Mapping[str, np.ndarray], label: str) -> Rows:
    chosen = _texts(table.get("label")) == label
    return {name: np.asarray(values)[chosen] for name, values in table.items()}


def _texts(values: Any) -> np.ndarray:
    return np.array([], dtype=str) if values is None else np.asarray(values).astype(str)
