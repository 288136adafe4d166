"""Runs in, one HTML file out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError
from ..runs.files import write_text
from . import markup
from .figure import Section
from .gantt import timeline_section
from .learning import learning_section, side_by_side_section, spending_section, target_section
from .page import page, payload
from .participation import participation_section
from .power import power_section
from .study import ResultLike, Study, gather
from .table import results_table
from .timing import staleness_figure, timing_section

# With Plotly's 4.8 MB this keeps the file under 6 MB.
MOST_DATA_BYTES = 900_000
# Points of a curve: 300 is more than a screen can show of most curves, 10 still show their shape.
MOST_POINTS, FEWEST_POINTS = 300, 10
# What one point of all curves of one series takes, roughly: a first guess that saves building twice.
BYTES_A_POINT = 300


def write(results: Sequence[ResultLike], path: Path, *, title: str | None = None) -> None:
    """Render one or several runs into one offline HTML file; the file appears whole or not at all."""
    if not results:
        raise UserError("a report needs at least one run")
    target = Path(path)
    if target.is_dir():
        raise UserError(f"cannot write the report to '{target}': it is a folder, give the name of a file")
    write_text(target, render(results, title=title))


def render(results: Sequence[ResultLike], *, title: str | None = None) -> str:
    """The report as text."""
    from plotly.offline import get_plotlyjs

    study = gather(results)
    if not study.series:
        raise UserError("a report needs at least one run with results")
    sections, timelines, data = _fitting(study)
    return page(
        study,
        sections,
        timelines,
        title=title if title is not None else _title(study),
        data=data,
        plotly=get_plotlyjs(),
    )


def _fitting(study: Study) -> tuple[list[Section], list[tuple[str, str]], str]:
    """The sections with about as many points as the size of the file allows."""
    guess = MOST_DATA_BYTES // (BYTES_A_POINT * len(study.series))
    points = min(max(guess, FEWEST_POINTS), MOST_POINTS)
    while True:
        sections, timelines = build(study, points)
        data = markup.embedded_json(payload(study, sections))
        if len(data) <= MOST_DATA_BYTES or points == FEWEST_POINTS:
            return sections, timelines, data
        points = max(points * 2 // 3, FEWEST_POINTS)


def build(study: Study, points: int) -> tuple[list[Section], list[tuple[str, str]]]:
    """All sections in the order of the page, and the choices of the timeline's selector."""
    timeline, timelines = timeline_section(study)
    by_run = [staleness_figure(study, run) for run in range(len(study.runs))] if study.several else []
    sections = [
        Section(
            id="results",
            title="Results",
            intro=_how_to_read(study),
            html=results_table(study),
        ),
        learning_section(study, points),
        target_section(study),
        side_by_side_section(study, [figure for figure in by_run if figure], min(points, 80)),
        timing_section(study, points),
        timeline,
        power_section(study, points),
        participation_section(study, points),
        spending_section(study, points),
    ]
    return [section for section in sections if section], timelines


def _how_to_read(study: Study) -> str:
    bold = "The best of each column is set in bold." if len(study.series) > 1 else ""
    if all(len(series.seeds) == 1 for series in study.series):
        return f"One seed, so there is no spread to show. {bold}"
    return (
        "Accuracy is the mean over the seeds and ± their standard deviation; times are medians, with the middle half "
        f"of the seeds below them. {bold}"
    )


def _title(study: Study) -> str:
    return f"{len(study.runs)} runs compared" if study.several else study.runs[0].name
