"""Runs in, one HTML file out."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from paota.errors import UserError
from paota.report import markup
from paota.report.figure import Section
from paota.report.gantt import timeline_section
from paota.report.learning import learning_section, side_by_side_section, spending_section, target_section
from paota.report.page import page, payload
from paota.report.participation import participation_section
from paota.report.power import power_section
from paota.report.study import ResultLike, Study, gather
from paota.report.table import results_table
from paota.report.timing import staleness_figure, timing_section

# With Plotly's 4.8 MB this keeps the file under 6 MB.
MOST_DATA_BYTES = 900_000
# Points of a curve, tried in this order until the data fits. 300 is more than a screen can show of most curves.
POINTS = (300, 150, 80, 40, 20, 10)


def write(results: Sequence[ResultLike], path: Path, *, title: str | None = None) -> None:
    """Render one or several runs into one offline HTML file; the file appears whole or not at all."""
    if not results:
        raise UserError("a report needs at least one run")
    target = Path(path)
    if target.is_dir():
        raise UserError(f"cannot write the report to '{target}': it is a folder, give the name of a file")
    document = render(results, title=title)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(document, encoding="utf-8")
        os.replace(temporary, target)
    except OSError as problem:
        raise UserError(f"cannot write the report to '{target}': {problem.strerror or problem}") from problem
    finally:
        temporary.unlink(missing_ok=True)


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
    """The sections with as many points as the size of the file allows."""
    for points in POINTS:
        sections, timelines = build(study, points)
        data = markup.embedded_json(payload(study, sections))
        if len(data) <= MOST_DATA_BYTES:
            break
    return sections, timelines, data


def build(study: Study, points: int) -> tuple[list[Section], list[tuple[str, str]]]:
    """All sections in the order of the page, and the choices of the timeline's selector."""
    timeline, timelines = timeline_section(study)
    by_run = [staleness_figure(study, run) for run in range(len(study.runs))] if study.several else []
    sections = [
        Section(
            id="results",
            title="Results",
            intro="Accuracy is the mean over the seeds ± their standard deviation, times are medians with the middle "
            "half of the seeds. The best of each column is set in bold.",
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


def _title(study: Study) -> str:
    return f"{len(study.runs)} runs compared" if study.several else study.runs[0].name
