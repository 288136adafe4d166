"""What a notebook shows of a result, a sweep or a power solution: sentences, a table, a small figure. Plain HTML and SVG: it
is seen without scripts too, on a code host or in an exported page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from . import palette
from .figure import Style, View
from .page import Table, TableCell, TableRow, environment
from .report.findings import headline, what_ran
from .report.learning import learning_section
from .report.results import results_table
from .report.study import ResultLike, gather
from .words import counted, quantity

if TYPE_CHECKING:
    from ..power.solution import Solution
    from ..sweeps.outcome import Sweep

WIDTH, HEIGHT, MARGIN = 460, 150, 34  # of the small figure, in pixels
POINTS = 60
MOST_ROWS = 20


def result_html(result: ResultLike) -> str:
    """The report's headline and table, and the test accuracy against simulated seconds."""
    study = gather([result])
    drawn = [figure for figure in learning_section(study, POINTS).figures if figure.id == "test-accuracy"]
    legend = [entry.style for entry in study.drawn]
    return _html(
        title=study.runs[0].name,
        sentences=[what_ran(study), *headline(study)],
        table=results_table(study),
        figure=_svg(drawn[0].views["seconds"], legend, "test accuracy against simulated seconds") if drawn else "",
    )


def sweep_html(sweep: Sweep) -> str:
    """The answer for each algorithm, and the metric that decides at every point."""
    from ..sweeps.grid import show
    from ..sweeps.outcome import answer

    best = {label: sweep.best_row(label) for label in sweep.labels}
    points = list(dict.fromkeys(row.point for row in sweep.rows))
    by_place = {(row.point, row.label): row for row in sweep.rows}
    rows = []
    for point in points[:MOST_ROWS]:
        mine = [by_place.get((point, label)) for label in sweep.labels]
        values = next(row for row in mine if row is not None).values
        cells = [
            TableCell(text="failed", muted=True)
            if row is None
            else TableCell(text=sweep.best_by.show(row.scores[sweep.best_by.text].median), bold=row is best[row.label])
            for row in mine
        ]
        head = ", ".join(show(value) for value in values)
        rows.append(TableRow(head=TableCell(text=head), cells=cells))
    left = len(points) - len(rows)
    more = f"{left} more points are in the table." if left > 0 else ""
    return _html(
        title=f"{sweep.name}: sweep",
        sentences=[answer(sweep), *sweep.sentences, *(text for text in (sweep.equal.sentence, more) if text)],
        table=Table(
            label=sweep.best_by.title,
            heads=[", ".join(axis.key for axis in sweep.axes), *sweep.labels],
            groups=[(sweep.best_by.title, len(sweep.labels))] if sweep.labels else (),
            rows=rows,
        ),
    )


def solution_html(solution: Solution) -> str:
    """The message, the certificate, and the power of each device as a number and a bar."""
    largest = float(solution.power.max(initial=0.0))
    rows = [
        TableRow(
            head=TableCell(text=str(device)),
            cells=[TableCell(text=f"{power:.4g}"), TableCell(text=f"{beta:.3g}"), TableCell(text=_bar(power, largest))],
        )
        for device, (power, beta) in enumerate(zip(solution.power, solution.beta, strict=True))
    ]
    left = len(rows) - MOST_ROWS
    return _html(
        title=f"Power control, {solution.method}",
        sentences=[
            solution.message,
            f"Objective {solution.objective:.6g} = term (d) {solution.term_d:.6g} + term (e) {solution.term_e:.6g}; "
            f"KKT residual {solution.kkt_residual:.1e}, gap {solution.gap:.1e}.",
            *([f"The first {MOST_ROWS} of {counted(len(rows), 'device')}."] if left > 0 else []),
        ],
        table=Table(label="powers", heads=["device", "power", "beta", ""], rows=rows[:MOST_ROWS]),
    )


def _bar(value: float, largest: float) -> Markup:
    share = value / largest if largest > 0 else 0.0
    ink = palette.SERIES["light"][0]
    return Markup('<svg width="120" height="10"><rect width="{}" height="10" fill="{}"/></svg>').format(
        f"{120 * share:.0f}", ink
    )


def page_html(title: str, sentences: Sequence[str], table: Table) -> str:
    """Sentences and a table, as a notebook shows them."""
    return _html(title=title, sentences=sentences, table=table)


def _html(*, title: str, sentences: Sequence[str], table: Table, figure: str = "") -> str:
    return str(_template().render(title=title, sentences=sentences, table=table, figure=figure))


@cache
def _template() -> Any:
    return environment().get_template("notebook.html")


def _svg(view: View, legend: Sequence[Style], words: str) -> Markup:
    """The lines of a view, with the ends of both axes and the names beside them. Values outside 0 to 1 set the scale."""
    lines = [(legend[trace["series"]], _known(trace)) for trace in view.traces if "series" in trace]
    points = [point for _, line in lines for point in line]
    if not points:
        return Markup()
    right = max(x for x, _ in points) or 1.0
    top = max(1.0, max(y for _, y in points))

    def place(x: float, y: float) -> str:
        return f"{MARGIN + (WIDTH - MARGIN) * x / right:.1f},{(HEIGHT - 20) * (1 - y / top) + 4:.1f}"

    parts = [Markup('<path d="M{} H{}" stroke="#b3bac4" fill="none"/>').format(place(0, 0), WIDTH)]
    for style, line in lines:
        parts.append(
            Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="2" stroke-dasharray="{}"/>').format(
                " ".join(place(*point) for point in line),
                palette.SERIES["light"][style.colour],
                palette.DASHES[style.dash],
            )
        )
    texts = [(0, 12, "start", f"{top:.0%}"), (0, HEIGHT - 16, "start", "0"), (MARGIN, HEIGHT - 2, "start", "0 s")]
    texts.append((WIDTH, HEIGHT - 2, "end", f"{quantity(right)} s"))
    for x, y, anchor, text in texts:
        parts.append(Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, text))
    picture = Markup('<svg role="img" aria-label="{}" width="{}" height="{}" font-size="11" fill="#5a6472">{}</svg>')
    keys = (
        Markup('<span style="color:{};white-space:nowrap">▬&nbsp;{}</span>').format(
            palette.SERIES["light"][style.colour], style.name
        )
        for style, _ in lines
    )
    drawn = picture.format(words, WIDTH, HEIGHT, Markup("").join(parts))
    return Markup("<div>{}</div><div>{} &nbsp; <small>{}</small></div>").format(
        drawn, Markup(" &nbsp; ").join(keys), words
    )


def _known(trace: dict[str, Any]) -> list[tuple[float, float]]:
    pairs = zip(trace["x"], trace["y"], strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None and math.isfinite(y)]
