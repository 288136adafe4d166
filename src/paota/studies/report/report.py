"""The run report, one HTML file for one or several runs, and the parts of it that a notebook shows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.columns import metric
from ...base.errors import UserError, unknown_name
from ...base.files import to_toml, write_text
from ...base.formatting import sentences
from ...base.types import Settings
from ...pages.notebook import as_plotly, page_html
from ...pages.page import Page, Section, SettingsFile, with_coincidences
from ...pages.page import render as render_page
from .devices import devices_section
from .findings import caveats, headline, reached_targets, results_table, what_ran
from .learning import learning_section, side_by_side_section, spending_section, target_section
from .metrics import metric_figure, own_section, power_section, privacy_section, without_constants
from .study import Run, Study, gather
from .timing import timeline_section, timing_section

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

    from ...results.result import Result

# With Plotly's 4.8 MB this keeps the file under 6 MB.
MOST_DATA_BYTES = 900_000
# Points of a curve: 300 is more than a screen can show of most curves, 10 still show their shape.
MOST_POINTS, FEWEST_POINTS = 300, 10
# Approximate size of one point of all curves of one series; a good first guess avoids building the page twice.
BYTES_PER_POINT = 300
AXES = {"time_s": "seconds", "round": "rounds"}  # a user's name of an axis -> the view of a figure


def write(results: Sequence[Result], path: Path, *, title: str | None = None) -> None:
    """Write the report of one or several runs as one offline HTML file.

    Args:
        results: the runs.
        path: of the file, which appears whole or not at all.
        title: of the page (default: the name of the run).
    """
    if not results:
        raise UserError("a report needs at least one run")
    target = Path(path)
    if target.is_dir():
        raise UserError(f"cannot write the report to '{target}': it is a folder, give the name of a file")
    write_text(target, render(results, title=title))


def render(results: Sequence[Result], *, title: str | None = None) -> str:
    """Return the report as text, with as many points of each curve as the size of the file allows."""
    study = gather(results)
    if not study.entries:
        raise UserError("a report needs at least one run with results")
    if title is None:
        title = f"{len(study.runs)} runs compared" if study.several else study.runs[0].name
    guess = MOST_DATA_BYTES // (BYTES_PER_POINT * len(study.entries))
    points = min(max(guess, FEWEST_POINTS), MOST_POINTS)
    while True:
        page = build(study, title, points)
        data = page.data()
        if len(data) <= MOST_DATA_BYTES or points == FEWEST_POINTS:
            return render_page(page, data)
        points = max(points * 2 // 3, FEWEST_POINTS)


def build(study: Study, title: str, points: int) -> Page:
    """Return the page with at most `points` points of each curve."""
    about = "Every value that the run used, defaults included. The same settings and seeds give the same results again."
    sections = [
        Section(id="results", title="Results", intro=_how_to_read(study), tables=[results_table(study)]),
        learning_section(study, points),
        target_section(study),
        side_by_side_section(study, min(points, 80)),
        without_constants(timing_section(study, points), study),
        timeline_section(study),
        without_constants(power_section(study, points), study),
        privacy_section(study, points),
        own_section(study, points),
        without_constants(devices_section(study, points), study),
        spending_section(study, points),
        Section(id="about", title="Settings", intro=about, settings=[_settings(run) for run in study.runs]),
    ]
    legend = [entry.style for entry in study.drawn]
    return Page(
        kind="PAOTA report",
        title=title,
        heading=title,
        ran=what_ran(study),
        findings=[*headline(study), *caveats(study)],
        sections=[with_coincidences(section, legend) for section in sections if section],
        legend=legend,
        left_out=len(study.entries) - len(study.drawn),
    )


def plot(result: Result, column: str, against: str) -> PlotlyFigure:
    """Return the report's figure of a column of the metrics, or a figure in its style.

    Args:
        result: the run.
        column: of its metrics.
        against: "time_s" or "round".
    """
    if against not in AXES:
        raise unknown_name("axis", against, AXES, {"seconds": "time_s", "time": "time_s", "rounds": "round"})
    study, axis = gather([result]), AXES[against]
    legend = [entry.style for entry in study.drawn]
    for figure in learning_section(study, MOST_POINTS).figures:
        if figure.id == column.replace("_", "-"):
            return as_plotly(figure, axis, legend)
    made = metric_figure(study, MOST_POINTS, metric(column), axis=axis)
    if made is None:
        raise UserError(f"nothing to draw: no algorithm of this run has a value in the column '{column}'")
    return as_plotly(made, "all", legend)


def plot_timeline(result: Result, label: str | None) -> PlotlyFigure:
    """Return the report's timeline of one algorithm (default: the first)."""
    figures = timeline_section(gather([result])).figures
    if not figures:
        raise UserError("this run kept no records of single devices, so there is no timeline to draw")
    views = {name: key for key, name in figures[0].choices.items()}
    if label is not None and label not in views:
        raise unknown_name("algorithm label with a timeline", label, views)
    name = label or next(iter(views))
    return as_plotly(figures[0], views[name], [], title=f"{figures[0].title}: {name}")


def result_html(result: Result) -> str:
    """Return the report's findings and table for a notebook."""
    study = gather([result])
    findings = [what_ran(study), *headline(study), *caveats(study)]
    return page_html(study.runs[0].name, findings, results_table(study))


def _how_to_read(study: Study) -> str:
    missed = [study.score.target(target) for target in study.targets if target not in reached_targets(study)]
    return sentences(
        [
            "Accuracy is the mean over the seeds and ± their standard deviation; times are medians, with the quartiles "
            "below them."
            if any(len(entry.seeds) > 1 for entry in study.entries)
            else "One seed, so there is no spread to show.",
            "The best of each column is bold, ties alike." if len(study.entries) > 1 else "",
            f"No algorithm reached {', '.join(missed)}." if missed else "",
        ]
    )


def _settings(run: Run) -> SettingsFile:
    """Return the settings of a run; the command names its plug-ins, where a reader can change their paths."""
    return SettingsFile(
        name=run.name,
        command=run_again(run),
        toml=to_toml({key: value for key, value in run.settings.items() if key != "plugins"}),
        facts=_flat(run.info),
    )


def run_again(run: Run) -> str:
    """Return the command that gives the same results from the experiment file."""
    words = ["paota", "run", "experiment.toml"]
    first = run.settings.get("seed", 0)
    if run.seeds and run.seeds != tuple(range(first, first + len(run.seeds))):
        words += ["--seeds", ",".join(map(str, run.seeds)) + ("," if len(run.seeds) == 1 else "")]
    elif len(run.seeds) > 1:
        words += ["--seeds", str(len(run.seeds))]
    for file in run.settings.get("plugins", ()):
        words += ["--plugin", str(file)]
    return shlex.join(words)


def _flat(info: Settings, prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key} ")
        else:
            flat[f"{prefix}{key}"] = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return flat
