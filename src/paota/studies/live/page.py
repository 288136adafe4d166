"""Pages that follow a run, or all points of a sweep, while it computes. They consist of the report's own parts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...base.files import Columns
from ...base.formatting import Score, counted, duration, percent
from ...base.types import Table as Unit
from ...pages.page import Page, Section, Table, TableCell, TableRow
from ..report.learning import learning_section
from ..report.study import Part, Study, run_of, study_of
from .follow import Snapshot

POINTS = 200  # of a curve
QUIET_S = 60.0  # without news, after which the page says so
NEXT = "now"  # address of the news, relative to the page's own


def run_page(run: Snapshot, *, report: bool = False, home: str = "") -> Page:
    """Return the page of one run.

    Args:
        run: its present state.
        report: whether the server has its report too.
        home: address of the sweep that the run belongs to.
    """
    study = _study(run)
    sections = [_progress_section(run, study)]
    if study is not None:
        sections.append(replace(learning_section(study, POINTS), intro="The line is the median over the seeds."))
    return Page(
        kind="PAOTA live", title=f"{run.name}: live", heading=run.name, ran=_size(run), findings=_sentences(run),
        sections=sections, legend=[entry.style for entry in study.drawn] if study else [], follow=NEXT,
        links={**({"All points": home} if home else {}), **({"Report": "report.html"} if report else {})},
    )  # fmt: skip


def sweep_page(name: str, places: Sequence[str], points: Sequence[Snapshot], *, report: bool = False) -> Page:
    """Return the page of a sweep: the progress of each point, with a link to its own page.

    Args:
        name: of the sweep.
        places: of the points in the grid, as text.
        points: their present states.
        report: whether the server has the report of the sweep too.
    """
    done = sum(point.finished for point in points)
    running = sum(bool(point.state) and not point.finished for point in points)
    rows = [
        TableRow(
            head=TableCell(text=place, link=f"points/{number}/" if point.state or point.finished else ""),
            cells=[
                TableCell(text=_state_of(point)),
                TableCell(text=_share_of(point)),
                TableCell(text=_scores_of(point)),
            ],
        )
        for number, (place, point) in enumerate(zip(places, points, strict=True))
    ]
    score = _score(points[0]).name if points else "accuracy"
    table = Table(label="Points", heads=["point", "state", "done", f"newest {score}"], rows=rows)
    return Page(
        kind="PAOTA live", title=f"{name}: live", heading=name, ran="A sweep.",
        findings=[f"{done} of {counted(len(points), 'point')} finished, {running} running."],
        sections=[Section(id="points", title="Points", intro="In the order of the grid.", tables=[table])],
        follow=NEXT, links={"Report": "report.html"} if report else {},
    )  # fmt: skip


def _study(run: Snapshot) -> Study | None:
    """Return the rows so far as the report's own data, or None before the first row."""
    rows = run.metrics
    if not rows or not len(rows["round"]):
        return None
    labels = dict.fromkeys([*(str(unit["label"]) for unit in run.state.get("units", ())), *map(str, rows["label"])])
    found = [Part(run=0, label=label, metrics=_rows_of(rows, label), devices={}, summary={}) for label in labels]
    summary = {"seeds": np.unique(rows["seed"]), "targets": run.settings.get("targets", [])}
    whole = run_of(run.name, run.settings, {"score": _score(run).name}, summary)
    return study_of([whole], [part for part in found if len(part.metrics["round"])])


def _rows_of(rows: Columns, label: str) -> Columns:
    """Return the rows of one label, sorted by seed and round."""
    order = np.lexsort((rows["round"], rows["seed"]))
    order = order[rows["label"][order] == label]
    return {name: values[order] for name, values in rows.items()}


def _score(run: Snapshot) -> Score:
    return Score(run.state.get("score", "accuracy"))


def _units(run: Snapshot) -> dict[str, list[Unit]]:
    """Return the units by label, in the experiment's order."""
    units: dict[str, list[Unit]] = {}
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
                TableCell(text=_state_of_label(run, label, units)),
                TableCell(text=f"{sum(u['done'] for u in units):,} of {sum(u['rounds'] for u in units):,}"),
                TableCell(text=_newest(run, units)),
            ],
        )
        for label, units in _units(run).items()
    ]
    heads = ["algorithm", "state", "rounds", f"newest {_score(run).name}"]
    table = Table(label="Progress", heads=heads, rows=rows)
    return Section(id="progress", title="Progress", intro="Rounds over all seeds.", tables=[table])


def _state_of_label(run: Snapshot, label: str, units: list[Unit]) -> str:
    since = run.state.get("compiling", {}).get(label)
    if since is not None and not run.state.get("ended"):
        return f"compiling, {max(0.0, time.time() - since):.0f} s"
    states = [unit["state"] for unit in units]
    return ", ".join(
        f"{states.count(state)} {state}" if len(states) > 1 else state for state in dict.fromkeys(sorted(states))
    )


def _newest(run: Snapshot, units: list[Unit]) -> str:
    known = [unit["accuracy"] for unit in units if unit["accuracy"] is not None]
    return _score(run).show(float(np.median(known))) if known else "–"


def _size(run: Snapshot) -> str:
    units = run.state.get("units", ())
    seeds = len({unit["seed"] for unit in units})
    return (
        f"{counted(len(_units(run)), 'algorithm')}, {counted(seeds, 'seed')}." if units else "The run has not started."
    )


def _sentences(run: Snapshot) -> list[str]:
    """Return the state of the run, its speed, and what remains."""
    if run.finished:
        return ["Finished."]
    if run.problem:
        return [f"{run.problem}."]
    if run.state.get("ended"):
        return ["The run was interrupted; its finished trajectories are saved."]
    units = run.state.get("units", ())
    left = sum(u["rounds"] - u["done"] for u in units if u["state"] in ("waiting", "running"))
    speed = run.state.get("rounds_per_second")
    said = [f"{left:,} rounds are left."]
    if speed:
        said = [f"{speed:.3g} rounds a second; {left:,} rounds are left, about {duration(left / speed)}."]
    elif compiling := run.state.get("compiling"):
        first_s = max(0.0, time.time() - min(compiling.values()))
        said = [
            f"Compiling the programs of {', '.join(compiling)} for {duration(first_s)}; then {left:,} rounds follow."
        ]
    elif not units:
        said = ["Waiting for the run to start."]
    if run.silent_s > QUIET_S:
        said.append(
            f"Nothing new for {duration(run.silent_s)}: the run may have ended, or its folder may be out of reach."
        )
    return said


def _state_of(point: Snapshot) -> str:
    if point.finished:
        return "finished"
    if not point.state:
        return "unreadable" if point.problem else "waiting"
    return "interrupted" if point.state.get("ended") else "running"


def _share_of(point: Snapshot) -> str:
    units = point.state.get("units", ())
    total = sum(u["rounds"] for u in units)
    if point.finished:
        return percent(1.0, 0)
    return percent(sum(u["done"] for u in units) / total, 0) if total else "–"


def _scores_of(point: Snapshot) -> str:
    shown = [f"{label} {_newest(point, units)}" for label, units in _units(point).items()]
    return ", ".join(shown) or "–"
