"""The page of a plan: a sheet for the deployment, its reasons, and all other candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...base.files import to_toml, write_text
from ...base.formatting import capital, counted, isolated, quantity
from ...pages import palette
from ...pages.figure import Figure, Style, Trace, axes, line_chart, numbers, scatter, whiskers
from ...pages.notebook import page_html
from ...pages.page import Page, Section, SettingsFile, Table, TableCell, TableRow, render
from ..sweep.grid import setting_name, show_with_unit
from ..sweep.metrics import Metric
from .candidates import Pace
from .outcome import PlanRow, Recommendation, costs_of, shown
from .search import COSTS, RUNGS

CHOSEN_DOT, DOT = 14, 7  # px


def write_page(path: Path, made: Recommendation) -> None:
    """Write the page to `path`."""
    write_text(path, render(build(made)))


def build(made: Recommendation) -> Page:
    """Return the page of a plan."""
    labels = list(dict.fromkeys(row.candidate.algorithm for row in made.rows))
    styles = palette.style_of([(0, label) for label in labels])
    reached = any(math.isfinite(_seconds(row)) for row in made.rows)
    sections = [*([_trade_off(made, labels)] if reached else []), _candidates(made, labels)]
    if made.chosen is not None:
        intro = f"To {made.goal}; median, and the middle half of {counted(made.chosen.seeds, 'seed')}."
        sheet = Section(id="sheet", title="Deployment sheet", intro=intro, tables=[_sheet(made, made.chosen)])
        several_paces = bool(made.curve) or sum(_kin(row) == _kin(made.chosen) for row in made.rows) > 1
        sections = [sheet, *([_why(made, made.chosen, labels)] if several_paces else []), *sections]
    if made.experiment is not None:
        toml = to_toml(made.experiment.to_dict())
        file = SettingsFile(name=made.name, toml=toml, command="paota deploy experiment.toml")
        intro = "Deploy the recommendation with this file, or simulate it with paota run experiment.toml."
        sections.insert(0, Section(id="settings", title="Deploy it", intro=intro, settings=[file]))
    return Page(
        kind="PAOTA plan",
        title=f"{made.name}: what should I deploy?",
        heading="What should I deploy?",
        ran=f"{made.name}: {counted(made.candidates, 'candidate')}, {counted(made.seeds, 'seed')} for the finalists, at most "
        f"{quantity(made.duration_s)} simulated seconds, judged by {made.best_by.title}",
        findings=[isolated(text) for text in made.sentences],
        warning=f"{counted(len(made.failed), 'candidate')} failed:" if made.failed else "",
        warnings=[f"{name}: {why}" for name, why in made.failed.items()],
        legend=[Style(name=label, colour=c, dash=d) for label, (c, d) in zip(labels, styles, strict=True)],
        sections=sections,
    )


def plan_html(made: Recommendation) -> str:
    """Return what a notebook shows: the sentences and the sheet."""
    empty = Table(label="Deployment sheet", heads=[], rows=[])
    return page_html(f"{made.name}: plan", made.sentences, empty if made.chosen is None else _sheet(made, made.chosen))


def _sheet(made: Recommendation, row: PlanRow) -> Table:
    lines = [(capital(setting_name(key)), show_with_unit(key, value), "") for key, value in made.choices.items()]
    for name, title in zip(COSTS, ("Simulated time", "Energy, all devices", "Time on the air"), strict=True):
        metric, spread = Metric(name, made.target), row.cost(name)
        value = "not accounted" if math.isinf(spread.median) else metric.show(spread.median)
        between = metric.between(spread) if len(spread.values) > 1 and math.isfinite(spread.high) else ""
        lines.append((title, value.removesuffix(" on the air"), between.replace(" on the air", "")))
    for what, title in (
        ("round_s", "Seconds between aggregations"),
        ("ready", "Devices in an aggregation"),
        ("staleness", "Staleness of an update (versions)"),
        ("noise_std", "Noise of a weight"),
    ):
        seen, expected = getattr(row.simulated, what), getattr(row.estimate, what)
        told = math.isfinite(expected) and row.candidate.has_deadlines  # a timeline is exact, not an estimate
        lines.append((title, shown(seen), f"expected {shown(expected)}" if told else ""))
    rows = [TableRow(head=TableCell(text=a), cells=[TableCell(text=b), TableCell(text=c)]) for a, b, c in lines]
    return Table(label="Deployment sheet", heads=["", "value", "middle half"], rows=rows, prose=True)


def _why(made: Recommendation, row: PlanRow, labels: Sequence[str]) -> Section:
    """Return the chosen algorithm at other paces: the gain and the cost of a longer wait between aggregations."""
    kin = [r for r in made.rows if _kin(r) == _kin(row)]
    series = labels.index(row.candidate.algorithm)
    named = "period ΔT (s)" if made.curve else "seconds between aggregations"

    def against_pace(id: str, title: str, of: Callable[[Pace], float]) -> Figure:
        curve = scatter(
            "lines", [pace.round_s for pace in made.curve], [of(pace) for pace in made.curve],
            name="from the latencies alone", line={"color": "$muted", "dash": "dot", "width": 1.5},
        )  # fmt: skip
        dots = _dots(made, kin, series, _pace, lambda r: of(r.simulated))
        return _figure([curve, dots] if made.curve else [dots], named, id=id, title=title, height_px=240)

    shown: tuple[tuple[str, str, Callable[[Pace], float]], ...] = (
        ("ready", "Devices in an aggregation, mean", lambda pace: pace.ready),
        ("staleness", "Staleness of an update, mean", lambda pace: pace.staleness),
        ("noise", "Noise of a weight, standard deviation", lambda pace: pace.noise_std),
    )
    paces = [*made.curve, *(r.simulated for r in kin)]
    figures = [against_pace(id, title, of) for id, title, of in shown if len({of(pace) for pace in paces}) > 1]
    figures.append(_time_to_target(made, kin, series, named))
    return Section(
        id="why",
        title="Why this pace",
        intro="Dots were simulated, the large one is the choice"
        f"{'; the line is the renewal argument, from the latencies alone' if made.curve else ''}. "
        "A longer wait gathers more devices, whose updates are fresher, and the noise matters less. But fewer aggregations "
        "fit into the time.",
        figures=figures,
    )


def _kin(row: PlanRow) -> tuple[str, object]:
    """Return what stays the same at another pace: the algorithm and its payload."""
    return row.candidate.algorithm, row.candidate.config.algorithm.payload


def _figure(traces: Sequence[Trace], x_title: str, *, id: str, title: str, height_px: int, caption: str = "") -> Figure:
    layout = axes(x_title, from_zero=True) | {"hovermode": "closest"}
    return line_chart(
        {"all": (traces, layout)}, id=id, title=title, caption=caption, alt=f"{title} against {x_title}",
        height_px=height_px,
    )  # fmt: skip


def _pace(row: PlanRow) -> float:
    return row.simulated.round_s


def _cost(name: str) -> Callable[[PlanRow], float]:
    """Return the function that gives the median cost of a row."""
    return lambda row: row.cost(name).median


_seconds = _cost("seconds_to")


def _dots(
    made: Recommendation, rows: Sequence[PlanRow], series: int, x: Callable[[PlanRow], float],
    y: Callable[[PlanRow], float],
) -> Trace:  # fmt: skip
    """Return a dot for each row, the large one for the choice."""
    return {
        "type": "scatter", "mode": "markers", "series": series,
        "x": numbers([x(row) for row in rows]), "y": numbers([y(row) for row in rows]),
        "marker": {"size": [CHOSEN_DOT if row is made.chosen else DOT for row in rows]},
        "text": [f"{row.candidate.name} ({counted(row.seeds, 'seed')})" for row in rows],
        "hovertemplate": "%{text}<br>%{x:.4~g}, %{y:.4~g}<extra></extra>",
    }  # fmt: skip


def _time_to_target(made: Recommendation, kin: Sequence[PlanRow], series: int, x_title: str) -> Figure:
    """Return the seconds to the target against the pace, for the candidates that reached it."""
    rows = [row for row in kin if math.isfinite(_seconds(row))]
    spreads = [row.cost("seconds_to") for row in rows]
    low, middle, high = (np.array([getattr(s, part) for s in spreads]) for part in ("low", "median", "high"))
    dots = _dots(made, rows, series, _pace, _seconds) | {"error_y": whiskers(low, middle, high)}
    title, caption = f"Simulated seconds to {made.score.target(made.target)}", "Whiskers: middle half of the seeds."
    return _figure([dots], x_title, id="time", title=title, height_px=240, caption=caption)


def _trade_off(made: Recommendation, labels: Sequence[str]) -> Section:
    rows = [row for row in made.rows if math.isfinite(_seconds(row))]
    front = sorted((row for row in rows if row.pareto), key=_seconds)
    figures = []
    for name, title in (("joules_to", "Joules to the target"), ("airtime_to", "Seconds on the air to the target")):
        cost = _cost(name)
        if not any(map(math.isfinite, map(cost, rows))):
            continue
        ring = {"symbol": "circle-open", "size": CHOSEN_DOT + 6, "color": "$muted", "line": {"width": 1.5}}
        traces = [scatter("markers", [*map(_seconds, front)], [*map(cost, front)], name="undominated", marker=ring)]
        for i, label in enumerate(labels):
            if mine := [row for row in rows if row.candidate.algorithm == label]:
                traces.append(_dots(made, mine, i, _seconds, cost))
        x_title, caption = "simulated seconds to the target", "The large dot is the choice."
        figures.append(_figure(traces, x_title, id=f"pareto-{name}", title=title, height_px=300, caption=caption))
    return Section(
        id="trade-off",
        title="Time against energy against airtime",
        intro="Candidates that reached the target, each with its own number of seeds. No other candidate is better in time, "
        f"joules and airtime together than the {len(front)} with a ring.",
        figures=figures,
    )


def _candidates(made: Recommendation, labels: Sequence[str]) -> Section:
    rows = []
    for row in made.ranking:
        cells = [TableCell(text=RUNGS[row.rung]), TableCell(text=str(row.seeds))]
        cells += [TableCell(text=text, bold=row is made.chosen) for text in costs_of(made, row)]
        cells.append(TableCell(text=made.score.show(row.accuracy)))
        for what in ("ready", "staleness"):
            said = [shown(getattr(row.estimate, what))] if row.candidate.has_deadlines else []
            cells.append(TableCell(text=shown(getattr(row.simulated, what)), notes=said))
        name = f"★ {row.candidate.name}" if row is made.chosen else row.candidate.name
        head = TableCell(text=name, badge="" if row.allowed else "not allowed")
        rows.append(TableRow(head=head, cells=cells, series=labels.index(row.candidate.algorithm)))
    heads = ["candidate", "last rung", "seeds", "time", "energy", "on the air", made.score.name, "ready", "staleness"]
    return Section(
        id="candidates",
        title="All candidates",
        intro="Costs of the target, medians over the seeds; - means not reached, or not accounted. Small: the estimate from "
        "the latencies alone, for schemes with deadlines.",
        tables=[Table(label="All candidates", heads=heads, rows=rows)],
    )
