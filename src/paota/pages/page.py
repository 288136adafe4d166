"""A page: what it says and shows as plain data, and the one template that makes a file of it.

The file is complete: drawing library, data, style and script are inside, and its content security policy admits exactly
these scripts. A further kind of page is a function that returns a `Page`; it writes no HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from markupsafe import Markup

from ..base.formatting import printable, sentences
from . import palette
from .figure import Figure, Style, coinciding

Tone = Literal["good", "middling", "alert"]


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """A value with smaller notes below it, perhaps in bold (the best of its column), perhaps with a coloured badge."""

    text: str
    notes: Sequence[str] = ()
    bold: bool = False
    muted: bool = False
    badge: str = ""
    link: str = ""  # beside the page
    tone: Tone = "alert"  # of the badge


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A line of a table; `series` shows the swatch of that entry of the legend beside its head."""

    head: TableCell
    cells: Sequence[TableCell]
    series: int | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """`heads` name the columns, the row's head included; `groups` are (name, columns) above all but the first.

    A table of `prose` aligns left and wraps, and stacks its cells on a phone; a `folded` one opens on a click.
    """

    label: str
    heads: Sequence[str]
    rows: Sequence[TableRow]
    groups: Sequence[tuple[str, int]] = ()
    title: str = ""
    intro: str = ""
    prose: bool = False
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class Note:
    """A titled list of sentences and a remark below it."""

    title: str
    items: Sequence[str]
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """An experiment file to look at and to save, the command that runs it again, and facts about where it ran."""

    name: str
    toml: str
    command: str = ""
    facts: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading of the page and a sentence on what it shows; tables, notes, figures in a grid of columns, settings."""

    id: str
    title: str
    intro: str
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    figures: Sequence[Figure] = ()
    settings: Sequence[SettingsFile] = ()
    columns: int = 2
    download: str = ""  # a file beside the page with the same figures


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything on a page, top to bottom. `kind` stands above the heading, `ran` below it, then the findings."""

    kind: str
    title: str
    heading: str
    ran: str
    findings: Sequence[str]
    sections: Sequence[Section]
    legend: Sequence[Style] = ()
    left_out: int = 0  # series that only the tables show
    warning: str = ""
    warnings: Sequence[str] = ()
    links: Mapping[str, str] = field(default_factory=dict)  # to other pages, beside those to the sections
    follow: str = ""  # where the page asks for news of itself; of a file that is complete, nothing

    def figures(self) -> Iterator[Figure]:
        """All figures of all sections."""
        return (figure for section in self.sections for figure in section.figures)

    @property
    def has_axis(self) -> bool:
        """Whether some figure can be drawn against seconds or rounds."""
        return any(figure.group == "axis" for figure in self.figures())

    def data(self) -> str:
        """Everything the browser needs to draw, as JSON for the inside of a script element."""
        return embedded_json(
            {
                "series": [style.payload() for style in self.legend],
                "palette": palette.payload(),
                "figures": {figure.id: figure.payload() for figure in self.figures()},
            }
        )


def with_coincidences(section: Section, legend: Sequence[Style]) -> Section:
    """The section, its captions saying which series lie on each other in the view that is shown first."""

    def said(figure: Figure) -> Figure:
        first = next(iter(figure.views.values()))
        groups = [[legend[series].name for series in group] for group in coinciding(first.traces)]
        words = [f"{', '.join(names[:-1])} and {names[-1]} coincide." for names in groups]
        return replace(figure, caption=sentences([figure.caption, *words])) if words else figure

    return replace(section, figures=[said(figure) for figure in section.figures])


def render(page: Page, data: str | None = None) -> str:
    """The whole document. `data`: what `page.data()` gave, if it is at hand."""
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), asset("page.js"), *([asset("live.js")] if page.follow else [])]
    return _document(page, data or page.data(), palette.theme_css() + asset("page.css"), scripts)


def render_news(page: Page) -> str:
    """The document without style and scripts: what a page that is followed gets when it asks for news."""
    return _document(page, page.data(), "", [])


def _document(page: Page, data: str, style: str, scripts: Sequence[str]) -> str:
    text: str = _template().render(
        page=page,
        style=Markup(style),
        data=Markup(data),
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ").join(Markup(script_hash(script)) for script in scripts),
    )
    return text


def embedded_json(value: Any) -> str:
    """JSON for the inside of a script element: `</script>`, `<!--` and U+2028 cannot appear in it."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_hash(script: str) -> str:
    """The source expression by which a content security policy admits exactly this script."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def asset(name: str) -> str:
    """One of the files that ship with this package."""
    return resources.files("paota.pages").joinpath("assets", name).read_text(encoding="utf-8")


def environment() -> Any:
    """Jinja as all pages use it: everything is escaped, control characters are shown, an unknown name is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # costs as much as the rest of the import

    return Environment(
        autoescape=True,
        loader=FunctionLoader(asset),
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _template() -> Any:
    return environment().get_template("base.html")
