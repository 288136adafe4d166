"""Pages as Markdown, for documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from markupsafe import Markup

from .page import Page, Section, Table, TableCell


def markdown(page: Page) -> str:
    """Return the findings, tables, notes and exported figures of a page.

    A figure appears as the picture that `export` has written beside the download of its section.
    """
    parts = [f"- {_escaped(finding)}" for finding in page.findings]
    for section in page.sections:
        parts += _section(section)
    return "\n".join(parts) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"\n## {_escaped(section.title)}\n"
    yield _escaped(section.intro)
    if section.download:
        yield f"\n![{section.title}]({PurePosixPath(section.download).with_suffix('.png')})"
    for table in section.tables:
        if table.title:
            yield f"\n**{_escaped(table.title)}**"
        if table.intro:
            yield f"\n{_escaped(table.intro)}"
        if table.rows:
            yield from _table(table)
    for note in section.notes:
        yield f"\n{_escaped(note.title)}:\n"
        yield from (f"- {_escaped(sentence)}" for sentence in (*note.items, note.remark) if sentence)


def _table(table: Table) -> Iterator[str]:
    yield f"\n| {' | '.join(table.heads)} |"
    yield "|" + "---|" * len(table.heads)
    for row in table.rows:
        yield f"| {' | '.join(_cell(cell) for cell in (row.head, *row.cells))} |"


def _cell(cell: TableCell) -> str:
    text = _escaped(cell.text or cell.badge)
    return " ".join([f"**{text}**" if cell.bold else text, *(f"({_escaped(note)})" for note in cell.notes)])


def _escaped(text: str) -> str:
    if isinstance(text, Markup):  # HTML is valid in Markdown
        return text
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
