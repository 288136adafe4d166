"""The plan's page: one sheet for whoever deploys it, why it is so, what else there was."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.files import to_toml, write_text
from ...base.formatting import counted, isolated, quantity
from ...pages import palette
from ...pages.figure import Figure, Style, Trace, axes, line_chart, numbers, scatter, together, whiskers
from ...pages.notebook import page_html
from ...pages.page import Page, Section, SettingsFile, Table, TableCell, TableRow, render
from ...results.measures import Spread
from ..sweep.grid import setting_name, setting_unit, show
from ..sweep.metrics import Metric
from .candidates import is_estimated
from .estimate import Pace
from .outcome import PlanRow, Recommendation

RUNGS = ("first rung", "second rung", "final", "thriftier")


def write_page(path: Path, made: Recommendation) -> None:
    """The page as one file at `path`."""
    write_text(path, render(build(made)))


def build(made: Recommendation) -> Page:
    """The page of a plan."""
    legend = _styles(made)
    sections = []
    if made.chosen is not None:
        sections += [_sheet(made, made.chosen), _why(made, made.chosen, legend)]
    sections += [_trade_off(made), _candidates(made)]
    if made.experiment is not None:
        sections.append(
            Section(
                id="settings",
                title="The experiment file",
                intro="Simulate it, or deploy it as it is.",
                settings=[
                    SettingsFile(
                        name=made.name,
                        toml=to_toml(made.experiment.to_dict()),
                        command="paota run experiment.toml && paota deploy experiment.toml",
                    )
                ],
            )
        )
    return Page(
        kind="PAOTA plan",
        title=f"{made.name}: what should I deploy?",
        heading="What should I deploy?",
        ran=f"{made.name}: {counted(made.candidates, 'candidate')}, {counted(made.seeds, 'seed')} for the finalists, at most "
        f"{quantity(made.duration_s)} simulated seconds, judged by {made.best_by.title}",
        findings=[isolated(text) for text in made.sentences],
        warning=f"{counted(len(made.failed), 'candidate')} failed:" if made.failed else "",
        warnings=[f"{name}: {why}" for name, why in made.failed.items()],
        legend=legend,
        sections=sections,
    )


def plan_html(made: Recommendation) -> str:
    """What a notebook shows: the sentences and the sheet."""
    rows = _sheet_rows(made, made.chosen) if made.chosen is not None else []
    return page_html(f"{made.name}: plan", made.sentences, Table(label="deployment", heads=["", "", ""], rows=rows))


def _styles(made: Recommendation) -> list[Style]:
    labels = list(dict.fromkeys(row.candidate.algorithm for row in made.rows))
    styles = palette.style_of([(0, label) for label in labels])
    return [Style(name=label, colour=c, dash=d) for label, (c, d) in zip(labels, styles, strict=True)]


def _sheet(made: Recommendation, row: PlanRow) -> Section:
    return Section(
        id="sheet",
        title="Deployment sheet",
        intro=f"To {made.score.target(made.target)} test {made.score.name}; median, and the middle half of "
        f"{counted(row.seeds, 'seed')}.",
        tables=[Table(label="Deployment sheet", heads=["", "value", "middle half"],
                      rows=_sheet_rows(made, row))],
    )  # fmt: skip


def _sheet_rows(made: Recommendation, row: PlanRow) -> list[TableRow]:
    lines = [(_capital(setting_name(key)), _with_unit(key, value), "") for key, value in made.choices.items()]
    for name, title in (
        ("seconds_to", "Simulated time"), ("joules_to", "Energy, all devices"), ("airtime_to", "Time on the air"),
    ):  # fmt: skip
        metric, spread = Metric(name, made.target), row.cost(name)
        shown = "not accounted" if math.isinf(spread.median) else metric.show(spread.median).removesuffix(" on the air")
        lines.append((title, shown, _between(metric, spread)))
    pace, expected = row.simulated, row.estimate
    for title, seen, said in (
        ("Seconds between aggregations", pace.round_s, expected.round_s),
        ("Devices an aggregation", pace.ready, expected.ready),
        ("Versions that an update is old", pace.staleness, expected.staleness),
        ("Noise of a weight", pace.noise_std, expected.noise_std),
    ):
        told = math.isfinite(said) and is_estimated(row.candidate)  # a timeline is no estimate, but what was simulated
        lines.append((title, _short(seen), f"expected {_short(said)}" if told else ""))
    return [TableRow(head=TableCell(text=a), cells=[TableCell(text=b), TableCell(text=c)]) for a, b, c in lines]


def _why(made: Recommendation, row: PlanRow, legend: Sequence[Style]) -> Section:
    """The chosen algorithm at other paces: what a longer wait between aggregations buys, and what it costs."""
    kin = [r for r in made.rows if _kin(r, row)]
    series = [style.name for style in legend].index(row.candidate.algorithm)
    named = "period ΔT (s)" if made.curve else "seconds between aggregations"
    figures = [
        _against_pace(id, title, kin, row, curve=made.curve, series=series, named=named, of=of)
        for id, title, of in (
            ("ready", "Devices an aggregation, mean", lambda pace: pace.ready),
            ("staleness", "Staleness of an update, mean", lambda pace: pace.staleness),
            ("noise", "Noise of a weight, standard deviation", lambda pace: pace.noise_std),
        )
    ]
    figures.append(_time_to_target(made, kin, row, series, named))
    return Section(
        id="why",
        title="Why this pace",
        intro="Dots were simulated, the large one is the choice"
        f"{'; the line is the renewal argument, from the latencies alone' if made.curve else ''}. "
        "Waiting longer gathers more devices, which are fresher and drown the noise, but fewer aggregations fit into the time.",
        figures=figures,
    )


def _kin(row: PlanRow, chosen: PlanRow) -> bool:
    """The same algorithm with the same payload, at whatever pace."""
    mine, other = row.candidate, chosen.candidate
    payload = [c.config.algorithm.payload for c in (mine, other)]
    return (mine.algorithm == other.algorithm and payload[0] == payload[1] and row.rung < 3) or row is chosen


def _against_pace(
    id: str, title: str, kin: Sequence[PlanRow], chosen: PlanRow, *, curve: Sequence[Pace], series: int, named: str,
    of: Callable[[Pace], float],
) -> Figure:  # fmt: skip
    layout = axes(named, from_zero=True) | {"hovermode": "closest"}
    line = scatter(
        "lines", [pace.round_s for pace in curve], [of(pace) for pace in curve], name="from the latencies alone",
        line={"color": "$muted", "dash": "dot", "width": 1.5},
    )  # fmt: skip
    dots = _dots(kin, chosen, series, [of(row.simulated) for row in kin])
    return line_chart(
        {"all": ([*([line] if curve else []), dots], layout)}, id=id, title=title,
        caption="", alt=f"{title} against {named}", height_px=240,
    )  # fmt: skip


def _dots(rows: Sequence[PlanRow], chosen: PlanRow, series: int, values: Sequence[float]) -> Trace:
    return {
        "type": "scatter", "mode": "markers", "series": series, "x": numbers([row.simulated.round_s for row in rows]),
        "y": numbers(values), "marker": {"size": [14 if row is chosen else 7 for row in rows]},
        "text": [row.candidate.name for row in rows], "hovertemplate": "%{text}<br>%{y:.4~g}<extra></extra>",
    }  # fmt: skip


def _time_to_target(made: Recommendation, kin: Sequence[PlanRow], chosen: PlanRow, series: int, named: str) -> Figure:
    seen = [row for row in kin if math.isfinite(row.cost("seconds_to").median)]
    cut = [row for row in kin if row not in seen]
    spreads = [row.cost("seconds_to") for row in seen]
    low, middle, high = (np.array([getattr(s, part) for s in spreads]) for part in ("low", "median", "high"))
    dots = _dots(seen, chosen, series, [s.median for s in spreads]) | {"error_y": whiskers(low, middle, high)}
    traces = [dots]
    if cut:
        traces.append(
            scatter(
                "markers", [row.simulated.round_s for row in cut], [row.seconds for row in cut],
                name="given up there, or never", marker={"symbol": "arrow-up", "size": 10, "color": "$muted"},
                text=[f"{row.candidate.name}: {made.score.show(row.accuracy)} when given up" for row in cut],
                hoverinfo="text",
            )
        )  # fmt: skip
    layout = together(axes(named, from_zero=True) | {"hovermode": "closest"})
    goal = f"{made.score.target(made.target)}"
    return line_chart(
        {"all": (traces, layout)}, id="time", title=f"Simulated seconds to {goal}",
        caption="Whiskers: middle half of the seeds. Arrows: given up there, or not there when the time was over."
        if cut else "Whiskers: middle half of the seeds.",
        alt=f"simulated seconds to {goal} against {named}", height_px=240,
    )  # fmt: skip


def _trade_off(made: Recommendation) -> Section:
    there = [row for row in made.rows if math.isfinite(row.cost("seconds_to").median)]
    figures = [
        _pareto(made, there, name, title)
        for name, title in (("joules_to", "Joules to the target"), ("airtime_to", "Seconds on the air to the target"))
        if any(math.isfinite(row.cost(name).median) for row in there)
    ]
    best = sum(row.pareto for row in made.rows)
    return Section(
        id="trade-off",
        title="Time against energy against airtime",
        intro=f"Candidates that got to the target, with the seeds that they were given. The line joins the {best} that no other "
        "beats in time, joules and airtime at once."
        if there
        else "No candidate got to the target.",
        figures=figures,
    )


def _pareto(made: Recommendation, rows: Sequence[PlanRow], name: str, title: str) -> Figure:
    labels = list(dict.fromkeys(row.candidate.algorithm for row in made.rows))
    seconds = "simulated seconds to the target"
    front = sorted((row for row in rows if row.pareto), key=lambda row: row.cost("seconds_to").median)
    traces = [
        scatter(
            "lines", [row.cost("seconds_to").median for row in front], [row.cost(name).median for row in front],
            name="undominated", line={"color": "$muted", "width": 1, "dash": "dot"},
        )
    ]  # fmt: skip
    for i, label in enumerate(labels):
        mine = [row for row in rows if row.candidate.algorithm == label]
        if not mine:
            continue
        traces.append(
            {
                "type": "scatter", "mode": "markers", "series": i,
                "x": numbers([row.cost("seconds_to").median for row in mine]),
                "y": numbers([row.cost(name).median for row in mine]),
                "marker": {"size": [14 if row is made.chosen else 8 for row in mine]},
                "text": [f"{row.candidate.name} ({counted(row.seeds, 'seed')})" for row in mine],
                "hovertemplate": "%{text}<br>%{x:.4~g} s, %{y:.4~g}<extra></extra>",
            }
        )  # fmt: skip
    layout = axes(seconds, from_zero=True) | {"hovermode": "closest"}
    return line_chart(
        {"all": (traces, layout)}, id=f"pareto-{name}", title=title, caption="The large dot is the choice.",
        alt=f"{title} against {seconds}", height_px=300,
    )  # fmt: skip


def _candidates(made: Recommendation) -> Section:
    labels = list(dict.fromkeys(row.candidate.algorithm for row in made.rows))
    rows = []
    for row in sorted(made.rows, key=lambda r: (-min(r.rung, 2), r.cost(made.best_by.name).median, -r.accuracy)):
        cells = [TableCell(text=RUNGS[row.rung]), TableCell(text=str(row.seeds))]
        for name in ("seconds_to", "joules_to", "airtime_to"):
            metric, spread = Metric(name, made.target), row.cost(name)
            text = metric.show(spread.median) if math.isfinite(spread.median) else "-"
            cells.append(TableCell(text=text.removesuffix(" on the air"), bold=row is made.chosen))
        cells.append(TableCell(text=made.score.show(row.accuracy)))
        for what in ("ready", "staleness"):
            said = [_short(getattr(row.estimate, what))] if is_estimated(row.candidate) else []
            cells.append(TableCell(text=_short(getattr(row.simulated, what)), notes=said))
        badge = "" if row.allowed else "not allowed"
        name = f"★ {row.candidate.name}" if row is made.chosen else row.candidate.name
        rows.append(
            TableRow(head=TableCell(text=name, badge=badge), cells=cells, series=labels.index(row.candidate.algorithm))
        )
    heads = ["candidate", "went to", "seeds", "time", "energy", "on the air", made.score.name, "ready", "staleness"]
    return Section(
        id="candidates",
        title="All candidates",
        intro="Costs to the target, medians over the seeds; - is not reached, or not accounted. Small: what the latencies alone "
        "had said, where there are deadlines.",
        tables=[Table(label="All candidates", heads=heads, rows=rows)],
    )


def _between(metric: Metric, spread: Spread) -> str:
    if len(spread.values) < 2 or not math.isfinite(spread.high):
        return ""
    return metric.between(spread).removesuffix(" on the air")


def _with_unit(key: str, value: Any) -> str:
    unit = setting_unit(key)
    return f"{show(value)} {unit}" if unit else show(value)


def _short(value: float) -> str:
    return "-" if not math.isfinite(value) else f"{value:.3g}" if abs(value) < 100 else quantity(value)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
