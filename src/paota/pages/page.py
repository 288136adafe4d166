"""The page: sections and figures into HTML, and the data that the browser draws them from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from ..runs.files import to_toml
from . import markup, palette
from .figure import Figure, Section, View, drawn
from .study import Run, Study
from .verdict import headline, what_ran

DASH_LENGTHS = {
    "solid": "",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "11 4",
    "longdashdot": "11 3 2 3",
}


def asset(name: str) -> str:
    """One of the files that ship with this package."""
    return resources.files("paota.pages").joinpath("assets", name).read_text(encoding="utf-8")


def payload(study: Study, sections: Sequence[Section]) -> dict[str, Any]:
    """Everything the browser needs to draw: the series with their styles, the figures, the colours."""
    return {
        "series": [
            {"name": series.name, "colour": series.colour, "dash": series.dash, "strokes": DASH_LENGTHS[series.dash]}
            for series in drawn(study)
        ],
        "palette": {
            theme: {
                "series": palette.SERIES[theme],
                "staleness": palette.STALENESS[theme],
                "staleness-text": palette.STALENESS_TEXT[theme],
                "chrome": palette.CHROME[theme],
            }
            for theme in ("light", "dark")
        },
        "figures": {
            figure.id: {
                "group": figure.group,
                "title": figure.title,
                "views": {key: _view(view) for key, view in figure.views.items()},
            }
            for section in sections
            for figure in section.figures
        },
    }


def page(
    study: Study,
    sections: Sequence[Section],
    timelines: Sequence[tuple[str, str]],
    *,
    title: str,
    data: str,
    plotly: str,
) -> str:
    """The whole document, with the drawing library, the data, the style and the script inside."""
    script = asset("page.js")
    parts = {
        "title": markup.text(title),
        "heading": markup.name(title),
        "script_hashes": f"{markup.script_hash(plotly)} {markup.script_hash(script)}",
        "style": palette.theme_css() + asset("page.css"),
        "ran": what_ran(study),
        "findings": "".join(f"<p>{sentence}</p>" for sentence in headline(study)),
        "nav": "".join(f'<li><a href="#{section.id}">{markup.text(section.title)}</a></li>' for section in sections),
        "legend": _legend(study),
        "sections": "".join(_section(section, timelines) for section in sections) + _about(study),
        "data": data,
        "plotly": plotly,
        "script": script,
    }
    return markup.filled(asset("page.html"), parts)


def _view(view: View) -> dict[str, Any]:
    shown: dict[str, Any] = {"traces": view.traces, "layout": view.layout, "columns": view.columns}
    if view.record_columns:
        shown["records"] = view.record_columns
    return shown


def _legend(study: Study) -> str:
    buttons = "".join(
        f'<li><button type="button" class="chip" data-series="{series.index}" aria-pressed="true">'
        f'<span class="swatch" data-swatch="{series.index}"></span>{markup.name(series.name)}</button></li>'
        for series in drawn(study)
    )
    left_out = len(study.series) - len(drawn(study))
    note = f"<li>{left_out} more in the table only</li>" if left_out else ""
    return buttons + note


def _section(section: Section, timelines: Sequence[tuple[str, str]]) -> str:
    figures = "".join(_figure(figure, timelines) for figure in section.figures)
    layout = "grid thirds" if section.columns == 3 else "grid"
    grid = f'<div class="{layout}">{figures}</div>' if figures else ""
    return (
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">'
        f'<h2 id="{section.id}-title">{markup.text(section.title)}</h2>'
        f'<p class="intro">{markup.text(section.intro)}</p>{section.html}{grid}</section>'
    )


def _figure(figure: Figure, timelines: Sequence[tuple[str, str]]) -> str:
    selector = _selector(timelines) if figure.group == "timeline" and len(timelines) > 1 else ""
    return (
        f'<figure class="card{" wide" if figure.wide else ""}" id="figure-{figure.id}">'
        f'<div class="card-head"><h3><bdi>{markup.text(figure.title)}</bdi></h3>{selector}</div>'
        f'<div class="plot" data-figure="{figure.id}" role="img" aria-label="{markup.text(figure.alt)}" '
        f'style="height:{figure.height_px}px"></div>'
        f"<figcaption>{markup.text(figure.caption)}</figcaption>"
        f'<details class="data" data-table="{figure.id}"><summary>Show data'
        f'<span class="hidden"> of {markup.text(figure.title)}</span></summary></details></figure>'
    )


def _selector(timelines: Sequence[tuple[str, str]]) -> str:
    options = "".join(f'<option value="{key}">{markup.text(name)}</option>' for key, name in timelines)
    return f'<label class="select">Algorithm <select data-group="timeline">{options}</select></label>'


def _about(study: Study) -> str:
    return (
        '<section id="about" aria-labelledby="about-title"><h2 id="about-title">Settings, versions and rerun</h2>'
        '<p class="intro">Every value that the run used, defaults included. The same settings and seeds give the '
        "same results again.</p>" + "".join(_run_about(position, run) for position, run in enumerate(study.runs))
    ) + "</section>"


def _run_about(position: int, run: Run) -> str:
    file_name = "experiment.toml"
    seeds = f" --seeds {len(run.seeds)}" if len(run.seeds) > 1 and "seeds" not in run.settings else ""
    facts = "".join(f"<dt>{markup.text(key)}</dt><dd>{markup.text(value)}</dd>" for key, value in _flat(run.info))
    return (
        f'<div class="card run"><h3>{markup.name(run.name)}</h3>'
        f"<p>To run it again, save the settings as <code>{file_name}</code> and type</p>"
        f"<pre><code>paota run {file_name}{seeds}</code></pre>"
        f'<p><button type="button" class="button" data-save="settings-{position}" data-file="{file_name}">'
        "Save settings</button></p>"
        "<details><summary>Resolved settings</summary>"
        f'<pre class="settings" tabindex="0" id="settings-{position}">{markup.text(to_toml(run.settings))}</pre>'
        f'</details><details open><summary>Versions and machine</summary><dl class="facts">{facts}</dl></details></div>'
    )


def _flat(info: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    flat = []
    for key, value in info.items():
        shown = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat += _flat(value, f"{shown} ")
        elif isinstance(value, (list, tuple)):
            flat.append((shown, ", ".join(map(str, value))))
        else:
            flat.append((shown, str(value)))
    return flat
