"""What `Result.plot` and a notebook show of a result: the report's own figures, its headline and its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.columns import metric
from ...base.errors import UserError, unknown_name
from ...pages.figure import Style
from ...pages.interactive import as_plotly
from ...pages.notebook import page_html, picture
from .findings import headline, what_ran
from .learning import learning_section
from .quantity import quantity_figure
from .results import results_table
from .study import ResultLike, Study, gather
from .timing import timeline_section

if TYPE_CHECKING:
    from plotly.graph_objects import Figure as PlotlyFigure

MOST_POINTS, FEW_POINTS = 300, 60
AXES = {"time_s": "seconds", "round": "rounds"}  # what a user says -> the view of a figure


def plot(result: ResultLike, column: str, against: str) -> PlotlyFigure:
    """A column of the metrics, one curve an algorithm: the figure of the report, or one in its style."""
    if against not in AXES:
        raise unknown_name("axis", against, AXES, {"seconds": "time_s", "time": "time_s", "rounds": "round"})
    study, axis = gather([result]), AXES[against]
    for figure in learning_section(study, MOST_POINTS).figures:
        if figure.id == column.replace("_", "-"):
            return as_plotly(figure, axis, _legend(study))
    made = quantity_figure(study, MOST_POINTS, metric(column), axis=axis)
    if made is None:
        raise UserError(f"nothing to draw: no algorithm of this run has a value in the column '{column}'")
    return as_plotly(made, "all", _legend(study))


def plot_timeline(result: ResultLike, label: str | None) -> PlotlyFigure:
    """Who trains, waits and sends at the beginning of the run of one algorithm."""
    study = gather([result])
    figures = timeline_section(study).figures
    if not figures:
        raise UserError("this run kept no records of single devices, so there is no timeline to draw")
    views = {name: key for key, name in figures[0].choices.items()}
    if label is not None and label not in views:
        raise unknown_name("algorithm label with a timeline", label, views)
    name = label or next(iter(views))
    return as_plotly(figures[0], views[name], _legend(study), title=f"{figures[0].title}: {name}")


def result_html(result: ResultLike) -> str:
    """The report's headline and table, and the test accuracy against simulated seconds."""
    study = gather([result])
    drawn = [figure for figure in learning_section(study, FEW_POINTS).figures if figure.id == "test-accuracy"]
    shown = (
        picture(drawn[0].views["seconds"], _legend(study), "test accuracy against simulated seconds") if drawn else ""
    )
    return page_html(study.runs[0].name, [what_ran(study), *headline(study)], results_table(study), shown)


def _legend(study: Study) -> list[Style]:
    return [entry.style for entry in study.drawn]
