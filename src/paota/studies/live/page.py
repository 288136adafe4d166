"""The pages that fill while something runs: one run, or the points of a sweep. Made of the report's own parts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base.formatting import Score, counted, percent
from ...pages.figure import Figure, Trace, View, axes, numbers
from ...pages.page import Page, Section, Table, TableCell, TableRow
from ...pages.timeline import stretch_of, timeline_figure
from ..report.learning import learning_section
from ..report.study import Study, gather
from .follow import Snapshot

POINTS = 200  # of a curve
QUIET_S = 60.0  # without news, after which the page says so
NEXT = "now"  # where the page asks for news, relative to its own address


def run_page(run: Snapshot, *, report: bool = False, home: str = "") -> Page:
    """One run. `report`: its report can be asked for too; `home`: the address of the sweep that it is a point of."""
    study = _study(run)
    sections = [_progress_section(run, study)]
    if study is not None:
        sections.append(_without_prose(learning_section(study, POINTS)))
    if run.state.get("loud"):
        sections.append(_now_section(run, study))
    return Page(
        kind="PAOTA live", title=f"{run.name}: live", heading=run.name, ran=_in_words(run), findings=_sentences(run),
        sections=sections, legend=[entry.style for entry in study.drawn] if study else [], follow=NEXT,
        links={**({"All points": home} if home else {}), **({"Report": "report.html"} if report else {})},
    )  # fmt: skip


def sweep_page(name: str, places: Sequence[str], points: Sequence[Snapshot], *, report: bool = False) -> Page:
    """All points of a sweep: how far each is, with a link to its own page."""
    done = sum(point.finished for point in points)
    under_way = sum(_begun(point) and not point.finished for point in points)
    rows = [
        TableRow(
            head=TableCell(text=place, link=f"points/{number}/" if _begun(point) or point.finished else ""),
            cells=[TableCell(text=_state_of(point)), TableCell(text=_share_of(point)), TableCell(text=_best_of(point))],
        )
        for number, (place, point) in enumerate(zip(places, points, strict=True))
    ]
    score = _score(points[0]).name if points else "accuracy"
    table = Table(label="Points", heads=["point", "state", "done", f"newest {score}"], rows=rows)
    words = f"{done} of {counted(len(points), 'point')} finished, {under_way} under way."
    return Page(
        kind="PAOTA live", title=f"{name}: live", heading=name, ran="A sweep.", findings=[words],
        sections=[Section(id="points", title="Points", intro="As the grid has them.", tables=[table])],
        follow=NEXT, links={"Report": "report.html"} if report else {},
    )  # fmt: skip


def _study(run: Snapshot) -> Study | None:
    """What has been told so far, as the report reads a result."""
    if not run.metrics or not len(run.metrics["round"]):
        return None
    labels = dict.fromkeys(unit["label"] for unit in run.state.get("units", ()))
    summary = {
        "seeds": np.unique(run.metrics["seed"]).astype(int).tolist(),
        "targets": run.settings.get("targets", []),
        "algorithms": {label: {} for label in labels},
    }
    experiment = SimpleNamespace(name=run.name, to_dict=lambda: run.settings)
    told: Any = SimpleNamespace(
        experiment=experiment,
        info={"score": _score(run).name},
        metrics=run.metrics,
        devices={},
        device_scores={},
        summary=summary,
    )
    return gather([told])


def _score(run: Snapshot) -> Score:
    return Score(run.state.get("score", "accuracy"))


def _units(run: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """By label, in the experiment's order."""
    units: dict[str, list[dict[str, Any]]] = {}
    for unit in run.state.get("units", ()):
        units.setdefault(str(unit["label"]), []).append(unit)
    return units


def _progress_section(run: Snapshot, study: Study | None) -> Section:
    series = {entry.label: entry.index for entry in study.drawn} if study else {}
    rows = [
        TableRow(
            head=TableCell(text=label),
            series=series.get(label),
            cells=[
                TableCell(text=_doing(run, label, units)),
                TableCell(text=f"{sum(u['done'] for u in units):,} of {sum(u['rounds'] for u in units):,}"),
                TableCell(text=_newest(run, units)),
            ],
        )
        for label, units in _units(run).items()
    ]
    heads = ["algorithm", "state", "rounds", f"newest {_score(run).name}"]
    table = Table(label="Progress", heads=heads, rows=rows)
    return Section(id="progress", title="Progress", intro="Rounds over all seeds.", tables=[table])


def _doing(run: Snapshot, label: str, units: list[dict[str, Any]]) -> str:
    since = run.state.get("compiling", {}).get(label)
    if since is not None and not run.state.get("ended"):
        return f"compiling, {max(0.0, time.time() - since):.0f} s"
    states = [unit["state"] for unit in units]
    return ", ".join(
        f"{states.count(state)} {state}" if len(states) > 1 else state for state in dict.fromkeys(sorted(states))
    )


