"""A page: its contents as plain data, and the one template that turns them into a file.

The file is complete: drawing library, data, style and script are inside, and its content security policy admits exactly
these scripts. A new kind of page is a function that returns a `Page`; it writes no HTML.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Literal

from markupsafe import Markup

from ..base.formatting import isolated, listing, printable
from ..base.types import Json
from . import palette
from .figure import Figure, Style, alt_text, coinciding

if TYPE_CHECKING:
    from jinja2 import Environment, Template

Tone = Literal["good", "middling", "alert"]


@dataclass(frozen=True, kw_only=True)
class TableCell:
    """A value with smaller notes below it; bold for the best of its column, perhaps with a coloured badge."""

    text: str
    notes: Sequence[str] = ()
    bold: bool = False
    muted: bool = False
    badge: str = ""
    link: str = ""  # to a file beside the page
    tone: Tone = "alert"  # of the badge


@dataclass(frozen=True, kw_only=True)
class TableRow:
    """A row of a table; `series` is the legend entry whose swatch precedes the head."""

    head: TableCell
    cells: Sequence[TableCell]
    series: int | None = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table with a head for each column, that of the row heads included.

    `groups` are (name, number of columns) above all columns but the first. With `prose` the table aligns left, wraps, and
    stacks its cells on a phone. A `folded` table opens on a click.
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
    """A heading, a sentence on what the section shows, then tables, notes, figures in a grid, and settings.

    The figures after the first `unfolded` ones open on a click.
    """

    id: str
    title: str
    intro: str
    tables: Sequence[Table] = ()
    notes: Sequence[Note] = ()
    figures: Sequence[Figure] = ()
    settings: Sequence[SettingsFile] = ()
    columns: int = 2
    unfolded: int | None = None  # all of them
    download: str = ""  # a file beside the page with the same figures


@dataclass(frozen=True, kw_only=True)
class Page:
    """The contents of a page from top to bottom. `kind` is above the heading, `ran` below it, then the findings."""

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
    follow: str = ""  # the address that a live page asks for news of itself; empty for a complete file

    def figures(self) -> Iterator[Figure]:
        """Return the figures of all sections."""
        return (figure for section in self.sections for figure in section.figures)

    @property
    def has_axis(self) -> bool:
        """Return whether some figure can be drawn against seconds or rounds."""
        return any(figure.group == "axis" for figure in self.figures())

    def data(self) -> str:
        """Return everything that the browser needs to draw, as JSON for the inside of a script element."""
        return embedded_json(
            {
                "series": [style.payload() for style in self.legend],
                "palette": palette.payload(),
                "figures": {figure.id: figure.payload() for figure in self.figures()},
            }
        )


def with_coincidences(section: Section, legend: Sequence[Style]) -> Section:
    """Return the section with captions that name the series which coincide in the first view."""

    def explained(figure: Figure) -> Figure:
        first = next(iter(figure.views.values()))
        groups = [[legend[series].name for series in group] for group in coinciding(first.traces)]
        words = [Markup(" {} coincide.").format(listing([isolated(name) for name in names])) for names in groups]
        return replace(figure, caption=Markup("{}{}").format(figure.caption, Markup().join(words))) if words else figure

    return replace(section, figures=[explained(figure) for figure in section.figures])


def render(page: Page, data: str | None = None) -> str:
    """Return the whole document. `data` is the result of `page.data()`, if it is already known."""
    from plotly.offline import get_plotlyjs  # start-up time

    scripts = [get_plotlyjs(), asset("page.js"), *([asset("live.js")] if page.follow else [])]
    return _document(page, data or page.data(), palette.theme_css() + asset("page.css"), scripts)


def render_news(page: Page) -> str:
    """Return the document without style and scripts: the answer to a live page that asks for news."""
    return _document(page, page.data(), "", [])


def _document(page: Page, data: str, style: str, scripts: Sequence[str]) -> str:
    sections = [
        replace(section, figures=[replace(figure, alt=alt_text(figure, page.legend)) for figure in section.figures])
        for section in page.sections
    ]
    return _template().render(
        page=replace(page, sections=sections),
        style=Markup(style),
        data=Markup(data),
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ").join(Markup(script_hash(script)) for script in scripts),
    )


def embedded_json(value: Json) -> str:
    """Return JSON for the inside of a script element: `</script>`, `<!--` and U+2028 cannot appear in it."""
    plain = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_hash(script: str) -> str:
    """Return the source expression with which a content security policy admits exactly this script."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def asset(name: str) -> str:
    """Return the text of a file that ships with this package."""
    return resources.files("paota.pages").joinpath("assets", name).read_text(encoding="utf-8")


def environment() -> Environment:
    """Return Jinja as all pages use it: it escapes every text, shows control characters and rejects unknown names."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # start-up time

    return Environment(
        autoescape=True,
        loader=FunctionLoader(asset),
        undefined=StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _template() -> Template:
    return environment().get_template("base.html")
