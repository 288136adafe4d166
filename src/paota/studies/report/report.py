"""The run report: one or several runs in, one HTML file out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import UserError
from ...base.files import to_toml, write_text
from ...base.formatting import sentences
from ...pages.page import Page, Section, SettingsFile, with_coincidences
from ...pages.page import render as render_page
from .findings import headline, what_ran
from .learning import learning_section, side_by_side_section, spending_section, target_section
from .participation import participation_section
from .power import power_section
from .privacy import privacy_section
from .results import results_table
from .study import ResultLike, Run, Study, gather
from .timing import staleness_figure, timeline_section, timing_section

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
    """The report as text, with about as many points of each curve as the size of the file allows."""
    study = gather(results)
    if not study.entries:
        raise UserError("a report needs at least one run with results")
    if title is None:
        title = f"{len(study.runs)} runs compared" if study.several else study.runs[0].name
    guess = MOST_DATA_BYTES // (BYTES_A_POINT * len(study.entries))
    points = min(max(guess, FEWEST_POINTS), MOST_POINTS)
    while True:
        page = build(study, title, points)
        data = page.data()
        if len(data) <= MOST_DATA_BYTES or points == FEWEST_POINTS:
            return render_page(page, data)
        points = max(points * 2 // 3, FEWEST_POINTS)


def build(study: Study, title: str, points: int) -> Page:
    """The page with at most so many points of each curve."""
    by_run = [staleness_figure(study, run) for run in range(len(study.runs))] if study.several else []
    sections = [
        Section(id="results", title="Results", intro=_how_to_read(study), tables=[results_table(study)]),
        learning_section(study, points),
        target_section(study),
        side_by_side_section(study, [figure for figure in by_run if figure], min(points, 80)),
        timing_section(study, points),
        timeline_section(study),
        power_section(study, points),
        privacy_section(study, points),
        participation_section(study, points),
        spending_section(study, points),
        Section(
            id="about",
            title="Settings",
            intro="Every value that the run used, defaults included. The same settings and seeds give the same results "
            "again.",
            settings=[_settings(run) for run in study.runs],
        ),
    ]
    legend = [entry.style for entry in study.drawn]
    return Page(
        kind="PAOTA report",
        title=title,
        heading=title,
        ran=what_ran(study),
        findings=headline(study),
        sections=[with_coincidences(section, legend) for section in sections if section],
        legend=legend,
        left_out=len(study.entries) - len(study.drawn),
    )


def _how_to_read(study: Study) -> str:
    one_seed = all(len(entry.seeds) == 1 for entry in study.entries)
    spread = (
        "One seed, so there is no spread to show."
        if one_seed
        else "Accuracy is the mean over the seeds and ± their standard deviation; times are medians, with the middle "
        "half of the seeds below them."
    )
    return sentences([spread, "The best of each column is set in bold." if len(study.entries) > 1 else ""])


def _settings(run: Run) -> SettingsFile:
    """What ran; the plug-ins stand in the command, where a reader who keeps them elsewhere can change the path."""
    return SettingsFile(
        name=run.name,
        command=run_again(run),
        toml=to_toml({key: value for key, value in run.settings.items() if key != "plugins"}),
        facts=_flat(run.info),
    )


def run_again(run: Run) -> str:
    """The command that gives the same results from the experiment file."""
    words = ["paota", "run", "experiment.toml"]
    first = run.settings.get("seed", 0)
    if run.seeds and run.seeds != tuple(range(first, first + len(run.seeds))):
        words += ["--seeds", ",".join(map(str, run.seeds)) + ("," if len(run.seeds) == 1 else "")]
    elif len(run.seeds) > 1:
        words += ["--seeds", str(len(run.seeds))]
    for file in run.settings.get("plugins", ()):
        words += ["--plugin", str(file)]
    return shlex.join(words)


def _flat(info: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in info.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key} ")
        else:
            flat[f"{prefix}{key}"] = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return flat