def _newest(run: Snapshot, units: list[dict[str, Any]]) -> str:
    known = [unit["accuracy"] for unit in units if unit["accuracy"] is not None]
    return _score(run).show(float(np.median(known))) if known else "–"


def _in_words(run: Snapshot) -> str:
    units = run.state.get("units", ())
    seeds = len({unit["seed"] for unit in units})
    return (
        f"{counted(len(_units(run)), 'algorithm')}, {counted(seeds, 'seed')}." if units else "A run that has not begun."
    )


def _sentences(run: Snapshot) -> list[str]:
    """Finished or not, how fast, what is left."""
    if run.finished:
        return ["Finished."]
    if run.problem:
        return [f"{run.problem}."]
    if run.state.get("ended"):
        return ["It was interrupted; what is done is saved."]
    units = run.state.get("units", ())
    left = sum(u["rounds"] - u["done"] for u in units if u["state"] in ("waiting", "running"))
    speed = run.state.get("rounds_per_second")
    words = [f"{left:,} rounds are left."]
    if speed:
        words = [f"{speed:.3g} rounds a second; {left:,} rounds are left, about {_duration(left / speed)}."]
    if run.silent_s > QUIET_S:
        words.append(
            f"Nothing new for {_duration(run.silent_s)}: it may have been ended, or its folder is out of reach."
        )
    return words


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _now_section(run: Snapshot, study: Study | None) -> Section:
    series = {entry.label: entry.index for entry in study.entries} if study else {}
    figures = [_loudness(run.state["loud"], series)]
    stretches = {}
    for number, (label, columns) in enumerate(run.state.get("timeline", {}).items()):
        rows = {name: np.array(column, float) for name, column in columns.items() if name != "seed"}
        if (stretch := stretch_of(rows, start_s=float(np.fmin.reduce(rows["start_s"], initial=np.inf)))) is not None:
            stretches[str(number)] = (label, stretch)
    if stretches:
        figures.append(timeline_figure(stretches, title="The newest rounds: who trains, who waits, who sends"))
    return Section(
        id="devices",
        title="Devices now",
        intro="The newest round of each algorithm that somebody took part in.",
        figures=figures,
    )


def _loudness(loud: dict[str, Any], series: dict[str, int]) -> Figure:
    """Bars: the amplitude with which each device of the newest round arrived; digitally, its weight."""
    rounds = ", ".join(f"{label}: round {now['round']}" for label, now in loud.items())
    return Figure(
        id="loud",
        title="Who transmits how loud",
        caption="Each bar is a device of the newest round; how loud it arrives is how much it counts.",
        alt=f"Bar chart of the devices' amplitudes. {rounds}.",
        views={str(number): _loud_view(now, label, series) for number, (label, now) in enumerate(loud.items())},
        group="loud",
        choices={str(number): label for number, label in enumerate(loud)},
        wide=True,
        height_px=280,
    )


def _loud_view(now: dict[str, Any], label: str, series: dict[str, int]) -> View:
    device, power, weight, staleness = (
        np.array(now[name], float) for name in ("device", "amplitude", "weight", "staleness")
    )
    analog = bool(np.isfinite(power).any())
    name = "amplitude at the server" if analog else "weight in the average"
    details = [numbers(row) for row in np.stack([device, power, weight, staleness], axis=1)]
    trace: Trace = {
        "type": "bar",
        "x": numbers(device),
        "y": numbers(power if analog else weight),
        "customdata": details,
        "hovertemplate": f"device %{{x}}<br>{name} %{{y:.3~g}}<br>staleness %{{customdata[3]}}<extra></extra>",
    }
    layout = axes(f"device (round {now['round']:,}, seed {now['seed']})", from_zero=True) | {"hovermode": "closest"}
    layout["yaxis"]["title"] = {"text": name}
    return View(
        traces=[trace | ({"series": series[label]} if label in series else {"name": label})],
        layout=layout,
        columns=("device", name),
        record_columns=("device", "amplitude", "weight", "staleness"),
    )


def _without_prose(section: Section) -> Section:
    """The report's figures under a shorter sentence."""
    return Section(
        id=section.id,
        title=section.title,
        intro="So far; the line is the median over the seeds.",
        figures=section.figures,
    )


def _begun(point: Snapshot) -> bool:
    return bool(point.state)


def _state_of(point: Snapshot) -> str:
    if point.finished:
        return "finished"
    if not _begun(point):
        return "unreadable" if point.problem else "waiting"
    return "interrupted" if point.state.get("ended") else "running"


def _share_of(point: Snapshot) -> str:
    units = point.state.get("units", ())
    total = sum(u["rounds"] for u in units)
    if point.finished:
        return percent(1.0, 0)
    return percent(sum(u["done"] for u in units) / total, 0) if total else "–"


def _best_of(point: Snapshot) -> str:
    shown = [f"{label} {_newest(point, units)}" for label, units in _units(point).items()]
    return ", ".join(shown) or "–"
