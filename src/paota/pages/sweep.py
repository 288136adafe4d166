"""The sweep as one HTML file that opens anywhere: the answer, a map of it, every number. It needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..experiment import Experiment
from ..runs.files import to_toml, write_text
from ..sweeps.grid import Point, show
from ..sweeps.outcome import Row, Sweep, answer, best_row, question
from . import markup, palette
from .page import asset
from .sweep_heat import heat_maps
from .sweep_lines import line_plot, series_css


def write_page(path: Path, sweep: Sweep, experiment: Experiment, points: Sequence[Point]) -> None:
    write_text(path, render(sweep, experiment, points))


def render(sweep: Sweep, experiment: Experiment, points: Sequence[Point]) -> str:
    title = f"{sweep.name}: {question(sweep.axes)}"
    parts = {
        "title": markup.text(title),
        "heading": markup.name(question(sweep.axes)),
        "style": palette.theme_css() + asset("page.css") + asset("sweep.css") + series_css(),
        "ran": f"{markup.name(sweep.name)}: {markup.text(answer(sweep))}",
        "findings": "".join(f"<p>{markup.name(text)}</p>" for text in sweep.sentences)
        or "<p>No point has been computed.</p>",
        "failures": _failures(sweep, points),
        "map_title": markup.text(_capital(sweep.best_by.title)),
        "map_intro": _how_to_read(sweep),
        "map": _map(sweep),
        "table": _table(sweep),
        "settings": markup.text(to_toml(experiment.to_dict())),
    }
    return markup.filled(asset("sweep.html"), parts)


def _map(sweep: Sweep) -> str:
    if not sweep.rows:
        return ""
    if len(sweep.axes) == 1:
        return line_plot(sweep)
    return "".join(f'<h3 class="part">{markup.name(label)}</h3>{heat_maps(sweep, label)}' for label in sweep.labels)


def _how_to_read(sweep: Sweep) -> str:
    better = "Smaller is better" if sweep.best_by.kind.smaller_is_better else "Larger is better"
    middle = f"medians of {sweep.seeds} seeds" if sweep.seeds > 1 else "one seed, so there is no spread to show"
    if len(sweep.axes) == 1:
        band = " Bands are the middle half of the seeds;" if sweep.seeds > 1 else ""
        return f"{better}; {middle}.{band} the large dot is the best point of each line."
    return f"{better}; {middle}. Deeper is better, and ★ marks the best point of each map."


def _failures(sweep: Sweep, points: Sequence[Point]) -> str:
    if not sweep.failed:
        return ""
    items = "".join(
        f"<li>{markup.name(_where(sweep, points[index]))}: {markup.name(why)}</li>"
        for index, why in sweep.failed.items()
    )
    count = len(sweep.failed)
    return f'<div class="notice"><p>{count} of {sweep.points} points failed:</p><ul>{items}</ul></div>'


def _where(sweep: Sweep, point: Point) -> str:
    return ", ".join(f"{axis.key} = {show(value)}" for axis, value in zip(sweep.axes, point.values, strict=True))


def _table(sweep: Sweep) -> str:
    best = {label: best_row(sweep.of(label), sweep.best_by) for label in sweep.labels}
    heads = ["label", *(axis.key for axis in sweep.axes), *(metric.text for metric in sweep.metrics), "diverged"]
    head = "".join(f'<th scope="col">{markup.text(text)}</th>' for text in heads)
    body = "".join(_table_row(sweep, row, row is best[row.label]) for row in sweep.rows)
    return f'<table class="results rows"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _table_row(sweep: Sweep, row: Row, is_best: bool) -> str:
    cells = [markup.text(show(value)) for value in row.values]
    for metric in sweep.metrics:
        shown = markup.text(metric.show(row.scores[metric.text].median))
        cells.append(f"<strong>★ {shown}</strong>" if is_best and metric == sweep.best_by else shown)
    cells.append(f'<span class="diverged">{row.diverged}</span>' if row.diverged else "0")
    inside = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row"><span class="who">{markup.name(row.label)}</span></th>{inside}</tr>'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
